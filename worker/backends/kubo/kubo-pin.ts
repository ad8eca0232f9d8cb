/**
 * Pins at a Kubo. `pin/add` walks over every block below the CID. A Kubo that is online searches
 * the network for a missing one without end, `offline` or not, and holds its pin lock meanwhile: so
 * the walk has a time limit that Kubo itself keeps.
 */
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import type { Held } from '../contract.ts';
import { mebibytes } from '../pin-limit.ts';
import type { Rpc, RpcResult } from './kubo-rpc.ts';
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

/** The name that earlier versions gave to pins, whatever the service. */
const earlierName = 'sealpin';

/**
 * Makes the functions that look for a pin and remove it.
 * @param pinName of ours
 */
export function pinsNamed({ ask: request, failed, refused }: Rpc, pinName: string, responseMs: number) {
  const ask = (command: string, query: Record<string, string>, signal: AbortSignal): Promise<RpcResult> =>
    request(command, query, signal, responseMs);

  async function stat(cid: string, signal: AbortSignal): Promise<Held> {
    const result = await ask('pin/ls', { arg: cid, type: 'recursive', names: 'true' }, signal);
    if ('message' in result) {
      if (/is not pinned/.test(result.message)) return { pin: 'absent' };
      throw refused(result.message);
    }
    const { Keys } = result.first;
    if (typeof Keys !== 'object' || Keys === null) throw failed('its response to pin/ls has no Keys');
    if (!Object.hasOwn(Keys, cid)) return { pin: 'absent' };
    const name = (Keys as Record<string, { Name?: unknown } | null>)[cid]?.Name;
    if (typeof name !== 'string') return { pin: 'unknown' };
    return name === pinName || name === earlierName ? { pin: 'ours' } : { pin: 'foreign', name };
  }

  async function unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent' | 'foreign'> {
    const held = await stat(cid, signal);
    if (held.pin === 'absent' || held.pin === 'foreign') return held.pin;
    const result = await ask('pin/rm', { arg: cid }, signal);
    if ('first' in result) {
      const { Pins } = result.first;
      if (!Array.isArray(Pins) || !Pins.includes(cid)) throw failed('its response to pin/rm does not name the pin');
      return 'removed';
    }
    // The second is what the proxy of IPFS Cluster says.
    if (/not pinned|not part of the pinset/.test(result.message)) return 'absent';
    throw refused(result.message);
  }

  return { stat, unpin };
}

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
