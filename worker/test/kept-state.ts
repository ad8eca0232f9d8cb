/** State that outlives a service that a test ends and starts again. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { startNode, type RunningNode } from '../../testkit/node.ts';
import { rpcToken } from '../../testkit/service.ts';

/** An IPFS node and a directory, as `startService` takes them. */
export type KeptState = { dir: string; node: RunningNode; close(): Promise<void> };

/** Starts a node in a new directory. @param name of what is tested, in the name of the directory */
export async function keepState(name: string): Promise<KeptState> {
  const dir = await mkdtemp(join(tmpdir(), `sealpin-${name}-`));
  const node = await startNode({ dir: join(dir, 'ipfs'), token: rpcToken });
  return {
    dir,
    node,
    async close() {
      await node.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Opens the database of each Durable Object of a service that does not run. @param dir of the service */
export async function changeDatabases(dir: string, change: (database: DatabaseSync) => void): Promise<void> {
  const state = join(dir, 'state');
  for (const path of await readdir(state, { recursive: true })) {
    if (!/[0-9a-f]{64}\.sqlite$/.test(path)) continue;
    const database = new DatabaseSync(join(state, path));
    change(database);
    database.close();
  }
}

/** Tells whether a database has a table. */
export function hasTable(database: DatabaseSync, name: string): boolean {
  return database.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(name) !== undefined;
}
