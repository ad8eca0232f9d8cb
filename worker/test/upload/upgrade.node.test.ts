/** An account from a version that had no parts. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { startNode } from '../../../testkit/node.ts';
import { rpcToken, startService } from '../../../testkit/service.ts';
import { bytesOf, client } from '../client.ts';
import { accountObject, newOwner, pinned, sweep } from '../stored-state.ts';

test('an account of the first version gets the tables that it lacks, and takes uploads in parts', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-upgrade-'));
  const node = await startNode({ dir: join(dir, 'ipfs'), token: rpcToken });
  const start = () => startService({ entry: 'worker/test/clock.ts', dir, node });
  let service = await start();
  try {
    const { id, call: before } = await newOwner(service);
    const old = await before.store('plain', 'stored before');
    await service.close();
    let changed = 0;
    for (const path of await readdir(join(dir, 'state'), { recursive: true })) {
      if (!/[0-9a-f]{64}\.sqlite$/.test(path)) continue;
      const db = new DatabaseSync(join(dir, 'state', path));
      if (db.prepare(`SELECT 1 FROM sqlite_master WHERE name = 'part'`).get() !== undefined) {
        db.exec('DROP TABLE part');
        changed += 1;
      }
      db.close();
    }
    expect(changed).toBe(1);
    service = await start();
    const owner = { id, call: client(service.url, before.apiKey), object: accountObject(service, id) };
    const bytes = randomBytes(17 * leafBytes);
    const file = await owner.call.store('plain', bytes);
    await sweep(service, [owner], [file.cid, old.cid]);
    expect((await pinned(service)).toSorted()).toEqual([old.cid, file.cid].toSorted());
    const accept = { headers: { Accept: 'application/octet-stream' } };
    expect((await bytesOf(owner.call(`/v1/storage/${old.fileId}`, accept))).toString()).toBe('stored before');
    expect((await bytesOf(owner.call(`/v1/storage/${file.fileId}`, accept))).equals(bytes)).toBe(true);
  } finally {
    await service.close();
    await node.close();
    await rm(dir, { recursive: true, force: true });
  }
});
