/** Announcements of a body in its headers: length, type, coding; and how much of it arrived. */

/** Bytes that have arrived of the bodies of requests, so far: none of one that nobody reads. */
export const arrivedBytes = new WeakMap<Request, number>();

/** The announced length of a body in bytes; 0 without one. */
export function lengthOf(headers: Headers): number {
  const length = Number(headers.get('Content-Length') ?? 0);
  return Number.isSafeInteger(length) ? length : 0;
}

/** The media type of a body, without its parameters, in lower case. */
export function essenceOf(headers: Headers): string {
  const [type = ''] = (headers.get('Content-Type') ?? '').split(';');
  return type.trim().toLowerCase();
}

/** Tells whether a body has a content coding (RFC 9110 section 8.4): it is not the file itself. */
export function isEncoded(headers: Headers): boolean {
  return (headers.get('Content-Encoding') ?? '').split(',').some((each) => !/^(identity)?$/i.test(each.trim()));
}

/** Tells whether the body is JSON. */
export function isJson(headers: Headers): boolean {
  return essenceOf(headers) === 'application/json';
}
