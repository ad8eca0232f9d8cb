/**
 * multipart/form-data (RFC 7578 on RFC 2046 section 5.1) as a stream, in constant memory. It ends
 * without an error only when the closing boundary has arrived: a body that was cut off must not
 * look complete.
 */

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

/** The boundary of a Content-Type header. @throws MultipartError */
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
 * Splits a body into its parts. The bytes of an event are valid until the next event is requested.
 * @param body its chunks, each of which need only be valid until the next one is requested
 */
export async function* parts(body: AsyncIterable<Buffer>, boundary: string): AsyncGenerator<PartEvent> {
  const chunks = body[Symbol.asyncIterator]();
  const text = delimitedText(chunks, Buffer.from(`\r\n--${boundary}`));
  try {
    // The preamble is ignored.
    while (!text.take().isOver) await text.more();
    while ((await text.next(2)) !== '--') {
      if ((await text.until('\r\n')).trim() !== '') throw new MultipartError('multipart: something follows a boundary');
      // A part without headers has its empty line at once.
      const headers = await text.until((await text.next(2)) === '\r\n' ? '\r\n' : '\r\n\r\n');
      yield { kind: 'part', ...parseHeaders(headers) };
      for (;;) {
        const { bytes, isOver } = text.take();
        if (bytes.length > 0) yield { kind: 'bytes', bytes };
        if (isOver) break;
        await text.more();
      }
    }
    // So is the epilogue, which is read nevertheless, so that the connection can be reused.
    for (let next = await chunks.next(); !next.done; next = await chunks.next());
    yield { kind: 'closed' };
  } finally {
    await chunks.return?.();
  }
}

function delimitedText(chunks: AsyncIterator<Buffer>, delimiter: Buffer) {
  // The first delimiter may be at the very start, without the line break of the others.
  let rest: Buffer = Buffer.from('\r\n');

  async function more(): Promise<void> {
    const kept = Buffer.from(rest);
    const { done, value } = await chunks.next();
    if (done) throw new MultipartError('multipart: unexpected end of the body');
    rest = kept.length === 0 ? value : Buffer.concat([kept, value]);
  }

  return {
    more,

    /** Returns the next bytes as text, without taking them. */
    async next(bytes: number): Promise<string> {
      while (rest.length < bytes) await more();
      return rest.toString('latin1', 0, bytes);
    },

    async until(mark: string): Promise<string> {
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
    },

    /** Takes what has arrived up to the next delimiter, and that. `isOver`: it was there. */
    take(): { bytes: Buffer; isOver: boolean } {
      const at = rest.indexOf(delimiter);
      const isOver = at >= 0;
      const end = isOver ? at : delimiterStart(rest, delimiter);
      const bytes = rest.subarray(0, end);
      rest = rest.subarray(isOver ? end + delimiter.length : end);
      return { bytes, isOver };
    },
  };
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
