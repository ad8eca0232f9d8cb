/**
 * An upload by tus 1.0.0 (https://tus.io/protocols/resumable-upload): bytes in requests of a fixed
 * size, each of which may be repeated.
 */
import { encodePadded, utf8 } from '../../../shared/crypto/bytes.ts';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { cancelQuietly } from '../../../shared/streams/cancel-quietly.ts';
import { byteReader } from '../../../shared/streams/reader.ts';
import { chunkType, tusVersion } from '../../../shared/tus-protocol.ts';
import { httpClient, type HttpOptions } from '../http-client.ts';
import { sleep } from '../../../shared/streams/timing.ts';

export type TusOptions = HttpOptions & {
  /** Bytes of a request; one such piece is in memory. */
  pieceBytes: number;
  /** The longest wait for a response, in ms. */
  responseMs: number;
  /** The wait before another attempt, in ms, at first; it doubles. */
  retryMs?: number;
};

export type TusFile = {
  /** Its bytes, exactly `length` of them. */
  body: ReadableStream<Uint8Array>;
  length: number;
  /** `Upload-Metadata`, as texts. */
  metadata: Record<string, string>;
};

/** Number of times in a row that a request may fail without progress. */
const attempts = 4;
const version = { 'tus-resumable': tusVersion };
const tusApi = { path: '', statuses: [200, 201, 204], name: 'a server of tus', address: 'where uploads are created' };
/** Errors that another attempt does not change. */
const lasting = ['misconfigured', 'disk_full'] as const;

/**
 * Uploads a file; the address of `o` is where uploads are created.
 * @throws what `body` fails with; pinning_failed when the server loses what it has taken, or breaks
 * the protocol
 */
export async function tusUpload(o: TusOptions, file: TusFile, signal: AbortSignal): Promise<void> {
  const server = tusServer(o, signal);
  const at = await server.create(file);
  let start = 0;
  for await (const piece of piecesOf(file.body, o.pieceBytes)) {
    await sendPiece(server, at, piece, start);
    start += piece.length;
  }
  if (start !== file.length) throw server.failed(`a file of ${file.length} bytes was to be sent, and ${start} came`);
}

type TusServer = ReturnType<typeof tusServer>;

/** Makes the requests of an upload. */
function tusServer(o: TusOptions, signal: AbortSignal) {
  const { send, withTimeout, failed, misconfigured } = httpClient(o, tusApi);
  const { responseMs, retryMs = 1000 } = o;
  const endpoint = new URL(o.url);

  async function request(what: Parameters<typeof send>[1]): Promise<Response> {
    return await withTimeout(signal, responseMs, async (limited) => {
      const response = await send(`upload (${what.method})`, what, limited);
      await cancelQuietly(response.body);
      return response;
    });
  }

  function offsetOf(response: Response): number {
    const offset = Number(response.headers.get('upload-offset') ?? NaN);
    if (!Number.isSafeInteger(offset)) throw failed('its response has no Upload-Offset');
    return offset;
  }

  async function create(file: TusFile): Promise<URL> {
    const metadata = Object.entries(file.metadata).map(([key, text]) => `${key} ${encodePadded(utf8(text))}`);
    const headers = { ...version, 'upload-length': String(file.length), 'upload-metadata': metadata.join(',') };
    const response = await request({ method: 'POST', headers, at: endpoint });
    const location = URL.parse(response.headers.get('location') ?? '', endpoint);
    if (response.status !== 201 || location === null) throw failed('it did not say where the upload is');
    // Our credentials are for this server.
    if (location.origin !== endpoint.origin)
      throw misconfigured(
        `it sent an upload to ${location.origin}`,
        'the pinning service sends uploads to another server',
      );
    return location;
  }

  /** Asks how many bytes are there. */
  async function offset(at: URL): Promise<number> {
    return offsetOf(await request({ method: 'HEAD', headers: version, at }));
  }

  /** Sends bytes from an offset. @returns how many bytes are there */
  async function append(at: URL, start: number, bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    const headers = { ...version, 'upload-offset': String(start), 'content-type': chunkType };
    return offsetOf(await request({ method: 'PATCH', headers, bytes, at }));
  }

  return { id: o.id, failed, create, offset, append, retryMs, signal };
}

/** Sends a piece that begins at a byte of the file. */
async function sendPiece(
  { id, failed, offset, append, retryMs, signal }: TusServer,
  at: URL,
  piece: Uint8Array<ArrayBuffer>,
  start: number,
): Promise<void> {
  let sent = 0;
  for (let failures = 0; sent < piece.length;) {
    const before = sent;
    try {
      if (failures > 0) sent = (await offset(at)) - start;
      if (sent >= 0 && sent < piece.length) sent = (await append(at, start + sent, piece.subarray(sent))) - start;
    } catch (error) {
      if (isSealpinError(error, ...lasting)) throw error;
      signal.throwIfAborted();
      failures += 1;
      if (failures >= attempts) throw error;
      await sleep(retryMs * 2 ** (failures - 1), signal);
      continue;
    }
    if (sent < 0 || sent > piece.length) throw failed(`it has ${start + sent} bytes of an upload, and got others`);
    failures = sent > before ? 0 : failures + 1;
    if (failures >= attempts) throw new SealpinError('pinning_timeout', `${id} accepts no more bytes of an upload`);
  }
}

/** The bytes of a stream in pieces of one size, the last of which may be shorter. */
async function* piecesOf(body: ReadableStream<Uint8Array>, bytes: number): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const reader = byteReader(body);
  try {
    for (let piece = await reader.read(bytes); piece.length > 0; piece = await reader.read(bytes))
      yield piece as Uint8Array<ArrayBuffer>;
  } finally {
    await cancelQuietly(reader);
  }
}
