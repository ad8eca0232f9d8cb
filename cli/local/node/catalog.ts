/**
 * Catalog of the node, in SQLite: which file on disk has which blocks, what they link to, and what
 * is pinned. Every change is one transaction that is on the disk when the call returns. Calls do
 * not wait, so none can come between the statements of another.
 */
import { EventEmitter, once } from 'node:events';
import { DatabaseSync } from 'node:sqlite';
import { SealpinError } from '../../../shared/errors.ts';
import { isDamage, sqliteCodeOf, sqliteCodes } from '../../errno.ts';
import { withDatabase } from '../../io/sqlite.ts';
import { above, filesBelow, Reach } from './reach.ts';
import { prepareTables } from './schema.ts';

/**
 * A block of a file on disk. A leaf is the `bytes` bytes from `offset` on; an interior node has
 * `node`, which the catalog keeps, and each CID that it links to.
 */
export type BlockRow = {
  cid: string;
  offset: number;
  bytes: number;
  node: Uint8Array | null;
  links: readonly string[];
};

/** Location of a block: `file` is the name on disk. */
export type BlockLocation = { file: string; offset: number; bytes: number; node: Uint8Array | null };

/** A new file, complete on disk; `keepUntil` in ms since 1970, should it not be pinned. */
export type CatalogFile = {
  file: string;
  /** Its root: the last of its blocks. */
  cid: string;
  blocks: readonly BlockRow[];
  pin: { name: string } | undefined;
  keepUntil: number;
};

/** CIDs of blocks that are gone, and names on disk as `publish` returns them. */
type Collected = { cids: string[]; files: string[] };

/** `keep_until` of a file that a pin holds: nobody asks again before a pin above it is removed. */
const held = Number.MAX_SAFE_INTEGER;

/** Codes of SQLite that say nothing of what is in a file. */
const { busy, readOnly, ioError, full, cannotOpen } = sqliteCodes;
const otherCodes: readonly unknown[] = [busy, readOnly, ioError, full, cannotOpen];

function isIntact(db: DatabaseSync): boolean {
  return db.prepare('PRAGMA integrity_check(1)').get()?.['integrity_check'] === 'ok';
}

/** Checks the whole catalog for damage when an error may come from it. */
function hasDamage(path: string, thrown: unknown): boolean {
  if (!(thrown instanceof Error) || thrown instanceof SealpinError || 'syscall' in thrown) return false;
  if (otherCodes.includes(sqliteCodeOf(thrown))) return false;
  try {
    return withDatabase(path, (db) => !isIntact(db), { readOnly: true });
  } catch (cause) {
    return isDamage(cause);
  }
}

/**
 * The error to show for one that was thrown over a catalog that is closed: where it is damaged that
 * is the reason.
 */
export function catalogError(path: string, thrown: unknown): unknown {
  if (!isDamage(thrown) && !hasDamage(path, thrown)) return thrown;
  return new SealpinError('config_invalid', `${path}, the index of the built-in IPFS node, is damaged`, {
    hint: 'move it away together with node.db-wal and start again: the index is rebuilt from the files in data/',
    cause: thrown,
  });
}

/**
 * Opens the catalog, for this process alone.
 * @throws config_invalid when the file is damaged or of a newer sealpin; it is left as it is
 */
export function openCatalog(path: string): Catalog {
  const db = new DatabaseSync(path, { enableForeignKeyConstraints: true, timeout: 1000 });
  try {
    return new Catalog(db, path);
  } catch (cause) {
    db.close();
    throw catalogError(path, cause);
  }
}

const leavesOfFile = 'block WHERE block.file = file.id AND node IS NULL';

const statements = (db: DatabaseSync) => ({
  insertFile: db.prepare(`INSERT INTO file (name, keep_until) VALUES (?, ${held}) ON CONFLICT (name) DO NOTHING`),
  fileId: db.prepare('SELECT id FROM file WHERE name = ?'),
  insertBlock: db.prepare(
    'INSERT INTO block (cid, file, start, bytes, node) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
  ),
  insertLink: db.prepare('INSERT INTO link (parent, child) VALUES (?, ?) ON CONFLICT DO NOTHING'),
  complete: db.prepare('UPDATE file SET cid = ?, keep_until = ? WHERE id = ?'),
  replacedBy: db.prepare(`
    SELECT id, name, keep_until FROM file WHERE cid = ?1 AND id <> ?2 AND NOT EXISTS (
      SELECT 1 FROM block AS old WHERE old.file = file.id AND NOT EXISTS (
        SELECT 1 FROM block AS new WHERE new.cid = old.cid AND new.file = ?2))`),
  location: db.prepare(`
    SELECT name AS file, start AS offset, bytes, node FROM block JOIN file ON file.id = block.file
    WHERE block.cid = ? AND file.cid IS NOT NULL ORDER BY block.file DESC LIMIT 1`),
  page: db.prepare(`
    SELECT block.rowid AS row, block.cid, name AS file, start AS offset, bytes, node FROM block
    JOIN file ON file.id = block.file WHERE block.rowid > ? AND file.cid IS NOT NULL ORDER BY block.rowid LIMIT ?`),
  insertPin: db.prepare(
    'INSERT INTO pin (cid, name) VALUES (?, ?) ON CONFLICT (cid) DO UPDATE SET name = excluded.name',
  ),
  deletePin: db.prepare('DELETE FROM pin WHERE cid = ?'),
  pins: db.prepare('SELECT cid, name FROM pin WHERE ?1 IS NULL OR cid = ?1'),
  expireNow: db.prepare(
    `UPDATE file SET keep_until = 0 WHERE keep_until > 0 AND keep_until < ${held} AND (?1 IN (${above('file.cid')})
       OR EXISTS (SELECT 1 FROM ${leavesOfFile})
       AND NOT EXISTS (SELECT 1 FROM ${leavesOfFile} AND ?1 NOT IN (${above('block.cid')})))`,
  ),
  expireHeld: db.prepare(`UPDATE file SET keep_until = 0 WHERE keep_until = ${held} AND id IN (${filesBelow})`),
  expired: db.prepare(
    `SELECT id, name FROM file WHERE cid IS NOT NULL AND keep_until <= ? AND keep_until <> ${held} ORDER BY id`,
  ),
  hold: db.prepare(`UPDATE file SET keep_until = ${held} WHERE id = ?`),
  onlyHere: db.prepare(`
    SELECT cid FROM block WHERE file = ?1 AND NOT EXISTS (
      SELECT 1 FROM block AS other JOIN file ON file.id = other.file
      WHERE other.cid = block.cid AND other.file <> ?1 AND file.cid IS NOT NULL)`),
  staged: db.prepare('SELECT id FROM file WHERE cid IS NULL AND (?1 IS NULL OR name = ?1)'),
  deleteLinks: db.prepare(`
    DELETE FROM link WHERE parent IN (SELECT cid FROM block WHERE file = ?1 AND node IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM block AS other WHERE other.cid = block.cid AND other.file <> ?1))`),
  deleteFile: db.prepare('DELETE FROM file WHERE id = ?'),
  insertRemoved: db.prepare('INSERT INTO removed (name) VALUES (?) ON CONFLICT DO NOTHING'),
  deleteRemoved: db.prepare('DELETE FROM removed WHERE name = ?'),
  files: db.prepare('SELECT name FROM file'),
  removed: db.prepare('SELECT name FROM removed'),
});

/** The rows of the node's files, blocks and pins. */
export class Catalog extends Reach {
  readonly #db: DatabaseSync;
  readonly #sql: ReturnType<typeof statements>;
  /** Tells of each CID that is pinned. */
  readonly #pinning = new EventEmitter().setMaxListeners(0);
  #isChecked = false;

  /** @param db is prepared for it @param path of its file, for errors */
  constructor(db: DatabaseSync, path: string) {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');
    prepareTables(db, path);
    super(db);
    this.#db = db;
    this.#sql = statements(db);
    this.#transaction(() => this.#dropStaged());
  }

  /**
   * Writes rows before their file is complete, so that a huge one needs no memory; they are not
   * visible before `publish`.
   */
  stage(file: string, blocks: readonly BlockRow[]): void {
    this.#transaction(() => this.#insert(file, blocks));
  }

  /** Forgets the staged rows of a file that was given up. */
  unstage(file: string): void {
    this.#transaction(() => this.#dropStaged(file));
  }

  /**
   * Adds files, all or none. A file replaces an older one with the same root if it has all of its
   * blocks: the older copy may be damaged or missing. Returns the names on disk of the replaced
   * copies; `removed` lists them until they are forgotten.
   * @param forget dropped names whose removal is on the disk
   */
  publish(files: readonly CatalogFile[], forget: readonly string[] = []): string[] {
    return this.#transaction(() => {
      for (const name of forget) this.#sql.deleteRemoved.run(name);
      return files.flatMap((file) => this.#add(file));
    });
  }

  /** Finds the newest copy of a block in a complete file; undefined when there is none. */
  find(cid: string): BlockLocation | undefined {
    return this.#sql.location.get(cid) as BlockLocation | undefined;
  }

  /** Some blocks of complete files, by their rows. @param after the row of the last one before */
  blocksAfter(after: number, count: number): (BlockLocation & { row: number; cid: string })[] {
    return this.#sql.page.all(after, count) as ReturnType<Catalog['blocksAfter']>;
  }

  pin(cid: string, name: string): void {
    this.#transaction(() => this.#setPin(cid, name));
  }

  /** Records that the pin of a CID holds what was sent of it again, too. */
  joinPin(cid: string): void {
    this.#transaction(() => this.#sql.expireNow.run(cid));
  }

  /** Waits until a CID is pinned. @throws an AbortError once the signal is aborted */
  async untilPinned(cid: string, signal: AbortSignal): Promise<void> {
    if (this.pins(cid).length === 0) await once(this.#pinning, cid, { signal });
  }

  /**
   * Removes pins, all or none, and collects in the same transaction. When a CID has no pin, nothing
   * is removed and that CID is returned.
   * @param now in milliseconds since 1970
   */
  unpin(cids: readonly string[], now: number): string | Collected {
    const missing = cids.find((cid) => this.#sql.pins.get(cid) === undefined);
    if (missing !== undefined) return missing;
    return this.#transaction(() => {
      for (const cid of cids) {
        this.#sql.deletePin.run(cid);
        this.#sql.expireHeld.run(cid);
      }
      return this.#collect(now, true);
    });
  }

  pins(cid?: string) {
    return this.#sql.pins.all(cid ?? null) as { cid: string; name: string }[];
  }

  /**
   * Drops every file that no pin holds and whose time is over. A pin holds a file when a block of
   * it that no other file has is pinned or below a pin.
   * @param now in milliseconds since 1970; undefined: the time of every file is over
   */
  collect(now = held): Collected {
    return this.#transaction(() => this.#collect(now, false));
  }

  /** The names on disk that belong to complete files. */
  files(): Set<string> {
    return new Set(this.#sql.files.all().map((row) => String(row['name'])));
  }

  /**
   * Names on disk that were dropped and may still be there: their removal may have been
   * interrupted.
   */
  removed(): Set<string> {
    return new Set(this.#sql.removed.all().map((row) => String(row['name'])));
  }

  /** Forgets dropped names; only after their removal is on the disk. */
  forget(names: readonly string[]): void {
    this.#transaction(() => names.forEach((name) => this.#sql.deleteRemoved.run(name)));
  }

  /**
   * Looks at all of it, once. A page that lies elsewhere than it was written can look like an empty
   * table, and nothing is to be removed by what that says. @throws what SQLite throws of a damaged
   * file
   */
  check(): void {
    if (!this.#isChecked && !isIntact(this.#db))
      throw Object.assign(new Error('database disk image is malformed'), { errcode: sqliteCodes.corrupt });
    this.#isChecked = true;
  }

  /** Writes all of it, as it is now, to a new file, which need not be on the disk then. */
  copyTo(path: string): void {
    this.#db.exec('PRAGMA synchronous = OFF');
    try {
      this.#db.prepare('VACUUM INTO ?').run(path);
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL');
    }
  }

  close(): void {
    this.#db.close();
  }

  #transaction<T>(work: () => T): T {
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      this.#db.exec('COMMIT');
      return result;
    } catch (cause) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      throw cause;
    }
  }

  #insert(file: string, blocks: readonly BlockRow[]): number {
    const { insertFile, fileId, insertBlock, insertLink } = this.#sql;
    insertFile.run(file);
    const id = Number(fileId.get(file)?.['id']);
    for (const { cid, offset, bytes, node, links } of blocks) {
      insertBlock.run(cid, id, offset, bytes, node);
      for (const link of links) insertLink.run(cid, link);
    }
    return id;
  }

  #deleteRows(id: number): void {
    this.#sql.deleteLinks.run(id);
    this.#sql.deleteFile.run(id);
  }

  #drop(id: number, name: string): void {
    this.#deleteRows(id);
    this.#sql.insertRemoved.run(name);
  }

  /** Drops the rows of files that never became complete. */
  #dropStaged(name?: string): void {
    for (const { id } of this.#sql.staged.all(name ?? null)) this.#deleteRows(Number(id));
  }

  #setPin(cid: string, name: string): void {
    this.#sql.insertPin.run(cid, name);
    // From now on the pin decides: once it is removed, the file is, too, and each part of it, whose
    // root is not below that of the file, but all leaves are.
    this.#sql.expireNow.run(cid);
    this.#pinning.emit(cid);
  }

  /** Adds a file, and returns the names of those that it replaces. */
  #add({ file, cid, blocks, pin, keepUntil }: CatalogFile): string[] {
    const id = this.#insert(file, blocks);
    const replaced = this.#sql.replacedBy.all(cid, id);
    const times = replaced.map((older) => Number(older['keep_until'])).filter((time) => time !== held);
    this.#sql.complete.run(cid, Math.max(keepUntil, ...times), id);
    for (const older of replaced) this.#drop(Number(older['id']), String(older['name']));
    if (pin) this.#setPin(cid, pin.name);
    return replaced.map((older) => String(older['name'])).filter((name) => name !== file);
  }

  /** @param isAsked whether what is removed was named, or is what nobody named */
  #collect(now: number, isAsked: boolean): Collected {
    const collected: Collected = { cids: [], files: [] };
    const isLive = this.liveness();
    for (const row of this.#sql.expired.all(now)) {
      const [id, name] = [Number(row['id']), String(row['name'])];
      const cids = this.#sql.onlyHere.all(id).map((block) => String(block['cid']));
      if (cids.some(isLive)) {
        this.#sql.hold.run(id);
        continue;
      }
      if (!isAsked) this.check();
      collected.cids.push(...cids);
      collected.files.push(name);
      this.#drop(id, name);
    }
    return collected;
  }
}
