/** The commands of the node: the subset of Kubo's RPC that the Worker needs. */
import { readSync, closeSync } from 'node:fs';
import { hash } from 'node:crypto';
import { errnoOf } from '../../errno.ts';
import { addFile } from './add.ts';
import type { BlockLocation } from './catalog.ts';
import { content, fileBytes, runs } from './content.ts';
import { dagImport } from './import.ts';
import { cid, cids, bytesOption, isSet, lines, RpcError, sendBytes, sendJson, type RpcCall } from './rpc.ts';
import type { Store } from './store.ts';
import { isCidOf } from './verify.ts';

export type RpcCommand = (call: RpcCall) => Promise<void> | void;

/** The version of this node, in Kubo's form. */
const nodeVersion = '1.0.0-sealpin';

/** All commands by their path below /api/v0/. `id` is 32 bytes that name the node. */
export function commands(store: Store, id: Uint8Array): Map<string, RpcCommand> {
  const peer = { ID: peerId(id), PublicKey: '', Addresses: [], AgentVersion: `sealpin/${nodeVersion}`, Protocols: [] };
  const system = {
    Version: nodeVersion,
    Commit: '',
    Repo: '1',
    System: `${process.arch}/${process.platform}`,
    Golang: '',
  };
  return new Map<string, RpcCommand>([
    ['add', (call) => addFile(store, call)],
    ['cat', (call) => cat(store, call)],
    ['dag/import', (call) => dagImport(store, call)],
    ['dag/stat', (call) => dagStat(store, call)],
    ['block/get', (call) => blockGet(store, call)],
    ['block/rm', (call) => blockRm(store, call)],
    ['block/stat', (call) => blockStat(store, call)],
    ['pin/add', (call) => pinAdd(store, call)],
    ['pin/rm', (call) => pinRm(store, call)],
    ['pin/ls', (call) => pinLs(store, call)],
    ['repo/gc', (call) => gc(store, call)],
    ['id', ({ response }) => sendJson(response, peer)],
    ['version', ({ response }) => sendJson(response, system)],
  ]);
}

function find({ catalog }: Store, wanted: string): BlockLocation {
  const location = catalog.find(wanted);
  if (!location) throw new RpcError(notFound(wanted));
  return location;
}

/** A file that is missing on the disk is reported like a block that the catalog does not have. */
function openFile(store: Store, location: BlockLocation): number {
  try {
    return store.open(location);
  } catch (cause) {
    if (errnoOf(cause) !== 'ENOENT') throw cause;
    throw new RpcError('block was not found locally (offline): its data file is missing', { cause });
  }
}

async function cat(store: Store, { query, response }: RpcCall): Promise<void> {
  const wanted = cid(query);
  const bytes = fileBytes(wanted, find(store, wanted));
  const start = Math.min(bytesOption(query, 'offset') ?? 0, bytes);
  const length = Math.min(bytesOption(query, 'length') ?? bytes, bytes - start);
  const pieces = content(
    runs(wanted, { from: start, to: start + length - 1, find: (one) => find(store, one) }),
    (location) => openFile(store, location),
  );
  // What fails before the first byte is an error that the client can read.
  const first = await pieces.next();
  response.writeHead(200, {
    'content-type': 'text/plain',
    'content-length': length,
    'x-content-length': length,
    'x-stream-output': '1',
  });
  try {
    for (let piece = first; !piece.done; piece = await pieces.next()) await sendBytes(response, piece.value);
  } finally {
    await pieces.return(undefined);
  }
  response.end();
}

function blockGet(store: Store, { query, response }: RpcCall): void {
  const location = find(store, cid(query));
  const block = location.node ?? leaf(store, location);
  response
    .writeHead(200, {
      'content-type': 'application/vnd.ipld.raw',
      'content-length': block.length,
      'x-stream-output': '1',
    })
    .end(block);
}

function leaf(store: Store, location: BlockLocation): Uint8Array {
  const fd = openFile(store, location);
  try {
    const block = Buffer.alloc(location.bytes);
    if (readSync(fd, block, 0, location.bytes, location.offset) !== location.bytes)
      throw new RpcError('the data file on disk is too short');
    return block;
  } finally {
    closeSync(fd);
  }
}

/**
 * Removes nothing by itself: a damaged block goes with the last pin of the files that have it, or
 * is replaced when it is sent again.
 */
function blockRm(store: Store, { query, response }: RpcCall): void {
  const wanted = cid(query);
  const location = store.catalog.find(wanted);
  const block = location === undefined ? undefined : (location.node ?? leaf(store, location));
  const isDamaged = block !== undefined && !isCidOf(wanted, block);
  sendJson(response, { Hash: wanted, ...(isDamaged && { Error: 'another file has this block' }) });
}

function blockStat(store: Store, { query, response }: RpcCall): void {
  const wanted = cid(query);
  sendJson(response, { Key: wanted, Size: find(store, wanted).bytes });
}

function pinAdd(store: Store, { query, response }: RpcCall): void {
  if (!isSet(query, 'recursive', true)) throw new RpcError('this node pins recursively only', { client: true });
  const wanted = cids(query);
  for (const one of wanted) {
    const missing = store.catalog.missing(one);
    if (missing !== undefined) throw new RpcError(`pin: ${notFound(missing)}`);
  }
  for (const one of wanted) store.catalog.pin(one, query.get('name') ?? '');
  sendJson(response, { Pins: wanted });
}

/** Always offline, and without progress: one record at the end. */
function dagStat(store: Store, { query, response }: RpcCall): void {
  const wanted = cid(query);
  find(store, wanted);
  const missing = store.catalog.missing(wanted);
  if (missing !== undefined) throw new RpcError(`error traversing DAG: ${notFound(missing)}`);
  const { blocks, bytes } = store.catalog.size(wanted);
  const stats = [{ Cid: wanted, Size: bytes, NumBlocks: blocks }];
  lines(response, [{ UniqueBlocks: blocks, TotalSize: bytes, Ratio: 1, DagStats: stats }]);
}

async function pinRm(store: Store, { query, response }: RpcCall): Promise<void> {
  const wanted = cids(query);
  if ((await store.unpin(wanted)) !== undefined) throw new RpcError('not pinned or pinned indirectly');
  sendJson(response, { Pins: wanted });
}

function indirect({ catalog }: Store, one: string | undefined): { Cid: string; Type: string; Name: string }[] {
  if (one === undefined) return catalog.indirect().map((block) => ({ Cid: block, Type: 'indirect', Name: '' }));
  const through = catalog.holder(one);
  return through === undefined ? [] : [{ Cid: one, Type: `indirect through ${through}`, Name: '' }];
}

function pinLs(store: Store, { query, response }: RpcCall): void {
  const type = query.get('type') ?? 'all';
  if (!['all', 'recursive', 'indirect', 'direct'].includes(type))
    throw new RpcError(`invalid type '${type}', must be one of {direct, indirect, recursive, all}`, { client: true });
  const names = isSet(query, 'names');
  const wanted = query.has('arg') ? cids(query) : [undefined];
  const found = wanted.flatMap((one) => {
    const recursive =
      type === 'direct' || type === 'indirect'
        ? []
        : store.catalog.pins(one).map((pin) => ({ Cid: pin.cid, Type: 'recursive', Name: names ? pin.name : '' }));
    // Who does not read the answer says that the pin holds what was just imported.
    if (one !== undefined && recursive.length > 0 && isSet(query, 'quiet')) store.catalog.joinPin(one);
    const below = type === 'direct' || type === 'recursive' ? [] : indirect(store, one);
    if (one !== undefined && recursive.length + below.length === 0)
      throw new RpcError(`path '/ipfs/${one}' is not pinned`);
    return [...recursive, ...below];
  });
  if (isSet(query, 'stream')) lines(response, found);
  else sendJson(response, { Keys: Object.fromEntries(found.map(({ Cid, ...pin }) => [Cid, pin])) });
}

async function gc(store: Store, { response }: RpcCall): Promise<void> {
  const keys = (await store.collect({ all: true })).map((one) => ({ Key: { '/': one } }));
  lines(response, keys);
}

/** Kubo's words for a block that an offline node does not have. */
function notFound(missing: string): string {
  return `block was not found locally (offline): ipld: could not find ${missing}`;
}

const base58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/**
 * A peer ID of the sha2-256 form (libp2p peer-ids specification). This node has no key and no
 * peers, so any name works.
 */
function peerId(id: Uint8Array): string {
  const multihash = Buffer.concat([Buffer.from([0x12, 0x20]), hash('sha256', id, 'buffer')]);
  let value = BigInt(`0x${multihash.toString('hex')}`);
  let digits = '';
  for (; value > 0n; value /= 58n) digits = base58.charAt(Number(value % 58n)) + digits;
  return digits;
}
