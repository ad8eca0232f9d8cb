/**
 * The adapter for Kubo's RPC: a Kubo of one's own, the embedded node, and other servers of the same
 * API. Documented at https://docs.ipfs.tech/reference/kubo/rpc/.
 */
import { SealpinError } from '../../../shared/errors.ts';
import { maxBlockBytes } from '../../../shared/ipfs/index.ts';
import { anchorOf, importAnchor } from '../anchor.ts';
import type { BlockImport, Held, PinningService } from '../contract.ts';
import { blockImport, type ImportOptions } from './kubo-import.ts';
import { pinning } from './kubo-pin.ts';
import { isRecord, type HttpOptions } from '../http-client.ts';
import { rpc, type RpcResult } from './kubo-rpc.ts';

/** A Kubo, and the name of our pins there. */
export type KuboOptions = HttpOptions & {
  /** The name of this service's pins: `sealpin:` and its id, at most 80 bytes of ASCII. */
  pinName: string;
  timeouts?: Partial<Timeouts>;
};

/** Times that a Kubo may take. */
export type Timeouts = {
  /** The longest wait for a response, and of an import for the service to take a piece: 30 s. */
  responseMs: number;
  /**
   * The longest that pinning of small files may take; it grows with their bytes (`kubo-pin.ts`): 10
   * s.
   */
  pinMs: number;
  /** Time for which the network is searched for a block: 10 s. */
  searchMs: number;
};

/**
 * Query of an import. It pins nothing: `dag/import` could not name the pin, and would hold Kubo's
 * pin lock until the last byte.
 */
const importQuery = { 'pin-roots': 'false', stats: 'true' };

/** The name that earlier versions gave to pins, whatever the service. */
const earlierName = 'sealpin';

/** A pinning service behind Kubo's RPC. */
export function kubo(o: KuboOptions): PinningService {
  const { responseMs, pinMs, searchMs } = { responseMs: 30_000, pinMs: 10_000, searchMs: 10_000, ...o.timeouts };
  const { pinName } = o;
  const client = rpc(o);
  const { failed, refused, withTimeout, send, readBody, parse } = client;

  const confirm: ImportOptions['confirm'] = ({ last }, count) => {
    const { BlockCount } = isRecord(last['Stats']) ? last['Stats'] : {};
    if (BlockCount !== count)
      throw failed(`it was sent ${count} blocks, and its response to dag/import says ${JSON.stringify(BlockCount)}`);
  };
  const importBlocks = (signal: AbortSignal): BlockImport =>
    blockImport(client, { signal, stepMs: responseMs, query: importQuery, confirm });
  const pin = pinning(client, { pinMs, responseMs });
  const ask = (command: string, query: Record<string, string>, signal: AbortSignal): Promise<RpcResult> =>
    client.ask(command, query, signal, responseMs);

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

  /**
   * Requests what the node has, or finds within the search time of the query: without `offline`,
   * only that time ends a search.
   */
  async function fetched(command: string, query: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const response = await send(command, query, signal);
    if (response.status === 200) return response;
    const error = await parse(response);
    if (!('message' in error)) throw failed(`it has nothing for ${command}`);
    const isLate = query['timeout'] !== undefined && /deadline exceeded/.test(error.message);
    // The last is what `cat` says of a file that lacks a block.
    if (isLate || /not found locally|could not find|failed to fetch all nodes/.test(error.message))
      throw new SealpinError('pinning_lost', `${o.id}: ${error.message}`);
    throw refused(error.message);
  }

  const blockBy = (cid: string, query: Record<string, string>, signal: AbortSignal): Promise<Uint8Array> =>
    withTimeout(signal, responseMs, async (limited) =>
      readBody(await fetched('block/get', { arg: cid, ...query }, limited), maxBlockBytes),
    );

  return {
    id: o.id,
    takes: 'blocks',
    verifiesImports: true,

    importBlocks,
    stat,
    unpin,

    async pin(cid, { bytes, beside, signal }) {
      if (!beside) {
        await pin(cid, pinName, bytes, signal);
        const held = await stat(cid, signal);
        if (held.pin === 'absent') throw failed(`it does not list ${cid}, which it has just pinned`);
        // Another service has pinned the same bytes at the same moment, and removes its pin when it
        // likes.
        if (held.pin !== 'foreign') return;
      }
      const anchor = await importAnchor(importBlocks(signal), cid, pinName);
      return await pin(anchor, pinName, bytes, signal);
    },

    async unpinBeside(cid, signal) {
      await unpin((await anchorOf(cid, pinName)).cid, signal);
      const held = await stat(cid, signal);
      return held.pin === 'absent' ? 'absent' : 'foreign';
    },

    block: (cid, signal) => blockBy(cid, { offline: 'true' }, signal),
    search: (cid, signal) => blockBy(cid, { timeout: `${searchMs}ms` }, signal),

    async discard(cid, signal) {
      const result = await ask('block/rm', { arg: cid, force: 'true' }, signal);
      if ('message' in result) throw refused(result.message);
      const { Error: problem } = result.first;
      if (typeof problem === 'string' && problem !== '') throw refused(problem);
    },

    read: (cid, offset, length, signal) =>
      withTimeout(signal, responseMs, async (limited) => {
        const part = { offset: String(offset), length: String(length) };
        const { body } = await fetched('cat', { arg: cid, ...part, offline: 'true' }, limited);
        if (!body) throw failed('its response to cat has no body');
        return body as ReadableStream<Uint8Array>;
      }),

    ping: (signal) => client.ping(signal, responseMs),
  };
}
