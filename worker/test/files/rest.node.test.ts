/**
 * State at rest: nobody who has all of it, but no key with `read`, opens an encrypted file; and
 * what is deleted is gone.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { vacuum } from '../../../testkit/node.ts';
import {
  identityFromPkcs8,
  openDetached,
  parseApiKey,
  recipientFromSpki,
  unsealPrivateKey,
  type ApiKey,
} from '../../../shared/crypto/index.ts';
import { isSealpinError } from '../../../shared/errors.ts';
import { bytesOf, client } from '../../../testkit/api-client.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import { bytesHeld } from '../stored-state.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sealpin-rest-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const canary = { content: 'canary-of-the-content', filename: 'canary-of-the-filename' };

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
}

/** The files of the folder in which these bytes stand. */
function holding(bytes: Buffer | string): string[] {
  return filesBelow(dir).filter((path) => readFileSync(path).includes(bytes));
}

type Loot = {
  sealed: { id: string; sealed: Uint8Array }[];
  headers: { fileId: string; header: Uint8Array }[];
  spki: Uint8Array;
};

/** All that the objects' SQLite files and KV hold of keys and headers. */
async function loot(service: Service): Promise<Loot> {
  const found: Loot = { sealed: [], headers: [], spki: new Uint8Array(0) };
  const kv = await service.miniflare.getKVNamespace('API_KEYS');
  for (const { name } of (await kv.list()).keys) {
    // An entry of the list of accounts is empty.
    const record = JSON.parse((await kv.get(name, 'text')) || '{}') as { id?: string; sealed?: string };
    if (record.id !== undefined && record.sealed !== undefined)
      found.sealed.push({ id: record.id, sealed: Buffer.from(record.sealed, 'base64') });
  }
  await service.close();
  for (const path of filesBelow(dir).filter((each) => each.endsWith('.sqlite'))) {
    const database = new DatabaseSync(path);
    const has = (table: string): boolean =>
      database.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(table) !== undefined;
    if (has('api_key')) {
      for (const row of database.prepare('SELECT id, sealed FROM api_key WHERE sealed IS NOT NULL').all()) {
        found.sealed.push({ id: String(row['id']), sealed: row['sealed'] as Uint8Array });
      }
      for (const row of database.prepare('SELECT file_id, header FROM file').all()) {
        found.headers.push({ fileId: String(row['file_id']), header: row['header'] as Uint8Array });
      }
      found.spki = present(database.prepare('SELECT spki FROM account').get())['spki'] as Uint8Array;
    }
    database.close();
  }
  return found;
}

/** Opens a header with whatever private key a stolen API key can unlock. */
async function openWith(
  key: ApiKey,
  { sealed, headers, spki }: Loot,
  payload: Uint8Array,
): Promise<string | undefined> {
  for (const each of sealed) {
    let pkcs8: Uint8Array;
    try {
      pkcs8 = await unsealPrivateKey(key, { ...each, spki });
    } catch (error) {
      if (!isSealpinError(error)) throw error;
      continue;
    }
    for (const { fileId, header } of headers) {
      const opened = await openDetached(header, { fileId, identities: [identityFromPkcs8(pkcs8)] });
      const plaintext = opened.decrypt(present(new Response(payload).body));
      return `${opened.file.filename}: ${await new Response(plaintext).text()}`;
    }
  }
  return undefined;
}

it('no key that opens an encrypted file is kept anywhere: only a key with read unlocks it', async () => {
  const service = await startService({ dir });
  const { apiKey } = await service.account();
  const owner = client(service.url, apiKey);
  const { apiKey: writer } = await owner.createKey({ label: 'w', scopes: ['write', 'delete', 'keys'] });
  const file = await client(service.url, writer).store('encrypted', canary.content, { filename: canary.filename });
  await bytesOf(owner.ask('getFile', { fileId: file.fileId }));
  const payload = await bytesHeld(service, file.cid);
  const stolen = await loot(service);
  expect(stolen.headers.map((each) => each.fileId)).toEqual([file.fileId]);
  // The object has it, and KV has none.
  expect(stolen.sealed).toHaveLength(1);
  expect(recipientFromSpki(stolen.spki).kind).toBe('key');

  expect(holding(canary.content)).toEqual([]);
  expect(holding(canary.filename)).toEqual([]);
  for (const key of [apiKey, writer]) expect(holding(key)).toEqual([]);
  expect(await openWith(present(await parseApiKey(writer)), stolen, payload)).toBeUndefined();
  expect(await openWith(present(await parseApiKey(apiKey)), stolen, payload)).toBe(
    `${canary.filename}: ${canary.content}`,
  );
});

it('the header of a deleted file is in no file any more, once the service is stopped', async () => {
  const service = await startService({ dir });
  const { apiKey } = await service.account();
  const owner = client(service.url, apiKey);
  const kept = await owner.store('encrypted', 'kept');
  const deleted = await owner.store('encrypted', 'deleted');
  const headerOf = async (fileId: string): Promise<Buffer> => {
    const container = await bytesOf(
      owner.ask('getFile', { fileId }, { headers: { Accept: 'application/vnd.sealpin' } }),
    );
    // The lines of the stanzas: enc, wrapped key and file; random, so that they stand nowhere else.
    return container.subarray('sealpin/v1\n'.length, container.indexOf('\n--- '));
  };
  const headers = [await headerOf(kept.fileId), await headerOf(deleted.fileId)];
  const { apiKey: revoked, key } = await owner.createKey({ label: 'r', scopes: ['read'] });
  const { key: record } = await client(service.url, revoked).getAccount();
  await owner.revokeKey({ id: key.id });
  await owner.deleteFile({ fileId: deleted.fileId });
  await service.close();
  await vacuum(join(dir, 'state'));
  const parts = (header: Buffer): Buffer[] =>
    Array.from({ length: Math.floor(header.length / 48) }, (_, index) => header.subarray(index * 48, index * 48 + 48));
  expect(parts(first(headers)).map((part) => holding(part).length)).toEqual(parts(first(headers)).map(() => 1));
  expect(parts(itemOf(headers, 1)).flatMap((part) => holding(part))).toEqual([]);
  expect(holding(Buffer.from(present(record.sealed), 'base64'))).toEqual([]);
  expect(holding(present(record.sealed))).toEqual([]);
});
