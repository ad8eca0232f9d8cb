/**
 * The adapter for Kubo's RPC: a Kubo of one's own, the embedded node, and other servers of the same
 * API. Documented at https://docs.ipfs.tech/reference/kubo/rpc/.
 */
import * as v from 'valibot';
import { anchorOf, importAnchor } from '../anchor.ts';
import type { Adapter, BlockImport, PinningService } from '../contract.ts';
import { blockImport, type ImportOptions } from './kubo-import.ts';
import { pinning, pinsNamed } from './kubo-pin.ts';
import { kuboReads } from './kubo-read.ts';
import { isRecord, type HttpOptions } from '../http-client.ts';
import { apiFields, authorized, unknownField } from '../option-fields.ts';
import { rpc } from './kubo-rpc.ts';

const KuboFields = v.strictObject(apiFields, unknownField);

/** Kubo, configured by `{"url", "tokenSecret"?, "headers"?}`. */
export const kuboAdapter: Adapter<typeof KuboFields> = {
  options: KuboFields,
  triedAgainst: 'Kubo 0.43, and the built-in node',
  places: ({ url }) => [url],
  make: ({ url, tokenSecret, headers }, context) =>
    kubo({ ...context, url, headers: authorized(headers, tokenSecret, context) }),
};

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
  /** The longest pin of small files; it grows with their bytes (`kubo-pin.ts`): 10 s. */
  pinMs: number;
  /** Time for which the network is searched for a block: 10 s. */
  searchMs: number;
};

/**
 * Query of an import. It pins nothing: `dag/import` could not name the pin, and would hold Kubo's
 * pin lock until the last byte.
 */
const importQuery = { 'pin-roots': 'false', stats: 'true' };

/** A pinning service behind Kubo's RPC. */
export function kubo(o: KuboOptions): PinningService {
  const { responseMs, pinMs, searchMs } = { responseMs: 30_000, pinMs: 10_000, searchMs: 10_000, ...o.timeouts };
  const { pinName } = o;
  const client = rpc(o);
  const { failed, refused } = client;

  const confirm: ImportOptions['confirm'] = ({ last }, count) => {
    const { BlockCount } = isRecord(last['Stats']) ? last['Stats'] : {};
    if (BlockCount !== count)
      throw failed(`it was sent ${count} blocks, and its response to dag/import says ${JSON.stringify(BlockCount)}`);
  };
  const importBlocks = (signal: AbortSignal): BlockImport =>
    blockImport(client, { signal, stepMs: responseMs, query: importQuery, confirm });
  const pin = pinning(client, { pinMs, responseMs });
  const { stat, unpin } = pinsNamed(client, pinName, responseMs);

  return {
    id: o.id,
    takes: 'blocks',
    verifiesImports: true,

    importBlocks,
    stat,
    unpin,
    ...kuboReads(client, { responseMs, searchMs }),

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

    // A Kubo keeps each block once. The embedded node removes what no pin holds by its age.
    async joinPin(cid, signal) {
      await client.ask('pin/ls', { arg: cid, type: 'recursive', quiet: 'true' }, signal, responseMs);
    },

    async unpinBeside(cid, signal) {
      await unpin((await anchorOf(cid, pinName)).cid, signal);
      const held = await stat(cid, signal);
      return held.pin === 'absent' ? 'absent' : 'foreign';
    },

    async discard(cid, signal) {
      const result = await client.ask('block/rm', { arg: cid, force: 'true' }, signal, responseMs);
      if ('message' in result) throw refused(result.message);
      const { Error: problem } = result.first;
      if (typeof problem === 'string' && problem !== '') throw refused(problem);
    },

    ping: (signal) => client.ping(signal, responseMs),
  };
}
