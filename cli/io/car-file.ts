/** A CAR file on this machine as a source of blocks, whatever their order in it. */
import { type FileHandle, open } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { type BlockSource, carReader, cidFromBytes, rootsOf } from '../../shared/ipfs/index.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import type { Environment } from '../context.ts';
import { failRead, readFailure } from '../errno.ts';
import { bytesOf } from './byte-stream.ts';
import { readFlags } from './input.ts';

/** The empty identity CID in binary, named by a writer of a CAR that did not know the root. */
const unknownRoot = '1,85,0,0';

/**
 * Opens a CAR file of one file, and reads it through once; its blocks are not verified.
 * @returns `root`: the CID of the one file in it; `source`: its blocks, each read again when it is
 * asked for
 * @throws file_not_found, file_unreadable; wrong_kind when it is no CARv1 with one root;
 * content_mismatch when it is cut off
 */
export async function openCar(path: string, { cwd, signal }: Pick<Environment, 'cwd' | 'signal'>) {
  const handle = await open(resolve(cwd, path), readFlags).catch(failRead(path));
  try {
    const stats = await handle.stat({ bigint: true }).catch(failRead(path));
    if (!stats.isFile())
      throw new SealpinError('file_unreadable', `${path} is not a regular file`, { hint: 'name a CAR file' });
    const { root, blocks } = await indexOf(handle, path, signal);
    return { root, identity: stats, source: sourceOf(path, handle, blocks), close: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Location of each block, by its CID. */
type Blocks = ReadonlyMap<string, { readonly offset: number; readonly bytes: number }>;

async function indexOf(handle: FileHandle, path: string, signal: AbortSignal) {
  const reader = carReader(bytesOf(handle));
  const blocks = new Map<string, { offset: number; bytes: number }>();
  let hasHeader = false;
  try {
    const header = await reader.header();
    hasHeader = true;
    let last: string | undefined;
    for (let block = await reader.next(); block !== undefined; block = await reader.next()) {
      signal.throwIfAborted();
      const cid = cidFromBytes(block.cid);
      // Of a kind that no file here is made of; if the file needs it, it is missed.
      if (cid === undefined) continue;
      last = cid.text;
      if (!blocks.has(last)) blocks.set(last, { offset: block.offset, bytes: block.bytes.length });
    }
    return { root: rootOf(header, last, path), blocks };
  } catch (error) {
    signal.throwIfAborted();
    if (!hasHeader && !(await beginsLikeCar(handle))) throw invalidCar(path, 'it is not a CAR file', error);
    if (isSealpinError(error, 'content_mismatch'))
      throw new SealpinError('content_mismatch', `${path}: ${error.message}`, { hint: 'get it again', cause: error });
    throw readFailure(path, error);
  } finally {
    await cancelQuietly(reader);
  }
}

/**
 * Recognizes the beginning of a CAR: the length of the header and its DAG-CBOR map that begins with
 * "roots" (CARv1), or the fixed pragma of CARv2 (https://ipld.io/specs/transport/car/).
 */
export function isCar(bytes: Uint8Array): boolean {
  const start = Buffer.from(bytes.subarray(0, 16)).toString('latin1');
  return [1, 2].some((at) => start.startsWith('\xa2eroots', at)) || start.startsWith('\x0a\xa1gversion\x02');
}

async function beginsLikeCar(handle: FileHandle): Promise<boolean> {
  const { buffer, bytesRead } = await handle.read(new Uint8Array(16), 0, 16, 0);
  return isCar(buffer.subarray(0, bytesRead));
}

function rootOf(header: Uint8Array, last: string | undefined, path: string): string {
  const roots = rootsOf(header);
  if (roots === undefined) throw invalidCar(path, 'its header is not in canonical DAG-CBOR');
  const [root, ...others] = roots;
  if (root === undefined) throw invalidCar(path, 'it names no root');
  if (others.length > 0)
    throw invalidCar(path, `it names ${roots.length} roots, and a file has one`, undefined, 'write a CAR of each file');
  if (root.join() === unknownRoot && last !== undefined) return last;
  const cid = cidFromBytes(root);
  if (cid === undefined)
    throw invalidCar(
      path,
      'its root is not a CIDv1 with sha2-256, raw or dag-pb',
      undefined,
      'store the file again with ipfs add --cid-version=1, and export that',
    );
  return cid.text;
}

function sourceOf(path: string, handle: FileHandle, blocks: Blocks): BlockSource {
  return {
    id: path,
    async block(cid) {
      const place = blocks.get(cid);
      if (place === undefined) throw new SealpinError('not_found', `it does not have the block ${cid}`);
      const bytes = new Uint8Array(place.bytes);
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, place.offset);
      return bytes.subarray(0, bytesRead);
    },
  };
}

function invalidCar(
  path: string,
  why: string,
  cause?: unknown,
  hint = 'a CARv1 of one file is needed, as ipfs dag export and sealpin export write it',
): SealpinError {
  return new SealpinError('wrong_kind', `${path}: ${why}`, { hint, cause });
}
