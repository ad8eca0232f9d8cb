/**
 * Downloads that continue. While a large blob is fetched, its verified blocks are kept in
 * `downloads/` of the data directory (0600), as a CAR that grows. After a break or a kill, the same
 * blob is read from there as far as it goes, every block verified again, and from the sources after
 * that. What is kept is ciphertext as it is stored, never plaintext.
 */
import { type FileHandle, open, readdir, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import {
  type BlockSource,
  carHeader,
  carSection,
  type Cid,
  isCid,
  openFile,
  parseCid,
} from '../../shared/ipfs/index.ts';
import { pulled } from '../../shared/streams/pulled.ts';
import { withStop } from '../../shared/streams/timing.ts';
import type { Context } from '../context.ts';
import { bytesOf } from '../io/byte-stream.ts';
import { holdFolder, isOwnFolder, removeFolder } from '../io/held-folder.ts';
import { pathsIn } from '../io/paths.ts';
import { sizeText } from '../terminal/size.ts';
import { openBlob, optionsOf } from './fetch-blob.ts';

/** A smaller blob is fetched again as quickly, and so is any of the local service. */
const worthKeepingBytes = 16 * 1024 * 1024;
const maxAgeMs = 7 * 24 * 3600 * 1000;

/**
 * Opens a blob as `openBlob`, from where an earlier download of it stopped. Fails as `openBlob`.
 * @returns its size, and its verified bytes from the first one
 */
export async function openDownload(cid: string, context: Context) {
  const { signal, stop } = withStop(context.signal);
  let kept: KeptBlocks | undefined;
  const { size, read, isHere } = await openBlob(cid, { ...context, signal }, async (block) => kept?.append(block));
  let isBroken = false;
  let isComplete = false;

  async function* blocks(): AsyncGenerator<Uint8Array> {
    let position = 0;
    // Not before the first byte is asked for: the caller may find that its output has no room.
    if (size > worthKeepingBytes && !isHere) kept = await keep(cid, size, context);
    for await (const chunk of kept?.read({ ...context, signal }) ?? []) {
      position += chunk.length;
      yield chunk;
    }
    if (position > 0) context.output.note(`continuing the download at ${sizeText(position)} of ${sizeText(size)}`);
    try {
      yield* read(position);
    } catch (error) {
      isBroken = true;
      throw error;
    }
  }

  const iterator = blocks();
  return {
    size,
    stream: pulled({
      next: async () => (await iterator.next()).value ?? undefined,
      cancel: () => iterator.return(undefined),
    }),
    /** Says that what the blob was fetched for is there: nothing of it is kept any more. */
    complete: (): void => void (isComplete = true),
    /**
     * Ends open requests. What an earlier run kept stays until one completes; what this one began
     * stays only where the fetching broke off or was interrupted.
     */
    async close(): Promise<void> {
      stop(new SealpinError('interrupted'));
      const stays = kept?.isContinued === true || isBroken || context.signal.aborted;
      await kept?.close(stays && !isComplete);
    },
  };
}

/** Opens what is kept of a blob; undefined, and no failure, when nothing can be kept. */
async function keep(cid: string, size: number, { dataDir, now }: Context): Promise<KeptBlocks | undefined> {
  const { downloads } = pathsIn(dataDir);
  const folder = join(downloads, cid);
  let held: HeldFolder | undefined;
  try {
    held = await holdFolder(folder, dataDir);
    if (held === undefined) return undefined;
    await removeOld(downloads, cid, dataDir, now());
    const disk = await statfs(folder);
    // Both the container and what comes out of it: the output must not fail for what is only a
    // convenience.
    const hasSpace = disk.blocks === 0 || disk.bavail * disk.bsize > 2 * size;
    const before = await stat(join(folder, blocksName)).catch(() => undefined);
    return new KeptBlocks({ cid: parseCid(cid), folder, held, hasSpace, isContinued: before !== undefined });
  } catch {
    held?.release();
    return undefined;
  }
}

/** Removes what nobody continued for 7 days. */
async function removeOld(downloads: string, current: string, dataDir: string, now: number): Promise<void> {
  for (const name of await readdir(downloads)) {
    const folder = join(downloads, name);
    if (name === current || !isCid(name) || !(await isOwnFolder(folder, [blocksName]))) continue;
    const file = await stat(join(folder, blocksName)).catch(() => undefined);
    if (file !== undefined && now - file.mtimeMs <= maxAgeMs) continue;
    const held = await holdFolder(folder, dataDir);
    if (held === undefined) continue;
    await removeFolder(folder, [blocksName]);
    held.release();
  }
}

const blocksName = 'blocks.car';
type HeldFolder = NonNullable<Awaited<ReturnType<typeof holdFolder>>>;
/** A block whose bytes were verified. */
type Block = { readonly cid: Cid; readonly bytes: Uint8Array };

class KeptBlocks {
  /** Says that an earlier run kept a part. */
  readonly isContinued: boolean;
  readonly #cid: Cid;
  readonly #folder: string;
  readonly #held: HeldFolder;
  /** Undefined when no more is kept. */
  #file: FileHandle | undefined;
  #isKeeping: boolean;
  /** Position of the next block: behind the verified ones. */
  #position = 0;
  /** Interior nodes are on the way to several ranges; each is kept once. */
  readonly #nodes = new Set<string>();
  #writing: Promise<void> = Promise.resolve();

  constructor(o: { cid: Cid; folder: string; held: HeldFolder; hasSpace: boolean; isContinued: boolean }) {
    this.isContinued = o.isContinued;
    this.#cid = o.cid;
    this.#folder = o.folder;
    this.#held = o.held;
    this.#isKeeping = o.hasSpace;
  }

  /** The verified bytes that are here, as far as they go. */
  async *read(context: Pick<Context, 'signal' | 'timeouts'>): AsyncGenerator<Uint8Array> {
    let handle: FileHandle | undefined;
    try {
      const kept = (handle = await open(join(this.#folder, blocksName)));
      const source: BlockSource = {
        id: 'the kept part',
        block: () => Promise.reject(new SealpinError('not_found')),
        car: async (_cid, start) => {
          if (start > 0) throw new SealpinError('not_found');
          return bytesOf(kept);
        },
      };
      const onBlock = async (block: Block): Promise<void> => this.#count(block);
      const file = await openFile(this.#cid.text, [source], { ...optionsOf(context), onBlock });
      yield* file.read();
    } catch {
      // It ends here, or is damaged from here on: the sources have the rest.
      context.signal.throwIfAborted();
    } finally {
      await handle?.close();
    }
  }

  #count({ cid, bytes }: Block): void {
    if (this.#position === 0) this.#position = carHeader(this.#cid).length;
    if (cid.codec !== 'raw') this.#nodes.add(cid.text);
    this.#position += carSection(cid, bytes.length).length + bytes.length;
  }

  /** Keeps one more block, once the one before it is written. */
  async append(block: Block): Promise<void> {
    await this.#writing;
    if (!this.#isKeeping || this.#nodes.has(block.cid.text)) return;
    this.#writing = this.#write(block).catch(async () => {
      // The disk is full or broken: the download continues without it.
      this.#isKeeping = false;
      if (!this.isContinued) await rm(join(this.#folder, blocksName), { force: true });
    });
  }

  async #write(block: Block): Promise<void> {
    if (this.#file === undefined) {
      this.#file = await open(join(this.#folder, blocksName), this.#position === 0 ? 'w' : 'r+', 0o600);
      await this.#file.truncate(this.#position);
    }
    const start = this.#position;
    const head = start === 0 ? [carHeader(this.#cid)] : [];
    const section = carSection(block.cid, block.bytes.length);
    const { bytesWritten } = await this.#file.writev([...head, section, block.bytes], start);
    this.#count(block);
    if (start + bytesWritten !== this.#position) throw new Error('the disk took a part only');
  }

  /** @param stays whether another download may continue it */
  async close(stays: boolean): Promise<void> {
    await this.#writing;
    await this.#file?.close();
    const isThere = (await stat(join(this.#folder, blocksName)).catch(() => undefined)) !== undefined;
    if (!stays || !isThere) await removeFolder(this.#folder, [blocksName]);
    this.#held.release();
  }
}
