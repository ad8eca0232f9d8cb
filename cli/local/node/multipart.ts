/**
 * multipart/form-data (RFC 7578 on RFC 2046 section 5.1) as a stream, in constant memory. It ends without an error only when
 * the closing boundary has arrived: a body that was cut off must not look complete.
 */

import { release } from '../../io/byte-stream.ts';

/** A part begins, some of its bytes, or the closing boundary. */
export type PartEvent =
  | { kind: 'part'; name: string; filename: string; type: string }
  | { kind: 'bytes'; bytes: Buffer }
  | { kind: 'closed' };

/** A body that is not what its headers promise. */
export class MultipartError extends Error {
  override readonly name = 'MultipartError';
}

/** The most bytes of the headers of one part. */
const headerBytes = 16 * 1024;

/**
 * The boundary of a Content-Type header.
 * @throws MultipartError
 */
export function boundaryOf(contentType: string | undefined): string {
  const [, quoted, token] =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(contentType ?? '') ?? [];
  const boundary = quoted ?? token;
  // RFC 2046 section 5.1.1: at most 70 characters.
  if (boundary === undefined || boundary.length > 70)
    throw new MultipartError('Content-Type is not multipart/form-data with a boundary');
  return boundary;
}

/**
 * Splits a body into its parts. It consumes the chunks, and the bytes of an event are valid until the next event is
 * requested.
 */
export async function* parts(body: AsyncIterable<Buffer>, boundary: string): AsyncGenerator<PartEvent> {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const chunks = body[Symbol.asyncIterator]();
  // The first delimiter may be at the very start, without the line break that belongs to the others.
  let rest: Buffer = Buffer.from('\r\n');
  let chunk = rest;

  async function more(): Promise<void> {
    const { done, value } = await chunks.next();
    if (done) throw new MultipartError('multipart: unexpected end of the body');
    rest = rest.length === 0 ? value : Buffer.concat([rest, value]);
    release(chunk);
    chunk = rest;
  }

  async function until(mark: string): Promise<string> {
    for (;;) {
      const at = rest.indexOf(mark);
      if (at > headerBytes || (at < 0 && rest.length > headerBytes))
        throw new MultipartError('multipart: the headers of a part are too long');
      if (at >= 0) {
        const text = rest.toString('utf8', 0, at);
        rest = rest.subarray(at + mark.length);
        return text;
      }
      await more();
    }
  }

  /** Everything up to the next delimiter, which is consumed. */
  async function* upToDelimiter(): AsyncGenerator<Buffer> {
    for (;;) {
      const at = rest.indexOf(delimiter);
      if (at >= 0) {
        if (at > 0) yield rest.subarray(0, at);
        rest = rest.subarray(at + delimiter.length);
        return;
      }
      const end = delimiterStart(rest, delimiter);
      if (end > 0) yield rest.subarray(0, end);
      rest = rest.subarray(end);
      await more();
    }
  }

  try {
    // The preamble is ignored.
    for await (const _ of upToDelimiter());
    for (;;) {
      while (rest.length < 2) await more();
      if (rest.toString('latin1', 0, 2) === '--') break;
      if ((await until('\r\n')).trim() !== '') throw new MultipartError('multipart: something follows a boundary');
      // A part without headers has its empty line at once.
      while (rest.length < 2) await more();
      const headers = rest.toString('latin1', 0, 2) === '\r\n' ? await until('\r\n') : await until('\r\n\r\n');
      yield { kind: 'part', ...parseHeaders(headers) };
      for await (const bytes of upToDelimiter()) yield { kind: 'bytes', bytes };
    }
    // So is the epilogue, which is read nevertheless, so that the connection can be reused.
    for (let next = await chunks.next(); !next.done; next = await chunks.next());
    yield { kind: 'closed' };
  } finally {
    await chunks.return?.();
  }
}

/** The index from which the end of `bytes` could be the beginning of the delimiter. */
function delimiterStart(bytes: Buffer, delimiter: Buffer): number {
  for (let at = Math.max(0, bytes.length - delimiter.length + 1); ; at += 1) {
    at = bytes.indexOf(13, at);
    if (at < 0) return bytes.length;
    if (delimiter.subarray(0, bytes.length - at).equals(bytes.subarray(at))) return at;
  }
}

function parseHeaders(headers: string): { name: string; filename: string; type: string } {
  const fields = new Map<string, string>();
  for (const line of headers.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) fields.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const disposition = fields.get('content-disposition') ?? '';
  const parameter = (key: string) => new RegExp(`;\\s*${key}="([^"]*)"`, 'i').exec(disposition)?.[1] ?? '';
  return { name: parameter('name'), filename: parameter('filename'), type: fields.get('content-type') ?? '' };
}
