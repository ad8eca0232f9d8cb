/**
 * `pin/add` of Kubo, which walks over every block below the CID. A Kubo that is online searches the network for a missing one without
 * end, `offline` or not, and holds its pin lock meanwhile: so the walk has a time limit that Kubo itself keeps.
 */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Rpc } from './kubo-rpc.ts';

/**
 * How much longer a pin may take for each MiB, in ms. Measured with Kubo 0.42: 1.1 to 2 ms where the blocks are in the page cache. A
 * hard disk seeks for some 10 ms and reads for as long; the rest is for a disk that others use as well.
 */
const msPerMib = 50;

/** How often a pin is in doubt, in ms and for each MiB: far longer than it takes with blocks in the page cache. */
const doubt = { everyMs: 1000, msPerMib: 5 };

/** After how many seconds a client may send blocks again that were collected: collecting goes on for a while. */
const collectedRetrySeconds = 5;

/** How Kubo says that a block is missing, offline and after a search. */
const missingBlock = /not found|could not find/;

/**
 * Makes the function that pins what Kubo holds, recursively; `bytes` are those of the blocks below the CID. While a pin is in doubt,
 * Kubo is asked whether all blocks are there: the search for one that is not ends at once, and with it the lock.
 * @param o.pinMs the longest that the walk over a small file may take
 * @param o.responseMs how long after the walk's limit a response may come
 * @returns a function that throws as `PinningService.pin` does
 */
export function pinning(client: Rpc, o: { pinMs: number; responseMs: number }) {
  /** Runs a command that walks over all blocks. */
  async function walk(command: string, query: Record<string, string>, bytes: number, signal: AbortSignal) {
    const walkMs = o.pinMs + mebibytes(bytes) * msPerMib;
    const limited = { ...query, progress: 'false', timeout: `${walkMs}ms` };
    return await client.ask(command, limited, signal, walkMs + o.responseMs);
  }

  async function add(cid: string, name: string, bytes: number, signal: AbortSignal): Promise<void> {
    const result = await walk('pin/add', { arg: cid, name }, bytes, signal);
    if ('message' in result) {
      const { message } = result;
      if (missingBlock.test(message)) throw missing(cid, message);
      if (/deadline exceeded/.test(message))
        throw new SealpinError('pinning_timeout', `${client.id} did not pin ${cid} in time: ${message}`);
      throw client.refused(message);
    }
    const { Pins } = result.first;
    if (!Array.isArray(Pins) || !Pins.includes(cid))
      throw client.failed('its response to pin/add does not name the pin');
  }

  /** Aborts a pin below which a block is missing. */
  async function abortIfMissing(pin: AbortController, cid: string, bytes: number, signal: AbortSignal): Promise<void> {
    try {
      const result = await walk('dag/stat', { arg: cid, offline: 'true' }, bytes, signal);
      if ('message' in result && missingBlock.test(result.message)) pin.abort(missing(cid, result.message));
    } catch {
      // Nobody asks any more, or the service cannot tell: then the pin has its own outcome.
    }
  }

  function missing(cid: string, message: string): SealpinError {
    return new SealpinError('pinning_unavailable', `${client.id} no longer holds all blocks of ${cid}: ${message}`, {
      hint: 'the pinning service removed bytes of this upload before they were pinned; send them again',
      reason: 'blob_unavailable',
      retryAfterSeconds: collectedRetrySeconds,
    });
  }

  return async (cid: string, name: string, bytes: number, caller: AbortSignal): Promise<void> => {
    const pin = new AbortController();
    const signal = AbortSignal.any([caller, pin.signal]);
    let checking: Promise<void> | undefined;
    const check = (): Promise<void> =>
      (checking ??= abortIfMissing(pin, cid, bytes, signal).finally(() => (checking = undefined)));
    // Again and again: a pin may wait for a collection that removes a block only later.
    const timer = setInterval(() => void check(), doubt.everyMs + mebibytes(bytes) * doubt.msPerMib);
    try {
      await add(cid, name, bytes, signal);
    } catch (cause) {
      if (isSealpinError(cause, 'pinning_timeout')) await check();
      signal.throwIfAborted();
      throw cause;
    } finally {
      clearInterval(timer);
      pin.abort();
    }
  };
}

function mebibytes(bytes: number): number {
  return Math.ceil(bytes / 1_048_576);
}
