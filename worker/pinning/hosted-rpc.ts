/**
 * The adapter for hosted services that take a CAR by a part of Kubo's RPC, such as Filebase (https://filebase.com/docs/ipfs/rpc-api).
 * It sends the commands and parameters that their documents name and no others: pins have no names there, commands no time
 * limits, and a file is read from its beginning or block by block.
 */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { maxBlockBytes, openFile } from '../../shared/ipfs/index.ts';
import { anchorOf, importAnchor } from './anchor.ts';
import type { BlockImport, Held, PinningService } from './contract.ts';
import { isRecord, type HttpOptions } from './http-client.ts';
import { blockImport, type ImportOptions } from './kubo-import.ts';
import { rpc, type RpcResult } from './kubo-rpc.ts';
import { isMissing, missingError } from './missing-blocks.ts';

export type CarOptions = HttpOptions & {
  /** Part of the nodes that we pin beside pins of others: `sealpin:` and the id of this service, at most 80 bytes of ASCII. */
  pinName: string;
  timeouts?: Partial<CarTimeouts>;
};

type CarTimeouts = {
  /** The longest wait for a response, and of an import for the service to take a piece: 30 s. */
  responseMs: number;
  /** The longest that pinning of small files may take: 30 s. The service may keep its blocks on other machines. */
  pinMs: number;
};

/** How much longer a pin may take for each MiB, in ms: the walk over blocks that come from other machines, at 10 MiB/s. */
const msPerMib = 100;

/** A pinning service behind the part of Kubo's RPC that hosted services document. */
export function car(o: CarOptions): PinningService {
  const { responseMs, pinMs } = { responseMs: 30_000, pinMs: 30_000, ...o.timeouts };
  const { id, pinName } = o;
  const client = rpc(o);
  const { failed, refused, unavailable, withTimeout, send, readBody, parse } = client;
  const ask = (command: string, query: Record<string, string>, signal: AbortSignal): Promise<RpcResult> =>
    client.ask(command, query, signal, responseMs);

  /** Without statistics, which are not documented: what came after a break is missed, so the last block is asked for. */
  const confirm: ImportOptions['confirm'] = async ({ first }, { last }, signal) => {
    if (!isRecord(first['Root'])) throw failed('its response to dag/import has no Root');
    try {
      await block(last.text, signal);
    } catch (error) {
      throw isSealpinError(error, 'pinning_lost') ? unavailable('received a part of the import only', error) : error;
    }
  };
  const importBlocks = (signal: AbortSignal): BlockImport =>
    blockImport(client, { signal, stepMs: responseMs, query: {}, confirm });

  async function stat(cid: string, signal: AbortSignal): Promise<Held> {
    const result = await ask('pin/ls', { arg: cid, type: 'recursive' }, signal);
    if ('message' in result) {
      if (/not pinned/.test(result.message)) return { pin: 'absent' };
      throw refused(result.message);
    }
    const { Keys } = result.first;
    if (!isRecord(Keys)) throw failed('its response to pin/ls has no Keys');
    return { pin: Object.hasOwn(Keys, cid) ? 'unknown' : 'absent' };
  }

  async function pin(cid: string, bytes: number, signal: AbortSignal): Promise<void> {
    const limitMs = pinMs + Math.ceil(bytes / 1_048_576) * msPerMib;
    let result: RpcResult;
    try {
      result = await client.ask('pin/add', { arg: cid }, signal, limitMs);
    } catch (error) {
      // Some search the network for a missing block, and do not say so.
      throw isSealpinError(error, 'pinning_timeout') ? missingError(id, cid, error.message) : error;
    }
    if ('message' in result)
      throw isMissing(result.message) ? missingError(id, cid, result.message) : refused(result.message);
    const { Pins } = result.first;
    if (!Array.isArray(Pins) || !Pins.includes(cid)) throw failed('its response to pin/add does not name the pin');
    if ((await stat(cid, signal)).pin === 'absent') throw failed(`it does not list ${cid}, which it has just pinned`);
  }

  async function unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent'> {
    if ((await stat(cid, signal)).pin === 'absent') return 'absent';
    const result = await ask('pin/rm', { arg: cid }, signal);
    if ('message' in result) {
      if (/not pinned/.test(result.message)) return 'absent';
      throw refused(result.message);
    }
    if ((await stat(cid, signal)).pin !== 'absent') throw failed(`it still lists ${cid}, which it has just unpinned`);
    return 'removed';
  }

  async function fetched(command: string, cid: string, signal: AbortSignal): Promise<Response> {
    const response = await send(command, { arg: cid }, signal);
    if (response.status === 200) return response;
    const error = await parse(response);
    if (!('message' in error)) throw failed(`it has nothing for ${command}`);
    throw isMissing(error.message)
      ? new SealpinError('pinning_lost', `${id}: ${error.message}`)
      : refused(error.message);
  }

  const block: PinningService['block'] = (cid, signal) =>
    withTimeout(signal, responseMs, async (limited) =>
      readBody(await fetched('block/get', cid, limited), maxBlockBytes),
    );

  return {
    id,
    takes: 'blocks',
    // Nothing says that they do.
    verifiesImports: false,

    importBlocks,
    stat,
    unpin,
    block,

    async pin(cid, { bytes, beside, signal }) {
      const pinned = beside ? await importAnchor(importBlocks(signal), cid, pinName) : cid;
      await pin(pinned, bytes, signal);
    },

    async unpinBeside(cid, signal) {
      await unpin((await anchorOf(cid, pinName)).cid, signal);
      return (await stat(cid, signal)).pin === 'absent' ? 'absent' : 'foreign';
    },

    // There are no names that could have been overwritten.
    restoreName: async () => undefined,

    async read(cid, offset, length, signal) {
      if (offset > 0) {
        const file = await openFile(cid, [{ id, block }], { signal });
        return file.read(Math.min(offset, file.size), Math.min(offset + length, file.size));
      }
      return await withTimeout(signal, responseMs, async (limited) => {
        const { body } = await fetched('cat', cid, limited);
        if (!body) throw failed('its response to cat has no body');
        return (body as ReadableStream<Uint8Array>).pipeThrough(upTo(length));
      });
    },

    ping: (signal) => client.ping(signal, responseMs),
  };
}

/** Passes so many bytes on, and then breaks off what they come from. */
function upTo(bytes: number): TransformStream<Uint8Array, Uint8Array> {
  let left = bytes;
  return new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      controller.enqueue(chunk.subarray(0, left));
      left -= chunk.length;
      if (left <= 0) controller.terminate();
    },
  });
}
