/**
 * What the node holds, in SQLite: which file on disk has which blocks, and what is pinned. Every change is one transaction
 * that is on the disk when the call returns. Calls do not wait, so none can come between the statements of another.
 */
import { DatabaseSync } from 'node:sqlite';

/** A block of a file on disk: a leaf is its bytes; an interior node has `node`, and covers the bytes below it. */
export type BlockRow = { cid: string; offset: number; bytes: number; node: Uint8Array | null };

/** Where a block lies: `file` is the name on disk. */
export type Place = { file: string; offset: number; bytes: number; node: Uint8Array | null };

export type Pin = { cid: string; name: string };

export type Indirect = { cid: string; through: string };

/** A new file that is complete on disk; `keepUntil` in milliseconds since 1970, should it not be pinned. */
export type NewFile = {
  file: string;
  cid: string;
  blocks: readonly BlockRow[];
  pin: { name: string } | undefined;
  keepUntil: number;
};

export interface Catalog {
  /** Rows ahead of their file, so that a huge one needs no memory; not visible before `publish`. */
  stage(file: string, blocks: readonly BlockRow[]): void;
  /** Forgets the rows ahead of a file that will not come. */
  unstage(file: string): void;
  /** Takes files in, all or none. Returns the names on disk that are not needed, because the same bytes are held already. */
  publish(files: readonly NewFile[]): string[];
  find(cid: string): Place | undefined;
  pin(cid: string, name: string): void;
  /** Removes pins, all or none; the first that is none is returned, and nothing was removed then. */
  unpin(cids: readonly string[]): string | undefined;
  pins(cid?: string): Pin[];
  /** Blocks under pins that are not pinned themselves. */
  indirect(cid?: string): Indirect[];
  /** Forgets every file that nothing pins and whose time is over. Returns its blocks' CIDs and names on disk. */
  collect(now: number): { cids: string[]; files: string[] };
  /** The names on disk that belong to complete files. */
  files(): Set<string>;
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

/** Opens the catalog, for this process alone. */
export function openCatalog(path: string): Catalog {
  const db = new DatabaseSync(path, { enableForeignKeyConstraints: true, timeout: 1000 });
  db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');
  const version = Number(db.prepare('PRAGMA user_version').get()?.['user_version']);
  if (version > 1) throw new Error(`${path} was written by a newer sealpin`);
  if (version === 0) transaction(() => db.exec(schema));
  // Rows ahead of a file that never became complete.
  db.exec('DELETE FROM file WHERE cid IS NULL');

  const insertFile = db.prepare('INSERT INTO file (name, keep_until) VALUES (?, 0) ON CONFLICT (name) DO NOTHING');
  const fileId = db.prepare('SELECT id FROM file WHERE name = ?');
  const fileOf = db.prepare('SELECT id FROM file WHERE cid = ?');
  const insertBlock = db.prepare(
    'INSERT INTO block (cid, file, start, bytes, node) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const complete = db.prepare('UPDATE file SET cid = ?, keep_until = ? WHERE id = ?');
  const keepLonger = db.prepare('UPDATE file SET keep_until = max(keep_until, ?) WHERE cid = ?');
  const place = db.prepare(
    'SELECT name AS file, start AS offset, bytes, node FROM block JOIN file ON file.id = block.file WHERE block.cid = ? AND file.cid IS NOT NULL LIMIT 1',
  );
  const insertPin = db.prepare(
    'INSERT INTO pin (cid, name) VALUES (?, ?) ON CONFLICT (cid) DO UPDATE SET name = excluded.name',
  );
  const deletePin = db.prepare('DELETE FROM pin WHERE cid = ?');
  const settle = db.prepare('UPDATE file SET keep_until = 0 WHERE cid = ?');
  const pins = db.prepare('SELECT cid, name FROM pin WHERE ?1 IS NULL OR cid = ?1');
  // A file holds every block below each of its blocks, so a pin reaches the blocks of that part of the file.
  const indirect = db.prepare(`
    SELECT DISTINCT part.cid AS cid, pin.cid AS through FROM pin
    JOIN block AS root ON root.cid = pin.cid
    JOIN block AS part ON part.file = root.file AND part.start >= root.start AND part.start + part.bytes <= root.start + root.bytes
    WHERE (?1 IS NULL OR part.cid = ?1) AND part.cid NOT IN (SELECT cid FROM pin) AND root.node IS NOT NULL`);
  const loose = db.prepare(
    'SELECT id, name FROM file WHERE cid IS NOT NULL AND keep_until <= ? AND cid NOT IN (SELECT cid FROM pin)',
  );
  // A pin below the root of a file holds the whole file while no other file has that block.
  const held = db.prepare(`
    SELECT 1 FROM block JOIN pin ON pin.cid = block.cid WHERE block.file = ?1
    AND NOT EXISTS (SELECT 1 FROM block AS other JOIN file ON file.id = other.file
      WHERE other.cid = block.cid AND other.file <> ?1 AND file.cid IS NOT NULL) LIMIT 1`);
  const cidsOf = db.prepare('SELECT cid FROM block WHERE file = ?');
  const deleteStaged = db.prepare('DELETE FROM file WHERE name = ? AND cid IS NULL');
  const deleteFile = db.prepare('DELETE FROM file WHERE id = ?');

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

  function insert(file: string, blocks: readonly BlockRow[]): number {
    insertFile.run(file);
    const id = Number(fileId.get(file)!['id']);
    for (const block of blocks) insertBlock.run(block.cid, id, block.offset, block.bytes, block.node);
    return id;
  }

  function setPin(cid: string, name: string): void {
    insertPin.run(cid, name);
    // From now on the pin decides: without it the file goes at once.
    settle.run(cid);
  }

  return {
    stage: (file, blocks) => transaction(() => void insert(file, blocks)),
    unstage: (file) => void deleteStaged.run(file),
    publish: (files) =>
      transaction(() => {
        const spare: string[] = [];
        for (const { file, cid, blocks, pin, keepUntil } of files) {
          if (fileOf.get(cid)) {
            keepLonger.run(pin ? 0 : keepUntil, cid);
            const staged = fileId.get(file);
            if (staged) deleteFile.run(Number(staged['id']));
            spare.push(file);
          } else {
            complete.run(cid, keepUntil, insert(file, blocks));
          }
          if (pin) setPin(cid, pin.name);
        }
        return spare;
      }),
    find: (cid) => place.get(cid) as Place | undefined,
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
        const gone = { cids: [] as string[], files: [] as string[] };
        for (const { id, name } of loose.all(now)) {
          if (held.get(Number(id))) continue;
          gone.cids.push(...cidsOf.all(Number(id)).map((row) => String(row['cid'])));
          gone.files.push(String(name));
          deleteFile.run(Number(id));
        }
        return gone;
      }),
    files: () =>
      new Set(
        db
          .prepare('SELECT name FROM file')
          .all()
          .map((row) => String(row['name'])),
      ),
    close: () => db.close(),
  };
}
