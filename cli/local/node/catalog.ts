/**
 * Catalog of the node, in SQLite: which file on disk has which blocks, what they link to, and what is pinned. Every
 * change is one transaction that is on the disk when the call returns. Calls do not wait, so none can come between the
 * statements of another.
 */
import { DatabaseSync } from 'node:sqlite';
import { SealpinError } from '../../../shared/errors.ts';
import { filesBelow, openReach, type Reach } from './reach.ts';
import { prepareTables } from './schema.ts';

/**
 * A block of a file on disk. A leaf is the `bytes` bytes from `offset` on; an interior node has `node`, which the catalog keeps,
 * and each CID that it links to.
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

type PinnedRoot = { cid: string; name: string };

/** A new file that is complete on disk; `keepUntil` in milliseconds since 1970, should it not be pinned. */
type CatalogFile = {
  file: string;
  /** Its root: the last of its blocks. */
  cid: string;
  blocks: readonly BlockRow[];
  pin: { name: string } | undefined;
  keepUntil: number;
};

/** CIDs of blocks that are gone, and names on disk as `publish` returns them. */
type Collected = { cids: string[]; files: string[] };

export interface Catalog extends Omit<Reach, 'liveness'> {
  /** Writes rows before their file is complete, without much memory; they are visible after `publish`. */
  stage(file: string, blocks: readonly BlockRow[]): void;
  /** Forgets the staged rows of a file that was given up. */
  unstage(file: string): void;
  /**
   * Adds files, all or none. A file replaces an older one with the same root if it has all of its blocks: the older copy may be
   * damaged or missing. Returns the names on disk of the replaced copies; `removed` lists them until they are forgotten.
   * @param forget dropped names whose removal is on the disk
   */
  publish(files: readonly CatalogFile[], forget?: readonly string[]): string[];
  /** Finds the newest copy of a block in a complete file; undefined when there is none. */
  find(cid: string): BlockLocation | undefined;
  /** Some blocks of complete files, in the order of their rows. @param after the row of the last one before */
  blocksAfter(after: number, count: number): (BlockLocation & { row: number; cid: string })[];
  pin(cid: string, name: string): void;
  /**
   * Removes pins, all or none, and collects in the same transaction. When a CID has no pin, nothing is removed and that CID is returned.
   * @param now in milliseconds since 1970
   */
  unpin(cids: readonly string[], now: number): string | Collected;
  pins(cid?: string): PinnedRoot[];
  /**
   * Drops every file that no pin holds and whose time is over. A pin holds a file when a block of it that no other file has is
   * pinned or below a pin.
   * @param now in milliseconds since 1970; undefined: the time of every file is over
   */
  collect(now?: number): Collected;
  /** The names on disk that belong to complete files. */
  files(): Set<string>;
  /** Names on disk that were dropped and may still be there: their removal may have been interrupted. */
  removed(): Set<string>;
  /** Forgets dropped names; only after their removal is on the disk. */
  forget(names: readonly string[]): void;
  /**
   * Looks at all of it, once. A page that lies elsewhere than it was written can look like an empty table, and nothing is to be removed by
   * what that says. @throws what SQLite throws of a damaged file
   */
  check(): void;
  close(): void;
}

/** `keep_until` of a file that a pin holds: nobody asks again before a pin above it is removed. */
const held = Number.MAX_SAFE_INTEGER;

/** SQLITE_CORRUPT and SQLITE_NOTADB, the result codes for a damaged file (https://sqlite.org/rescode.html). */
const damageCodes = [11, 26];

/** Recognizes an error by which SQLite reports a damaged catalog. */
export function isDamage(thrown: unknown): boolean {
  return thrown instanceof Error && 'errcode' in thrown && damageCodes.includes(Number(thrown.errcode) & 0xff);
}

/** Codes of SQLite that say nothing of what is in a file: BUSY, READONLY, IOERR, FULL, CANTOPEN. */
const otherCodes = [5, 8, 10, 13, 14];

/** Checks the whole catalog for damage when an error may come from it. */
function hasDamage(path: string, thrown: unknown): boolean {
  if (!(thrown instanceof Error) || thrown instanceof SealpinError || 'syscall' in thrown) return false;
  if ('errcode' in thrown && otherCodes.includes(Number(thrown.errcode) & 0xff)) return false;
  try {
    const db = new DatabaseSync(path, { readOnly: true });
    try {
      return db.prepare('PRAGMA integrity_check(1)').get()?.['integrity_check'] !== 'ok';
    } finally {
      db.close();
    }
  } catch (cause) {
    return isDamage(cause);
  }
}

/** The error to show for one that was thrown over a catalog that is closed: where it is damaged that is the reason. */
export function catalogError(path: string, thrown: unknown): unknown {
  if (!isDamage(thrown) && !hasDamage(path, thrown)) return thrown;
  return new SealpinError('config_invalid', `${path}, the index of the built-in IPFS node, is damaged`, {
    hint: 'move it away together with node.db-wal and start again: the index is rebuilt from the files in data/',
    cause: thrown,
  });
}

/** Opens the catalog, for this process alone. @throws config_invalid for a damaged or newer file, which stays */
export function openCatalog(path: string): Catalog {
  const db = new DatabaseSync(path, { enableForeignKeyConstraints: true, timeout: 1000 });
  try {
    return catalogOf(db, path);
  } catch (cause) {
    db.close();
    throw catalogError(path, cause);
  }
}

function catalogOf(db: DatabaseSync, path: string): Catalog {
  db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');
  prepareTables(db, path);
  const { liveness, ...reach } = openReach(db);

  const insertFile = db.prepare(
    `INSERT INTO file (name, keep_until) VALUES (?, ${held}) ON CONFLICT (name) DO NOTHING`,
  );
  const fileId = db.prepare('SELECT id FROM file WHERE name = ?');
  const insertBlock = db.prepare(
    'INSERT INTO block (cid, file, start, bytes, node) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const insertLink = db.prepare('INSERT INTO link (parent, child) VALUES (?, ?) ON CONFLICT DO NOTHING');
  const complete = db.prepare('UPDATE file SET cid = ?, keep_until = ? WHERE id = ?');
  const replacedBy = db.prepare(`
    SELECT id, name, keep_until FROM file WHERE cid = ?1 AND id <> ?2 AND NOT EXISTS (
      SELECT 1 FROM block AS old WHERE old.file = file.id AND NOT EXISTS (
        SELECT 1 FROM block AS new WHERE new.cid = old.cid AND new.file = ?2))`);
  const location = db.prepare(`
    SELECT name AS file, start AS offset, bytes, node FROM block JOIN file ON file.id = block.file
    WHERE block.cid = ? AND file.cid IS NOT NULL ORDER BY block.file DESC LIMIT 1`);
  const page = db.prepare(`
    SELECT block.rowid AS row, block.cid, name AS file, start AS offset, bytes, node FROM block
    JOIN file ON file.id = block.file WHERE block.rowid > ? AND file.cid IS NOT NULL ORDER BY block.rowid LIMIT ?`);
  const insertPin = db.prepare(
    'INSERT INTO pin (cid, name) VALUES (?, ?) ON CONFLICT (cid) DO UPDATE SET name = excluded.name',
  );
  const deletePin = db.prepare('DELETE FROM pin WHERE cid = ?');
  const pins = db.prepare('SELECT cid, name FROM pin WHERE ?1 IS NULL OR cid = ?1');
  const expireNow = db.prepare('UPDATE file SET keep_until = 0 WHERE cid = ?');
  const expireHeld = db.prepare(`UPDATE file SET keep_until = 0 WHERE keep_until = ${held} AND id IN (${filesBelow})`);
  const expired = db.prepare(
    `SELECT id, name FROM file WHERE cid IS NOT NULL AND keep_until <= ? AND keep_until <> ${held} ORDER BY id`,
  );
  const hold = db.prepare(`UPDATE file SET keep_until = ${held} WHERE id = ?`);
  const onlyHere = db.prepare(`
    SELECT cid FROM block WHERE file = ?1 AND NOT EXISTS (
      SELECT 1 FROM block AS other JOIN file ON file.id = other.file
      WHERE other.cid = block.cid AND other.file <> ?1 AND file.cid IS NOT NULL)`);
  const staged = db.prepare('SELECT id FROM file WHERE cid IS NULL AND (?1 IS NULL OR name = ?1)');
  const deleteLinks = db.prepare(`
    DELETE FROM link WHERE parent IN (SELECT cid FROM block WHERE file = ?1 AND node IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM block AS other WHERE other.cid = block.cid AND other.file <> ?1))`);
  const deleteFile = db.prepare('DELETE FROM file WHERE id = ?');
  const insertRemoved = db.prepare('INSERT INTO removed (name) VALUES (?) ON CONFLICT DO NOTHING');
  const deleteRemoved = db.prepare('DELETE FROM removed WHERE name = ?');

  function transaction<T>(work: () => T): T {
    db.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      db.exec('COMMIT');
      return result;
    } catch (cause) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw cause;
    }
  }

  function names(table: 'file' | 'removed'): Set<string> {
    const rows = db.prepare(`SELECT name FROM ${table}`).all();
    return new Set(rows.map((row) => String(row['name'])));
  }

  function insert(file: string, blocks: readonly BlockRow[]): number {
    insertFile.run(file);
    const id = Number(fileId.get(file)?.['id']);
    for (const { cid, offset, bytes, node, links } of blocks) {
      insertBlock.run(cid, id, offset, bytes, node);
      for (const link of links) insertLink.run(cid, link);
    }
    return id;
  }

  function deleteRows(id: number): void {
    deleteLinks.run(id);
    deleteFile.run(id);
  }

  function drop(id: number, name: string): void {
    deleteRows(id);
    insertRemoved.run(name);
  }

  /** Drops the rows of files that never became complete. */
  function dropStaged(name?: string): void {
    for (const { id } of staged.all(name ?? null)) deleteRows(Number(id));
  }

  function setPin(cid: string, name: string): void {
    insertPin.run(cid, name);
    // From now on the pin decides: once it is removed, the file is, too.
    expireNow.run(cid);
  }

  /** Adds a file, and returns the names of those that it replaces. */
  function add({ file, cid, blocks, pin, keepUntil }: CatalogFile): string[] {
    const id = insert(file, blocks);
    const replaced = replacedBy.all(cid, id);
    const times = replaced.map((older) => Number(older['keep_until'])).filter((time) => time !== held);
    complete.run(cid, Math.max(keepUntil, ...times), id);
    for (const older of replaced) drop(Number(older['id']), String(older['name']));
    if (pin) setPin(cid, pin.name);
    return replaced.map((older) => String(older['name'])).filter((name) => name !== file);
  }

  let isChecked = false;

  function check(): void {
    if (!isChecked && db.prepare('PRAGMA integrity_check(1)').get()?.['integrity_check'] !== 'ok')
      throw Object.assign(new Error('database disk image is malformed'), { errcode: damageCodes[0] });
    isChecked = true;
  }

  /** @param isAsked whether what is removed was named, or is what nobody named */
  function collect(now: number, isAsked: boolean): Collected {
    const collected: Collected = { cids: [], files: [] };
    const isLive = liveness();
    for (const row of expired.all(now)) {
      const [id, name] = [Number(row['id']), String(row['name'])];
      const cids = onlyHere.all(id).map((block) => String(block['cid']));
      if (cids.some(isLive)) {
        hold.run(id);
        continue;
      }
      if (!isAsked) check();
      collected.cids.push(...cids);
      collected.files.push(name);
      drop(id, name);
    }
    return collected;
  }

  transaction(() => dropStaged());

  return {
    ...reach,
    stage: (file, blocks) => transaction(() => void insert(file, blocks)),
    unstage: (file) => transaction(() => dropStaged(file)),
    publish: (files, forget = []) =>
      transaction(() => {
        for (const name of forget) deleteRemoved.run(name);
        return files.flatMap(add);
      }),
    find: (cid) => location.get(cid) as BlockLocation | undefined,
    blocksAfter: (after, count) => page.all(after, count) as ReturnType<Catalog['blocksAfter']>,
    pin: (cid, name) => transaction(() => setPin(cid, name)),
    unpin(cids, now) {
      const missing = cids.find((cid) => pins.get(cid) === undefined);
      if (missing !== undefined) return missing;
      return transaction(() => {
        for (const cid of cids) {
          deletePin.run(cid);
          expireHeld.run(cid);
        }
        return collect(now, true);
      });
    },
    pins: (cid) => pins.all(cid ?? null) as PinnedRoot[],
    collect: (now = held) => transaction(() => collect(now, false)),
    files: () => names('file'),
    removed: () => names('removed'),
    forget: (dropped) => transaction(() => dropped.forEach((name) => deleteRemoved.run(name))),
    check,
    close: () => db.close(),
  };
}
