/** Awaits work, and tells of its failure before it throws that. */
export async function onFailure<T>(work: Promise<T>, tell: (error: unknown) => void): Promise<T> {
  try {
    return await work;
  } catch (error) {
    tell(error);
    throw error;
  }
}
