/** The body of a request that continues an upload: as it arrives, or checked as a whole. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { maxUploadBytes, uploadIdleMs, type Env } from '../env.ts';
import { parseDigests, type Digests } from '../http/digest-fields.ts';
import { leafMemory } from '../leaf-memory.ts';
import { checkLength, CountedBody, type CountedOptions } from './counted-body.ts';
import { Semaphore } from './semaphore.ts';

/** A body that is read as it arrives, or as if it did. */
export type ArrivingBody = {
  /**
   * Waits for bytes: all that have arrived, at most `maxBytes`, in memory that holds nothing else;
   * none at the end. While the client is fast, a read waits for more of them.
   * @throws body_incomplete, body_timeout, too_large
   */
  read(maxBytes: number): Promise<Uint8Array<ArrayBuffer>>;
  cancel(reason: unknown): Promise<void>;
};

/**
 * The most bytes of a body with a digest. It is held until the digest is known to be right: an
 * encrypted upload that has sent a wrong leaf cannot send the right one, because both would have
 * the same nonces.
 */
const maxHeldBytes = 8 * 1024 * 1024;
/**
 * Bodies that an isolate holds at once: 32 MiB of its 128. Wait of another one for its permit, in
 * ms.
 */
const holders = new Semaphore(4);
const waitMs = 10_000;

type BodyOptions = {
  env: Env;
  request: Request;
  /** Bytes that the file may still have. */
  room: number;
};

/**
 * Checks what the headers of a request say of its body.
 * @returns the digests that it must have, and the most bytes of it
 * @throws invalid_request, too_large
 */
export function checkBodyHeaders({ env, request, room }: BodyOptions): { digests: Digests; limitBytes: number } {
  const most = Math.min(maxUploadBytes(env) ?? Infinity, room);
  checkLength(request, most);
  const digests = parseDigests(request.headers);
  if (digests.size === 0) return { digests, limitBytes: most };
  const limitBytes = Math.min(most, maxHeldBytes);
  if (Number(request.headers.get('Content-Length') ?? 0) > limitBytes)
    throw new SealpinError('too_large', `a body with Content-Digest may have at most ${limitBytes} bytes here`, {
      hint: 'send smaller parts of the file, or leave Content-Digest out',
    });
  return { digests, limitBytes };
}

/**
 * Hands the body of a request to its reader.
 * @throws invalid_request, digest_mismatch, too_large, body_incomplete, body_timeout and overloaded
 * before the reader has got a byte; what the reader throws
 */
export async function withBody<T>(
  o: BodyOptions & { onArrival: CountedOptions['onArrival'] },
  receive: (body: ArrivingBody) => Promise<T>,
): Promise<T> {
  const { env, request, onArrival } = o;
  const { digests, limitBytes } = checkBodyHeaders(o);
  const options = { limitBytes, idleMs: uploadIdleMs(env), onArrival };
  if (digests.size === 0) {
    const body = new CountedBody(request, options);
    const read = (maxBytes: number) => body.readSome(leafMemory.take(maxBytes));
    return await receive({ read, cancel: (reason) => body.cancel(reason) });
  }
  const permit = await holders.acquire(waitMs);
  try {
    const body = new CountedBody(request, { ...options, digests });
    const announced = Number(request.headers.get('Content-Length') ?? limitBytes);
    const bytes = await body.read(new Uint8Array(announced + 1));
    // The end, where the digests are compared.
    await body.read(new Uint8Array(1));
    return await receive(bodyOfBytes(bytes));
  } finally {
    permit.release();
  }
}

/**
 * Waits for the end of a body that has brought all that it may. One that does not end has brought
 * it, too.
 * @throws too_large for one that has more
 */
export async function expectEnd(body: ArrivingBody): Promise<void> {
  try {
    await body.read(1);
  } catch (error) {
    if (isSealpinError(error, 'too_large')) throw error;
  }
}

function bodyOfBytes(bytes: Uint8Array<ArrayBuffer>): ArrivingBody {
  let offset = 0;
  return {
    async read(maxBytes) {
      const piece = bytes.slice(offset, offset + maxBytes);
      offset += piece.length;
      return piece;
    },
    cancel: async () => undefined,
  };
}
