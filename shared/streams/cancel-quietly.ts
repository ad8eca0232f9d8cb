/** The end of streams that nobody reads any more. */

/**
 * Cancels a stream, or a reader of one. What it fails with does not matter: a body that has broken
 * off makes no answer a failure, and hides no error.
 * @param stream null and undefined: there is none
 */
export async function cancelQuietly(
  stream: { cancel(reason?: unknown): Promise<void> } | null | undefined,
  reason?: unknown,
): Promise<void> {
  await stream?.cancel(reason).catch(() => undefined);
}
