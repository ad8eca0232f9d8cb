/**
 * The ciphertext of an upload that can be continued, in a folder of `uploads/` of the data
 * directory (0600): encrypting again would give other bytes. Beside it `state.json` says what it
 * is; neither holds a key in the clear, or a password. A spool without `state.json` is not
 * complete, and is never continued.
 */
import { hash } from 'node:crypto';
import { createReadStream, existsSync, statSync, utimesSync } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import type { UploadSource } from '../../client/resumable-upload.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { cidBuilder } from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { release } from '../io/byte-stream.ts';
import { readFailure, ifMissing } from '../errno.ts';
import { openSink, writeSmall } from '../io/output-file.ts';
import { holdFolder, isOwnFolder, lockName, removeFolder } from '../io/held-folder.ts';
import { jsonIn } from '../io/json-text.ts';
import { pathsIn } from '../io/paths.ts';
import { nodeProvider } from '../keys/node-provider.ts';

/** The file that was encrypted, as it was then. */
const SourceMark = v.object({
  path: v.string(),
  size: v.number(),
  mtimeNs: v.string(),
  /** Both are undefined in the spools of older versions. */
  ctimeNs: v.optional(v.string()),
  nlink: v.optional(v.string()),
  dev: v.string(),
  ino: v.string(),
});
export type SourceMark = Readonly<v.InferOutput<typeof SourceMark>>;

const SpoolState = v.object({
  v: v.literal(1),
  /** URL of the service, and the ID of the API key whose upload it is. */
  service: v.string(),
  keyId: v.string(),
  /** Undefined for a pipe, which cannot be read again and so is not continued by another run. */
  source: v.optional(SourceMark),
  /** Bytes and CID of the ciphertext. */
  bytes: v.pipe(v.number(), v.safeInteger()),
  cid: v.string(),
  idempotencyKey: v.string(),
  /** The file key of a payload that has no header, sealed under the API key, in base64. */
  sealedKey: v.optional(v.string()),
  /** Once the service has given it. */
  uploadId: v.optional(v.string()),
  startedAt: v.string(),
});
export type SpoolState = Readonly<v.InferOutput<typeof SpoolState>>;

type World = Pick<Context, 'dataDir' | 'stdout' | 'cwd'>;
type HeldFolder = NonNullable<Awaited<ReturnType<typeof holdFolder>>>;

const spoolIdBytes = 16;
const spoolFiles = ['container', 'state.json'];

/**
 * The name of the spool that a command continues: the same for the same parts in the same order.
 */
export function spoolId(parts: readonly string[]): string {
  return hash('sha256', JSON.stringify(parts)).slice(0, 2 * spoolIdBytes);
}

/** Checks whether a killed or failed command left something under this name. */
export function hasSpool(dataDir: string, id: string): boolean {
  return existsSync(stateIn(join(pathsIn(dataDir).uploads, id)));
}

/** The names of all spools of a data directory. */
export async function spoolIds(dataDir: string): Promise<string[]> {
  const { uploads } = pathsIn(dataDir);
  const names = await ifMissing(readdir(uploads), []).catch((error: unknown) => {
    throw readFailure(uploads, error);
  });
  const own: string[] = [];
  for (const name of names)
    if (/^[0-9a-f]{32}$/.test(name) && (await isOwnFolder(join(uploads, name), spoolFiles))) own.push(name);
  return own;
}

/**
 * Opens a spool, for this process alone, and creates its folder.
 *
 * @throws conflict when another process has it, file_unwritable, disk_full
 */
export async function openSpool(id: string, environment: World): Promise<Spool> {
  const folder = join(pathsIn(environment.dataDir).uploads, id);
  const held = await holdFolder(folder, environment.dataDir);
  if (held === undefined)
    throw new SealpinError('conflict', 'another sealpin is uploading the same file', {
      hint: 'wait until it has ended, and see: sealpin list',
    });
  try {
    const isUsed = (await readdir(folder)).some((name) => !name.startsWith(lockName) && name !== 'state.json');
    return new Spool({ folder, environment, held, state: await readState(folder), isUsed });
  } catch (error) {
    held.release();
    throw error;
  }
}

/** A spool that this process has. */
export class Spool {
  /** Reports that an earlier process began to fill it and did not finish. */
  readonly isIncomplete: boolean;
  readonly #folder: string;
  readonly #environment: World;
  readonly #held: HeldFolder;
  #state: SpoolState | undefined;

  constructor(o: {
    folder: string;
    environment: World;
    held: HeldFolder;
    state: SpoolState | undefined;
    isUsed: boolean;
  }) {
    this.#folder = o.folder;
    this.#environment = o.environment;
    this.#held = o.held;
    this.#state = o.state;
    this.isIncomplete = o.isUsed && o.state === undefined;
  }

  /** Undefined while there is no complete ciphertext. */
  get state(): SpoolState | undefined {
    return this.#state;
  }

  /**
   * Writes the ciphertext, and then the state.
   *
   * @param about all of the state but what follows from the ciphertext
   * @throws disk_full, file_unwritable, what the stream throws; then nothing is left
   */
  async fill(
    { stream, bytes }: { readonly stream: ReadableStream<Uint8Array>; readonly bytes: number | undefined },
    about: Omit<SpoolState, 'v' | 'bytes' | 'cid'>,
    onBytes: (bytes: number) => void,
  ): Promise<SpoolState> {
    await this.#forgetState();
    const sink = await openSink(containerIn(this.#folder), { force: true, environment: this.#environment });
    const builder = cidBuilder({ digest: nodeProvider.sha256 });
    try {
      await rm(containerIn(this.#folder), { force: true });
      if (bytes !== undefined) await sink.room(bytes);
      for await (const chunk of stream) {
        const { length } = chunk;
        await builder.write(chunk);
        await sink.write(chunk, () => release(chunk));
        onBytes(length);
      }
      const made = await builder.finish();
      await sink.commit();
      return await this.save({ v: 1, ...about, ...made });
    } catch (error) {
      throw isSealpinError(error, 'disk_full') ? spoolFull(error, bytes) : error;
    } finally {
      await sink.abort();
    }
  }

  /** Changes the state on the disk, synced. */
  async save(state: SpoolState): Promise<SpoolState> {
    const text = Buffer.from(`${JSON.stringify(state, null, 2)}\n`);
    await writeSmall(stateIn(this.#folder), text, { force: true, environment: this.#environment });
    this.#state = state;
    return state;
  }

  /** Time of the last change of the state, or of the last byte taken since, in ms. */
  get continuedAt(): number {
    return statSync(stateIn(this.#folder)).mtimeMs;
  }

  /** Notes that the service took bytes. */
  continued(now: number): void {
    utimesSync(stateIn(this.#folder), now / 1000, now / 1000);
  }

  /** The ciphertext, from any byte. */
  source(): UploadSource {
    const path = containerIn(this.#folder);
    return {
      bytes: this.#state?.bytes ?? 0,
      async *read(start, end) {
        try {
          if (end > start) yield* createReadStream(path, { start, end: end - 1, highWaterMark: spoolPieceBytes });
        } catch (error) {
          throw readFailure(path, error);
        }
      },
    };
  }

  /** Removes the ciphertext and the state. */
  async empty(): Promise<void> {
    // The state goes first: what is left of a removal that breaks off is not continued.
    await this.#forgetState();
    for (const name of await readdir(this.#folder))
      if (!name.startsWith(lockName)) await rm(join(this.#folder, name), { force: true });
  }

  /** Lets other processes have it. An empty one disappears. */
  async release(): Promise<void> {
    if (this.#state === undefined) await removeFolder(this.#folder, spoolFiles);
    this.#held.release();
  }

  async #forgetState(): Promise<void> {
    await rm(stateIn(this.#folder), { force: true });
    this.#state = undefined;
  }
}

const containerIn = (folder: string): string => join(folder, 'container');
const stateIn = (folder: string): string => join(folder, 'state.json');

const spoolPieceBytes = 256 * 1024;

function spoolFull(error: SealpinError, bytes: number | undefined): SealpinError {
  return new SealpinError('disk_full', error.message, {
    hint:
      'a large upload needs a copy of the encrypted file on this disk until it ends' +
      `${bytes === undefined ? '' : ', of the size of the file'}: free some space, or use a data directory on ` +
      'another disk (--data-dir)',
    cause: error,
  });
}

/** The state; undefined if missing, damaged, of another version or of another ciphertext. */
async function readState(folder: string): Promise<SpoolState | undefined> {
  const statePath = stateIn(folder);
  const text = await ifMissing(readFile(statePath, 'utf8'), undefined).catch((error: unknown) => {
    throw readFailure(statePath, error);
  });
  const found = jsonIn(text ?? '');
  if (!v.is(SpoolState, found)) return undefined;
  const stats = await stat(containerIn(folder)).catch(() => undefined);
  return stats?.size === found.bytes ? found : undefined;
}
