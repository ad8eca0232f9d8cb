/** State that outlives a service that a test ends and starts again. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll } from 'vitest';
import { startNode, type RunningNode } from '../../testkit/node.ts';
import { rpcToken, startService, type Service, type ServiceOptions } from '../../testkit/service.ts';

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

/**
 * Opens the database of each Durable Object of a service that does not run.
 * @param dir of the service
 */
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

/** How a file of tests ends its service and starts it again. */
export type Restartable = {
  /** Ends it, and changes its databases where there is a change to make. */
  again(change?: (database: DatabaseSync) => void): Promise<void>;
  /**
   * Kills it, as a power cut would.
   * @param meanwhile runs before it starts again
   */
  kill(meanwhile?: () => Promise<void>): Promise<void>;
};

/**
 * Declares a service for all tests of a file, whose state stays when one of them ends it.
 *
 * @param name of what is tested
 * @param started takes the service each time it has started
 * @param optionsOf it, asked before each start
 */
export function restartable(
  name: string,
  started: (service: Service) => void,
  optionsOf: (kept: KeptState) => ServiceOptions | Promise<ServiceOptions> = () => ({}),
): Restartable {
  let kept: KeptState;
  let service: Service;
  const start = async (): Promise<void> => {
    service = await startService({ entry: 'worker/test/clock.ts', ...kept, ...(await optionsOf(kept)) });
    started(service);
  };
  beforeAll(async () => {
    kept = await keepState(name);
    await start();
  });
  afterAll(async () => {
    await service.close();
    await kept.close();
  });
  return {
    async again(change) {
      await service.close();
      if (change !== undefined) await changeDatabases(kept.dir, change);
      await start();
    },
    async kill(meanwhile) {
      await service.kill();
      await meanwhile?.();
      await start();
    },
  };
}
