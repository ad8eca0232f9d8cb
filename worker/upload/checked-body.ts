/** The body of a request that continues an upload: as it arrives or, with `Content-Digest`, whole or not at all. */
import { SealpinError } from '../../shared/errors.ts';
import { maxUploadBytes, uploadIdleMs, type Env } from '../env.ts';
import { parseDigests } from '../http/digest-fields.ts';
import { arrivingBody, heldBody, type ArrivingBody } from './body.ts';
import { Semaphore } from './semaphore.ts';

/**
 * The most bytes of a body with a digest. It is held until the digest is known to be right: an encrypted upload that has sent a wrong
 * leaf cannot send the right one, because both would have the same nonces.
 */
const maxHeldBytes = 8 * 1024 * 1024;
/** Bodies that an isolate holds at once: 32 MiB of its 128. Wait of another one for its permit, in ms. */
const holders = new Semaphore(4);
const waitMs = 10_000;

/**
 * Hands the body of a request to its reader.
 * @throws invalid_request, digest_mismatch, too_large, body_incomplete, body_timeout and overloaded before the reader has got a byte;
 *   what the reader throws
 */
export async function withBody<T>(env: Env, request: Request, receive: (body: ArrivingBody) => Promise<T>): Promise<T> {
  const digests = parseDigests(request.headers);
  const limits = { limitBytes: maxUploadBytes(env), idleMs: uploadIdleMs(env) };
  if (digests.size === 0) return await receive(arrivingBody(request, limits));
  const limitBytes = Math.min(limits.limitBytes ?? maxHeldBytes, maxHeldBytes);
  if (Number(request.headers.get('Content-Length') ?? 0) > limitBytes)
    throw new SealpinError('too_large', `a body with Content-Digest may have at most ${limitBytes} bytes here`, {
      hint: 'send smaller parts of the file, or leave Content-Digest out',
    });
  const permit = await holders.acquire(waitMs);
  try {
    return await receive(bodyOf(await heldBody(request, { ...limits, limitBytes, digests })));
  } finally {
    permit.release();
  }
}

function bodyOf(bytes: Uint8Array<ArrayBuffer>): ArrivingBody {
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
