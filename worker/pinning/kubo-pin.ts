/**
 * `pin/add` of Kubo, which walks over every block below the CID. A Kubo that is online searches the network for a missing one without
 * end, `offline` or not, and holds its pin lock meanwhile: so the walk has a time limit that Kubo itself keeps.
 */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Rpc, RpcResult } from './kubo-rpc.ts';

/**
 * How much longer a pin may take for each MiB, in ms. Measured with Kubo 0.42: 1.1 to 2 ms where the blocks are in the page cache. A
 * hard disk seeks for some 10 ms and reads for as long; the rest is for a disk that others use as well.
 */
const msPerMib = 50;

/** After how many seconds a client may send blocks again that were collected: collecting goes on for a while. */
const collectedRetrySeconds = 5;

/** How Kubo says that a block is missing, offline and after a search. */
const missingBlock = /not found|could not find/;

/**
 * Makes the function that pins what Kubo holds, recursively; `bytes` are those of the blocks below the CID.
 * @param o.pinMs the longest that the walk over a small file may take
 * @param o.responseMs how long after the walk's limit a response may come
 * @returns a function that throws as `PinningService.pin` does
 */
export function pinning(client: Rpc, o: { pinMs: number; responseMs: number }) {
  /** Runs a command that walks over all blocks. */
  async function walk(command: string, query: Record<string, string>, bytes: number, signal: AbortSignal) {
    const walkMs = o.pinMs + Math.ceil(bytes / 1_048_576) * msPerMib;
    const limited = { ...query, progress: 'false', timeout: `${walkMs}ms` };
    return await client.ask(command, limited, signal, walkMs + o.responseMs);
  }

  /** Why a pin took too long: because of a missing block, or another reason. */
  async function afterTimeout(cid: string, bytes: number, signal: AbortSignal, timeout: SealpinError) {
    let result: RpcResult;
    try {
      result = await walk('dag/stat', { arg: cid, offline: 'true' }, bytes, signal);
    } catch (cause) {
      signal.throwIfAborted();
      // A service that cannot tell, or not in time.
      if (isSealpinError(cause)) return timeout;
      throw cause;
    }
    return 'message' in result && missingBlock.test(result.message) ? missing(cid, result.message) : timeout;
  }

  function missing(cid: string, message: string): SealpinError {
    return new SealpinError('pinning_unavailable', `${client.id} no longer holds all blocks of ${cid}: ${message}`, {
      hint: 'the pinning service removed bytes of this upload before they were pinned; send them again',
      reason: 'blob_unavailable',
      retryAfterSeconds: collectedRetrySeconds,
    });
  }

  return async (cid: string, name: string, bytes: number, signal: AbortSignal): Promise<void> => {
    let result: RpcResult;
    try {
      result = await walk('pin/add', { arg: cid, name }, bytes, signal);
    } catch (cause) {
      signal.throwIfAborted();
      throw isSealpinError(cause, 'pinning_timeout') ? await afterTimeout(cid, bytes, signal, cause) : cause;
    }
    if ('message' in result) {
      const { message } = result;
      if (missingBlock.test(message)) throw missing(cid, message);
      if (/deadline exceeded/.test(message)) {
        const timeout = new SealpinError('pinning_timeout', `${client.id} did not pin ${cid} in time: ${message}`);
        throw await afterTimeout(cid, bytes, signal, timeout);
      }
      throw client.refused(message);
    }
    const { Pins } = result.first;
    if (!Array.isArray(Pins) || !Pins.includes(cid))
      throw client.failed('its response to pin/add does not name the pin');
  };
}
