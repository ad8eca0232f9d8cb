/** Whether two arrays hold the same bytes. Not for secrets: it stops at the first difference. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
