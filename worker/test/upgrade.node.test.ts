/** Accounts from earlier versions, whose tables lack what was added since. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { AccountSummary, StoredFile, UsageList } from '../../shared/api.ts';
import { startNode } from '../../testkit/node.ts';
import { adminToken, rpcToken, startService } from '../../testkit/service.ts';
import { client, jsonOf } from './client.ts';
import { newOwner } from './stored-state.ts';

/** What the tables of an account had in 0.1.0, and what some had between releases. */
const earlier = `
  ALTER TABLE account DROP COLUMN recovery_hash;
  ALTER TABLE account_setting DROP COLUMN origins;
  ALTER TABLE file_detail DROP COLUMN version;
  ALTER TABLE file_detail DROP COLUMN changed_at;
  ALTER TABLE file_detail DROP COLUMN description;
  DROP TABLE key_usage;
`;

it('an account gets the columns and tables that its own lack', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-upgrade-'));
  const node = await startNode({ dir: join(dir, 'ipfs'), token: rpcToken });
  let service = await startService({ dir, node });
  try {
    const { id, call: before } = await newOwner(service);
    const { fileId } = await before.store('plain', 'stored before', { filename: 'old.txt' });
    await service.close();
    let changed = 0;
    for (const path of await readdir(join(dir, 'state'), { recursive: true })) {
      if (!/[0-9a-f]{64}\.sqlite$/.test(path)) continue;
      const db = new DatabaseSync(join(dir, 'state', path));
      if (db.prepare(`SELECT 1 FROM sqlite_master WHERE name = 'api_key'`).get() !== undefined) {
        db.exec(earlier);
        changed += 1;
      }
      db.close();
    }
    expect(changed).toBe(1);
    service = await startService({ dir, node });
    const call = client(service.url, before.apiKey);
    const operator = client(service.url, adminToken);
    const origins = ['https://page.example'];
    const account = await jsonOf<AccountSummary>(operator.json(`/v1/accounts/${id}`, { origins }, 'PATCH'));
    expect(account.origins).toEqual(origins);
    const renamed = call.json(`/v1/storage/${fileId}`, { filename: 'new.txt' }, 'PATCH');
    expect((await jsonOf<StoredFile>(renamed)).filename).toBe('new.txt');
    expect((await jsonOf<UsageList>(call('/v1/usage'))).usage).toHaveLength(1);
  } finally {
    await service.close();
    await node.close();
    await rm(dir, { recursive: true, force: true });
  }
});
