/** Lengths of bodies, as their headers announce them. */

/** The announced length of a body in bytes; 0 without one. */
export function lengthOf(headers: Headers): number {
  const length = Number(headers.get('Content-Length') ?? 0);
  return Number.isSafeInteger(length) ? length : 0;
}
