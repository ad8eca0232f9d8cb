/** The tables of the catalog, and the change of those of earlier versions. */
import type { DatabaseSync } from 'node:sqlite';
import { linksOf } from '../../../shared/ipfs/index.ts';
import { SealpinError } from '../../../shared/errors.ts';

/** `PRAGMA user_version`. Version 1 had no links, and one file per root. */
const schemaVersion = 2;

/**
 * `cid` of a file: the root of what was added, the last block of an import; NULL until it is
 * complete. `keep_until`: when to ask whether a pin holds it, in milliseconds since 1970. `link`: a
 * node that some file has, and what it links to.
 */
const fileTable = (name: string) =>
  `CREATE TABLE ${name} (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cid TEXT, ` +
  'keep_until INTEGER NOT NULL) STRICT;';
const blockTable = `
  CREATE TABLE block (cid TEXT NOT NULL, file INTEGER NOT NULL REFERENCES file (id) ON DELETE CASCADE,
    start INTEGER NOT NULL, bytes INTEGER NOT NULL, node BLOB) STRICT;
  CREATE UNIQUE INDEX block_cid ON block (cid, file);
  CREATE INDEX block_file ON block (file);
`;
const pinTable = 'CREATE TABLE pin (cid TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT, WITHOUT ROWID;';
const sinceVersion2 = `
  CREATE INDEX file_cid ON file (cid);
  CREATE INDEX file_keep_until ON file (keep_until);
  CREATE TABLE link (parent TEXT NOT NULL, child TEXT NOT NULL, PRIMARY KEY (parent, child)) STRICT, WITHOUT ROWID;
  CREATE INDEX link_child ON link (child);
  PRAGMA user_version = ${schemaVersion};
`;

/**
 * Creates the tables, or changes those of an earlier version; all of it or nothing.
 * @param path the name of the file, for errors
 * @throws config_invalid when the catalog is of a newer sealpin
 */
export function prepareTables(db: DatabaseSync, path: string): void {
  const found = Number(db.prepare('PRAGMA user_version').get()?.['user_version']);
  if (found > schemaVersion)
    throw new SealpinError(
      'config_invalid',
      `${path}, the index of the built-in IPFS node, was written by a newer sealpin`,
      {
        hint:
          'install the newest version, or move the file away and start again: the index is rebuilt ' +
          'from the files in data/',
      },
    );
  if (found < schemaVersion) {
    // A table that others refer to is replaced with the constraints off
    // (https://sqlite.org/lang_altertable.html, section 7).
    db.exec('PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE');
    try {
      if (found === 0) db.exec(fileTable('file') + blockTable + pinTable + sinceVersion2);
      else fromVersion1(db);
      db.exec('COMMIT');
    } catch (cause) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw cause;
    }
    db.exec('PRAGMA foreign_keys = ON');
  }
  // Not part of the schema's version: an older sealpin does without it.
  db.exec('CREATE TABLE IF NOT EXISTS removed (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID');
}

function fromVersion1(db: DatabaseSync): void {
  db.exec(`
    ${fileTable('new_file')}
    INSERT INTO new_file SELECT id, name, cid, keep_until FROM file;
    DROP TABLE file;
    ALTER TABLE new_file RENAME TO file;
    UPDATE block SET start = 0, bytes = length(node) WHERE node IS NOT NULL;
    ${sinceVersion2}
  `);
  const insertLink = db.prepare('INSERT INTO link (parent, child) VALUES (?, ?) ON CONFLICT DO NOTHING');
  for (const row of db.prepare('SELECT cid, node FROM block WHERE node IS NOT NULL').iterate()) {
    for (const child of linksOf(row['node'] as Uint8Array)) insertLink.run(String(row['cid']), child.text);
  }
}
