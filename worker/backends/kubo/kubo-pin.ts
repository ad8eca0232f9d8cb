/**
 * `pin/add` of Kubo, which walks over every block below the CID. A Kubo that is online searches the
 * network for a missing one without end, `offline` or not, and holds its pin lock meanwhile: so the
 * walk has a time limit that Kubo itself keeps.
 */
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import type { Rpc } from './kubo-rpc.ts';
import { isMissing, missingBlock, missingError } from './missing-blocks.ts';

/**
 * Extra time that a pin may take for each MiB, in ms. Measured with Kubo 0.42: 1.1 to 2 ms where
 * the blocks are in the page cache. A hard disk seeks for some 10 ms and reads for as long; the
 * rest is for a disk that others use as well.
 */
const msPerMib = 50;

/**
 * Intervals at which a pin is in doubt, in ms, and for each MiB: far longer than it takes with
 * blocks in the page cache.
 */
const doubt = { everyMs: 1000, msPerMib: 5 };

/**
 * Makes the function that pins what Kubo holds, recursively; `bytes` are those of the blocks below
 * the CID. While a pin is in doubt, Kubo is asked whether all blocks are there: the search for one
 * that is not ends at once, and with it the lock.
 * @param o.pinMs the longest that the walk over a small file may take
 * @param o.responseMs how long after the walk's limit a response may come
 * @returns a function that throws as `PinningService.pin` does
 */
export function pinning(client: Rpc, o: { pinMs: number; responseMs: number }) {
  const walkMsOf = (bytes: number): number => o.pinMs + mebibytes(bytes) * msPerMib;

  async function add(cid: string, name: string, bytes: number, signal: AbortSignal): Promise<void> {
    const walkMs = walkMsOf(bytes);
    const query = { arg: cid, name, progress: 'false', timeout: `${walkMs}ms` };
    const result = await client.ask('pin/add', query, signal, walkMs + o.responseMs);
    if ('message' in result) {
      const { message } = result;
      if (isMissing(message)) throw missingError(client.id, cid, message);
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
    const { responseMs } = o;
    const message = await missingBlock([client], cid, { walkMs: walkMsOf(bytes), responseMs, signal });
    if (message !== undefined) pin.abort(missingError(client.id, cid, message));
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
