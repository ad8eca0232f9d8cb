/** Accounts from earlier versions, whose tables lack what was added since. */
import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Problem, StoredFile } from '../../../shared/api.ts';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { adminToken, type Service } from '../../../testkit/service.ts';
import { rotate } from '../accounts/rotating.ts';
import { hasTable, restartable } from '../kept-state.ts';
import { bytesOf, client, jsonOf, problemOf, signedPath } from '../../../testkit/api-client.ts';
import { newOwner, ownerAt, pinned, sweep } from '../stored-state.ts';
import { inCi } from '../../../testkit/long-run.ts';

/** Statements that make the tables of an account those of 0.1.0, or of a time between releases. */
const earlier = `
  ALTER TABLE account DROP COLUMN recovery_hash;
  ALTER TABLE api_key DROP COLUMN signer;
  ALTER TABLE account_setting DROP COLUMN origins;
  ALTER TABLE file_detail DROP COLUMN version;
  ALTER TABLE file_detail DROP COLUMN changed_at;
  ALTER TABLE file_detail DROP COLUMN description;
  ALTER TABLE file_detail DROP COLUMN rewrapped;
  ALTER TABLE account DROP COLUMN replaced;
  DROP TABLE key_usage;
  DROP TABLE provisional_file;
  DROP TABLE named_file;
  DROP TABLE rotation;
  DROP TABLE rotation_file;
`;

let service: Service;
const restart = restartable('upgrade', (started) => (service = started));

it('an account of the first version gets the tables that it lacks, and takes uploads in parts', async () => {
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

inCi('files expire in an account from a version in which they did not', async () => {
  const before = await newOwner(service);
  const { fileId } = await before.call.store('encrypted', 'stored before');
  let changed = 0;
  await restart.again((db) => {
    if (!hasTable(db, 'file_detail')) return;
    db.exec('DROP TABLE file_detail; DROP TABLE file_tag; DROP TABLE receipt');
    changed += 1;
  });
  expect(changed).toBeGreaterThan(0);
  const { call, object } = ownerAt(service, before);
  expect((await call.ask('getFileContent', { fileId })).status).toBe(200);
  const body = { body: 'expires', headers: { 'Content-Disposition': 'attachment; filename=x' } };
  const expiring = await call.storeEncrypted({ expiresAt: new Date(Date.now() + 60_000).toISOString() }, body);
  await object.ring(120_000);
  expect(await call.getReceipt({ fileId: expiring.fileId })).toMatchObject({ reason: 'expired' });
  await call.deleteFile({ fileId });
  expect(await call.getReceipt({ fileId })).toMatchObject({ reason: 'deleted' });
});

it('an account gets the columns and tables that its own lack', async () => {
  const { id, call: before } = await newOwner(service);
  const { fileId } = await before.store('plain', 'stored before', { filename: 'old.txt' });
  const sealed = await before.store('encrypted', 'sealed before');
  let changed = 0;
  await restart.again((db) => {
    if (hasTable(db, 'key_usage') && hasTable(db, 'file_detail')) {
      db.exec(earlier);
      changed += 1;
    }
  });
  expect(changed).toBeGreaterThan(0);
  const call = client(service.url, before.apiKey);
  const operator = client(service.url, adminToken);
  const origins = ['https://page.example'];
  const account = await operator.changeAccount({ id, origins });
  expect(account.origins).toEqual(origins);
  // A key of before signs once its holder has shown it.
  const anybody = client(service.url, '');
  const path = await signedPath(before.apiKey, { method: 'GET', file: fileId });
  expect(await problemOf(anybody(path))).toBe('401 unauthorized');
  expect((await (await anybody(path)).json<Problem>()).detail).toContain('GET /v1/account');
  await call.getAccount();
  expect((await bytesOf(anybody(path))).toString()).toBe('stored before');
  const renamed = call.ask('changeFile', { fileId, filename: 'new.txt' });
  expect((await jsonOf<StoredFile>(renamed)).filename).toBe('new.txt');
  expect((await call.listUsage()).usage).toHaveLength(1);
  expect(await rotate(call)).toMatchObject([{ done: true }]);
  expect((await call.read(sealed.fileId)).toString()).toBe('sealed before');
});
