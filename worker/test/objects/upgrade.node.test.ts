/** Accounts from earlier versions, whose tables lack what was added since. */
import { expect, it } from 'vitest';
import type { Problem, StoredFile } from '../../../shared/api.ts';
import { adminToken, type Service } from '../../../testkit/service.ts';
import { rotate } from '../accounts/rotating.ts';
import { hasTable, restartable } from '../kept-state.ts';
import { bytesOf, client, jsonOf, problemOf, signedPath } from '../../../testkit/api-client.ts';
import { newOwner } from '../stored-state.ts';

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

it('an account gets the columns and tables that its own lack', async () => {
  const { id, call: before } = await newOwner(service);
  const { fileId } = await before.store('plain', 'stored before', { filename: 'old.txt' });
  const sealed = await before.store('encrypted', 'sealed before');
  let changed = 0;
  await restart.again((db) => {
    if (hasTable(db, 'api_key')) {
      db.exec(earlier);
      changed += 1;
    }
  });
  expect(changed).toBe(1);
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
