/**
 * What the node holds, in SQLite: which file on disk has which blocks, and what is pinned. Every change is one transaction
 * that is on the disk when the call returns. Calls do not wait, so none can come between the statements of another.
 */
import { DatabaseSync } from 'node:sqlite';
import { SealpinError } from '../../../shared/errors.ts';

/** A block of a file on disk: a leaf is its bytes; an interior node has `node`, and covers the bytes below it. */
export type BlockRow = { cid: string; offset: number; bytes: number; node: Uint8Array | null };

/** Where a block is: `file` is the name on disk. */
export type BlockLocation = { file: string; offset: number; bytes: number; node: Uint8Array | null };

type Pin = { cid: string; name: string };

type Indirect = { cid: string; through: string };

/** A new file that is complete on disk; `keepUntil` in milliseconds since 1970, should it not be pinned. */
type NewFile = {
  file: string;
  cid: string;
  blocks: readonly BlockRow[];
  pin: { name: string } | undefined;
  keepUntil: number;
};

export interface Catalog {
  /**
   * Writes rows before their file is complete, so that a huge one needs no memory; they are not visible before
   * `publish`.
   */
  stage(file: string, blocks: readonly BlockRow[]): void;
  /** Forgets the staged rows of a file that was given up. */
  unstage(file: string): void;
  /**
   * Adds files, all or none. A file that the catalog has already replaces the older copy, which may be damaged or missing.
   * Returns the names on disk of the replaced copies; `removed` lists them until they are forgotten.
   * @param forget dropped names whose removal is on the disk
   */
  publish(files: readonly NewFile[], forget?: readonly string[]): string[];
  /** Where a block of a complete file is; undefined when there is none. */
  find(cid: string): BlockLocation | undefined;
  pin(cid: string, name: string): void;
  /** Removes pins, all or none. When a CID has no pin, nothing is removed and that CID is returned. */
  unpin(cids: readonly string[]): string | undefined;
  pins(cid?: string): Pin[];
  /** Blocks under pins that are not pinned themselves. */
  indirect(cid?: string): Indirect[];
  /**
   * Drops every unpinned file whose time is over. Returns the CIDs of its blocks, and names on disk as `publish`
   * does.
   */
  collect(now: number): { cids: string[]; files: string[] };
  /** The names on disk that belong to complete files. */
  files(): Set<string>;
  /** Names on disk that were dropped and may still be there: their removal may have been interrupted. */
  removed(): Set<string>;
  /** Forgets dropped names; only after their removal is on the disk. */
  forget(names: readonly string[]): void;
  close(): void;
}

const schema = `
  CREATE TABLE file (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cid TEXT UNIQUE, keep_until INTEGER NOT NULL) STRICT;
  CREATE TABLE block (cid TEXT NOT NULL, file INTEGER NOT NULL REFERENCES file (id) ON DELETE CASCADE,
    start INTEGER NOT NULL, bytes INTEGER NOT NULL, node BLOB) STRICT;
  CREATE UNIQUE INDEX block_cid ON block (cid, file);
  CREATE INDEX block_file ON block (file);
  CREATE TABLE pin (cid TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT, WITHOUT ROWID;
  PRAGMA user_version = 1;
`;

/**
 * Primary result codes of SQLite for a damaged file (https://sqlite.org/rescode.html): SQLITE_CORRUPT and
 * SQLITE_NOTADB.
 */
const damageCodes = [11, 26];

/** Whether SQLite says that the catalog is damaged. */
export function isDamage(thrown: unknown): boolean {
  return thrown instanceof Error && 'errcode' in thrown && damageCodes.includes(Number(thrown.errcode) & 0xff);
}

/**
 * The error to show for one that SQLite threw: a damaged catalog gets an explanation, any other error stays as it is.
 */
export function catalogError(path: string, thrown: unknown): unknown {
  if (!isDamage(thrown)) return thrown;
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
    return catalogOf(db, path);
  } catch (cause) {
    db.close();
    throw catalogError(path, cause);
  }
}

function catalogOf(db: DatabaseSync, path: string): Catalog {
  db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');
  const version = Number(db.prepare('PRAGMA user_version').get()?.['user_version']);
  if (version > 1) {
    throw new SealpinError(
      'config_invalid',
      `${path}, the index of the built-in IPFS node, was written by a newer sealpin`,
      {
        hint: 'install the newest version, or move the file away and start again: the index is rebuilt from the files in data/',
      },
    );
  }
  if (version === 0) transaction(() => db.exec(schema));
  // Not part of the schema's version: an older sealpin does without it.
  db.exec('CREATE TABLE IF NOT EXISTS removed (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID');
  // Rows ahead of a file that never became complete.
  db.exec('DELETE FROM file WHERE cid IS NULL');

  const insertFile = db.prepare('INSERT INTO file (name, keep_until) VALUES (?, 0) ON CONFLICT (name) DO NOTHING');
  const fileId = db.prepare('SELECT id FROM file WHERE name = ?');
  const copyOf = db.prepare('SELECT id, name, keep_until FROM file WHERE cid = ?');
  const insertBlock = db.prepare(
    'INSERT INTO block (cid, file, start, bytes, node) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const complete = db.prepare('UPDATE file SET cid = ?, keep_until = ? WHERE id = ?');
  const location = db.prepare(
    'SELECT name AS file, start AS offset, bytes, node FROM block JOIN file ON file.id = block.file WHERE ' +
      'block.cid = ? AND file.cid IS NOT NULL LIMIT 1',
  );
  const insertPin = db.prepare(
    'INSERT INTO pin (cid, name) VALUES (?, ?) ON CONFLICT (cid) DO UPDATE SET name = excluded.name',
  );
  const deletePin = db.prepare('DELETE FROM pin WHERE cid = ?');
  const expireNow = db.prepare('UPDATE file SET keep_until = 0 WHERE cid = ?');
  const pins = db.prepare('SELECT cid, name FROM pin WHERE ?1 IS NULL OR cid = ?1');
  // A file holds every block below each of its blocks, so a pin reaches the blocks of that part of the file.
  const indirect = db.prepare(`
    SELECT DISTINCT part.cid AS cid, pin.cid AS through FROM pin
    JOIN block AS root ON root.cid = pin.cid
    JOIN block AS part ON part.file = root.file AND part.start >= root.start AND part.start + part.bytes <= root.start + root.bytes
    WHERE (?1 IS NULL OR part.cid = ?1) AND part.cid NOT IN (SELECT cid FROM pin) AND root.node IS NOT NULL`);
  const unpinned = db.prepare(
    'SELECT id, name FROM file WHERE cid IS NOT NULL AND keep_until <= ? AND cid NOT IN (SELECT cid FROM pin)',
  );
  // A pin below the root of a file holds the whole file while no other file has that block.
  const heldByPin = db.prepare(`
    SELECT 1 FROM block JOIN pin ON pin.cid = block.cid WHERE block.file = ?1
    AND NOT EXISTS (SELECT 1 FROM block AS other JOIN file ON file.id = other.file
      WHERE other.cid = block.cid AND other.file <> ?1 AND file.cid IS NOT NULL) LIMIT 1`);
  const cidsOf = db.prepare('SELECT cid FROM block WHERE file = ?');
  const deleteStaged = db.prepare('DELETE FROM file WHERE name = ? AND cid IS NULL');
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
    for (const block of blocks) insertBlock.run(block.cid, id, block.offset, block.bytes, block.node);
    return id;
  }

  function drop(id: number, name: string): void {
    deleteFile.run(id);
    insertRemoved.run(name);
  }

  function setPin(cid: string, name: string): void {
    insertPin.run(cid, name);
    // From now on the pin decides: once it is removed, the file is, too.
    expireNow.run(cid);
  }

  return {
    stage: (file, blocks) => transaction(() => void insert(file, blocks)),
    unstage: (file) => void deleteStaged.run(file),
    publish: (files, forget = []) =>
      transaction(() => {
        for (const name of forget) deleteRemoved.run(name);
        const redundant: string[] = [];
        for (const { file, cid, blocks, pin, keepUntil } of files) {
          const older = copyOf.get(cid);
          if (older) {
            drop(Number(older['id']), String(older['name']));
            redundant.push(String(older['name']));
          }
          complete.run(cid, Math.max(keepUntil, Number(older?.['keep_until'] ?? 0)), insert(file, blocks));
          if (pin) setPin(cid, pin.name);
        }
        return redundant;
      }),
    find: (cid) => location.get(cid) as BlockLocation | undefined,
    pin: (cid, name) => transaction(() => setPin(cid, name)),
    unpin: (cids) => {
      const missing = cids.find((cid) => pins.get(cid) === undefined);
      if (missing === undefined) transaction(() => cids.forEach((cid) => deletePin.run(cid)));
      return missing;
    },
    pins: (cid) => pins.all(cid ?? null) as Pin[],
    indirect: (cid) => indirect.all(cid ?? null) as Indirect[],
    collect: (now) =>
      transaction(() => {
        const collected = { cids: [] as string[], files: [] as string[] };
        for (const { id, name } of unpinned.all(now)) {
          if (heldByPin.get(Number(id))) continue;
          collected.cids.push(...cidsOf.all(Number(id)).map((row) => String(row['cid'])));
          collected.files.push(String(name));
          drop(Number(id), String(name));
        }
        return collected;
      }),
    files: () => names('file'),
    removed: () => names('removed'),
    forget: (dropped) => transaction(() => dropped.forEach((name) => deleteRemoved.run(name))),
    close: () => db.close(),
  };
}
