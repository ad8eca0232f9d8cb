/** An account from a version that had no parts. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import type { Service } from '../../../testkit/service.ts';
import { hasTable, restartable } from '../kept-state.ts';
import { newOwner, ownerAt, pinned, sweep } from '../stored-state.ts';

let service: Service;
const restart = restartable('upgrade', (started) => (service = started));

test('an account of the first version gets the tables that it lacks, and takes uploads in parts', async () => {
  const before = await newOwner(service);
  const old = await before.call.store('plain', 'stored before');
  let changed = 0;
  await restart.again((db) => {
    if (hasTable(db, 'part')) {
      db.exec('DROP TABLE part');
      changed += 1;
    }
  });
  expect(changed).toBe(1);
  const owner = ownerAt(service, before);
  const bytes = randomBytes(17 * leafBytes);
  const file = await owner.call.store('plain', bytes);
  await sweep(service, [owner], [file.cid, old.cid]);
  expect((await pinned(service)).toSorted()).toEqual([old.cid, file.cid].toSorted());
  expect((await owner.call.read(old.fileId)).toString()).toBe('stored before');
  expect((await owner.call.read(file.fileId)).equals(bytes)).toBe(true);
});
