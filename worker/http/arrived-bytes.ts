/** Counts the bytes of uploads, for what an API key used. */

const arrived = new WeakMap<Request, number>();

/** Records how many bytes of a request's body have arrived so far. */
export function setArrivedBytes(request: Request, bytes: number): void {
  arrived.set(request, bytes);
}

/** How many bytes of a body have arrived that is, or was, an upload; undefined for any other one. */
export function arrivedBytes(request: Request): number | undefined {
  return arrived.get(request);
}
