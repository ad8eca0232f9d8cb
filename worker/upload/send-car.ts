/** A file in one request whose blocks the client has made: a CAR, sent on in parts as it is. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import * as ipfs from '../../shared/ipfs/index.ts';
import { equalBytes } from '../../shared/streams/equal-bytes.ts';
import type { BlockImport } from '../backends/contract.ts';
import { CarStructure, invalidCar } from './car-structure.ts';
import { sendParts, type PieceWriter, type PieceSource, type SendOptions, type SentFile } from './send-parts.ts';

type CarBlock = { cid: ipfs.Cid; bytes: Uint8Array };

/**
 * Sends the blocks of a CAR to a service, under their own CIDs. The root is not pinned afterwards;
 * all parts but the last one are kept, where there are several.
 * @param car is cancelled where the upload fails
 * @param o.maxFileBytes how many bytes the file may have
 * @returns the file, whose blocks the service, or the Worker in its place, has hashed
 * @throws invalid_request, too_large, cid_mismatch for a block with other bytes than its CID says;
 * as `sendParts`
 */
export async function sendCar(
  car: ReadableStream<Uint8Array>,
  { maxFileBytes, ...o }: SendOptions & { maxFileBytes: number },
): Promise<SentFile> {
  const structure = new CarStructure(maxFileBytes);
  const reader = ipfs.carReader(car);
  try {
    return await sendParts(
      o,
      (signal) => ({ pieces: blocksOf(reader, structure), writer: blockWriter({ ...o, signal }) }),
      async () => {
        const { cid, fileBytes, beginning } = structure.finish();
        const header = await reader.header();
        const isNamed = [ipfs.carHeader(cid), ipfs.carHeader()].some((each) => equalBytes(header, each.subarray(1)));
        if (!isNamed) throw invalidCar(`its header does not name ${cid.text}, its last block, as the only root`);
        return { cid: cid.text, bytes: fileBytes, beginning };
      },
    );
  } catch (error) {
    // The service hashes what it imports.
    if (isSealpinError(error) && error.reason === 'other_bytes') throw otherBytes(error);
    throw error;
  }
}

/** The blocks of a CAR, each once, with its place in the file checked. */
function blocksOf(reader: ReturnType<typeof ipfs.carReader>, structure: CarStructure): PieceSource<CarBlock> {
  return {
    async next() {
      for (;;) {
        const block = await nextBlock(reader);
        if (block === undefined) return undefined;
        const cid = ipfs.cidFromBytes(block.cid);
        if (cid === undefined) throw invalidCar('it has a CID that is not a CIDv1 with sha2-256, raw or dag-pb');
        if (structure.add(cid, block.bytes)) return { cid, bytes: block.bytes };
      }
    },
    cancel: (reason) => reader.cancel(reason),
  };
}

async function nextBlock(reader: ReturnType<typeof ipfs.carReader>) {
  try {
    return await reader.next();
  } catch (error) {
    // What the body itself throws has codes of its own.
    if (isSealpinError(error, 'content_mismatch')) throw invalidCar(error.message, error);
    throw error;
  }
}

type OpenCar = { blocks: BlockImport; links: ipfs.Link[]; bytes: number; dueAt: number };

/** Links of a part's node: the part is due before, unless its blocks are small. */
const maxLinks = 1024;

/** Writes blocks into parts, which a node above the blocks holds together. */
function blockWriter({ service, signal, now }: SendOptions): PieceWriter<CarBlock> {
  let open: OpenCar | undefined;
  let sentBytes = 0;

  const isFull = ({ bytes, links }: OpenCar): boolean =>
    bytes >= ipfs.partLeaves((sentBytes - bytes) / ipfs.leafBytes) * ipfs.leafBytes || links.length >= maxLinks;

  return {
    async add({ cid, bytes }) {
      signal.throwIfAborted();
      if (!service.verifiesImports) await checkBlock(cid, bytes);
      open ??= { blocks: service.importBlocks(signal), links: [], bytes: 0, dueAt: now() + ipfs.partMs };
      const { length } = bytes;
      // The bytes are used up by the import.
      const sent = open.blocks.write(cid, bytes);
      open.links.push({ cid, fileBytes: length, dagBytes: length });
      open.bytes += length;
      sentBytes += length;
      return { sent };
    },
    isDue: () => open !== undefined && (isFull(open) || now() >= open.dueAt),
    dueAt: () => open?.dueAt,
    async close(isLast) {
      if (open === undefined) return undefined;
      const { blocks, links, bytes } = open;
      open = undefined;
      const part = { firstLeaf: 0, digests: new Uint8Array(0), bytes };
      const root = links.at(-1)?.cid.text ?? '';
      // The root of the file, which the caller pins.
      if (isLast) return { part: { ...part, cid: root }, held: blocks.finish() };
      const node = ipfs.encodeNode(links);
      const cid = ipfs.cidOf('dag-pb', await ipfs.sha256(node));
      // In a store nothing is kept by its node.
      if (blocks.name === undefined) await blocks.write(cid, node);
      const held = blocks.finish();
      held.catch(() => undefined);
      return { part: { ...part, cid: cid.text }, held, name: blocks.name };
    },
    abort(reason) {
      open?.blocks.abort(reason);
      open = undefined;
    },
  };
}

/** @throws cid_mismatch */
async function checkBlock({ digest }: ipfs.Cid, bytes: Uint8Array): Promise<void> {
  if (!equalBytes(await ipfs.sha256(bytes), digest)) throw otherBytes();
}

function otherBytes(cause?: unknown): SealpinError {
  return new SealpinError('cid_mismatch', 'a block of the CAR has other bytes than its CID says', { cause });
}
