/**
 * The private history of blob IDs: one line of JSON for each blob that was stored or deleted from
 * here. It is only appended to (one write per line, so that two processes do not mix theirs), 0600.
 * It holds no secret, and no service sees it.
 */
import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import * as v from 'valibot';
import { errnoOf, readFailure, writeFailure } from '../errno.ts';
import { readFlags } from '../io/input.ts';
import { jsonIn } from '../io/json-text.ts';
import { makeDataDirectory, pathsIn } from '../io/paths.ts';
import type { Context } from '../context.ts';
import { SealpinError } from '../../shared/errors.ts';

const Stored = v.object({
  v: v.literal(1),
  cid: v.string(),
  fileId: v.string(),
  service: v.string(),
  /** Name of the file that was encrypted, without its directory; undefined for a pipe. */
  name: v.optional(v.string()),
  /** Time of the file's last change, in RFC 3339. */
  modified: v.optional(v.string()),
  /** Size of the container. */
  bytes: v.number(),
  at: v.string(),
});
const Deleted = v.object({ v: v.literal(1), deleted: v.string(), at: v.string() });
const HistoryEntry = v.union([Deleted, Stored]);

/** A blob that was stored from this data directory; `at` is an ISO 8601 timestamp. */
export type StoredEntry = Readonly<v.InferOutput<typeof Stored>>;
type Deleted = Readonly<v.InferOutput<typeof Deleted>>;
/** One line of the history. */
export type Entry = StoredEntry | Deleted;

/** Appends one entry. @throws file_unwritable, disk_full */
export async function remember(dataDir: string, entry: Entry): Promise<void> {
  await makeDataDirectory(dataDir);
  const { history } = pathsIn(dataDir);
  try {
    const file = await open(history, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT, 0o600);
    try {
      const { size } = await file.stat();
      const last = Buffer.alloc(1);
      if (size > 0) await file.read(last, 0, 1, size - 1);
      // A line that a crash or a full disk cut short must not take the next one with it.
      const separator = size > 0 && last[0] !== 10 ? '\n' : '';
      await file.write(`${separator}${JSON.stringify(entry)}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    throw writeFailure(history, error);
  }
}

/**
 * Reads the history.
 * @returns the entries, oldest first, and the numbers of the lines that cannot be read (they are
 * kept)
 * @throws file_unreadable
 */
export async function recall(dataDir: string): Promise<{ entries: Entry[]; damagedLines: number[] }> {
  const { history } = pathsIn(dataDir);
  let text;
  try {
    text = await readFile(history, { encoding: 'utf8', flag: readFlags });
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return { entries: [], damagedLines: [] };
    throw readFailure(history, error);
  }
  const entries: Entry[] = [];
  const damagedLines: number[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line === '') continue;
    const entry = jsonIn(line);
    if (v.is(HistoryEntry, entry)) entries.push(entry);
    else damagedLines.push(index + 1);
  }
  return { entries, damagedLines };
}

/** Entries of blobs that are still stored, as far as this command line deleted them. */
export function notDeleted(entries: readonly Entry[]): StoredEntry[] {
  const deleted = new Set(entries.flatMap((entry) => ('deleted' in entry ? [entry.deleted] : [])));
  // A later line of a file has its new name.
  const byFileId = new Map<string, StoredEntry>();
  for (const entry of entries)
    if ('cid' in entry && !deleted.has(entry.fileId))
      byFileId.set(entry.fileId, { ...entry, at: byFileId.get(entry.fileId)?.at ?? entry.at });
  return [...byFileId.values()];
}

/** The names of the files that were stored from here, by file ID; those of a pipe have none. */
export async function namesInHistory({ dataDir }: Pick<Context, 'dataDir'>): Promise<Map<string, string>> {
  const { entries } = await recall(dataDir);
  return new Map(
    entries.flatMap((entry) => ('cid' in entry && entry.name !== undefined ? [[entry.fileId, entry.name]] : [])),
  );
}

/** Finds what is remembered of the file that was stored from here as a blob. */
export async function fileInHistory(cid: string, { dataDir }: Pick<Context, 'dataDir'>) {
  const { entries } = await recall(dataDir);
  const own = entries.filter((entry): entry is StoredEntry => 'cid' in entry && entry.cid === cid);
  // A later line has its new name alone.
  const time = own.findLast(({ modified }) => modified !== undefined)?.modified;
  return { name: own.at(-1)?.name, modified: time === undefined ? undefined : new Date(time) };
}

/** Remembers what was stored or deleted, which stays so if that fails: then a warning says it. */
export async function keepInHistory(
  entry: Omit<StoredEntry, 'v' | 'at'> | Omit<Deleted, 'v' | 'at'>,
  { dataDir, now, output }: Pick<Context, 'dataDir' | 'now' | 'output'>,
): Promise<void> {
  try {
    await remember(dataDir, { v: 1, ...entry, at: new Date(now()).toISOString() });
  } catch (error) {
    if (!(error instanceof SealpinError)) throw error;
    output.warn(`the history was not written: ${error.message}`);
  }
}
