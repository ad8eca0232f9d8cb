/** The body of an upload: its bytes as a stream, read in big pieces and counted, whether they come as they are or in JSON. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { jsonUpload } from './json.ts';

/** Bytes of one read: workerd hands out 4 KiB otherwise, and the cost is by the read. */
const readBytes = 1024 * 1024;
/** As many of a file's first bytes as tell a container from other files. */
const headBytes = 64;

export type UploadBody = {
  /** The file's bytes. It errors with the code that says what was wrong with the body. */
  stream: ReadableStream<Uint8Array>;
  /** What a JSON body says the file is called; known once the stream has ended. */
  filename(): string | undefined;
  /** Bytes of the file that have come so far. */
  size(): number;
  /** The first bytes of the file, at most `headBytes`. */
  head(): Uint8Array;
  /** What broke the body, if it is broken: streams between here and the catcher may replace an error by one of their own. */
  fault(): SealpinError | undefined;
};

/**
 * Refuses a body whose announced length is over the limit, before a byte of it is read.
 * @throws too_large
 */
export function checkLength(request: Request, limitBytes: number | undefined): void {
  const announced = Number(request.headers.get('Content-Length') ?? Number.NaN);
  if (limitBytes !== undefined && announced > limitBytes) throw tooLarge(limitBytes);
}

/**
 * The body of a request, read as it is asked for.
 * @param limitBytes how long the body may be; counted, because a length need not be announced
 * @param json whether the body is `{filename, data}` rather than the bytes themselves
 */
export function uploadBody(request: Request, limitBytes: number | undefined, json: boolean): UploadBody {
  const reader = request.body?.getReader({ mode: 'byob' });
  const parser = json ? jsonUpload() : undefined;
  let buffer = new ArrayBuffer(readBytes);
  let received = 0;
  let size = 0;
  let head = new Uint8Array(0);
  let filename: string | undefined;
  let fault: SealpinError | undefined;

  async function next(): Promise<Uint8Array[] | undefined> {
    if (reader === undefined) {
      if (parser !== undefined) ({ filename } = parser.finish());
      return undefined;
    }
    // Not further than one byte over the limit: a body that has passed it is not waited for.
    const wanted = Math.min(readBytes, (limitBytes ?? Number.MAX_SAFE_INTEGER) - received + 1);
    const { value, done } = await reader.readAtLeast(wanted, new Uint8Array(buffer, 0, wanted));
    const bytes = value ?? new Uint8Array(0);
    received += bytes.length;
    if (limitBytes !== undefined && received > limitBytes) throw tooLarge(limitBytes);
    // The parser copies what it takes, so one buffer serves all reads; raw bytes go on to others, who keep them.
    if (bytes.length > 0) buffer = parser === undefined ? new ArrayBuffer(readBytes) : bytes.buffer;
    const out = parser === undefined ? [bytes] : parser.write(bytes);
    if (done && parser !== undefined) ({ filename } = parser.finish());
    return done && bytes.length === 0 ? undefined : out;
  }

  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          for (;;) {
            const pieces = await next();
            if (pieces === undefined) return controller.close();
            let given = false;
            for (const piece of pieces) {
              if (piece.length === 0) continue;
              if (head.length < headBytes) head = Uint8Array.of(...head, ...piece.subarray(0, headBytes - head.length));
              size += piece.length;
              controller.enqueue(piece);
              given = true;
            }
            if (given) return;
          }
        } catch (cause) {
          fault = isSealpinError(cause) ? cause : new SealpinError('body_incomplete', undefined, { cause });
          throw fault;
        }
      },
      async cancel(reason) {
        await reader?.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, filename: () => filename, size: () => size, head: () => head, fault: () => fault };
}

function tooLarge(limitBytes: number): SealpinError {
  return new SealpinError('too_large', `the body may have at most ${limitBytes} bytes`);
}
