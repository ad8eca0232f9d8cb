/** An account from a version that had no parts. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { startService } from '../../../testkit/service.ts';
import { changeDatabases, hasTable, keepState } from '../kept-state.ts';
import { bytesOf, client } from '../client.ts';
import { accountObject, newOwner, pinned, sweep } from '../stored-state.ts';

test('an account of the first version gets the tables that it lacks, and takes uploads in parts', async () => {
  const kept = await keepState('upgrade');
  const start = () => startService({ entry: 'worker/test/clock.ts', ...kept });
  let service = await start();
  try {
    const { id, call: before } = await newOwner(service);
    const old = await before.store('plain', 'stored before');
    await service.close();
    let changed = 0;
    await changeDatabases(kept.dir, (db) => {
      if (hasTable(db, 'part')) {
        db.exec('DROP TABLE part');
        changed += 1;
      }
    });
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
    await kept.close();
  }
});
