/**
 * A rotation that is done leaves nothing of the pair before: in no row, no free page, no record in
 * KV.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, onTestFinished } from 'vitest';
import { parseApiKey } from '../../../shared/crypto/index.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { startService } from '../../../testkit/service.ts';
import { problemOf, type Client } from '../../../testkit/api-client.ts';
import { newOwner } from '../stored-state.ts';
import { create, patch } from '../uploads/tus-client.ts';
import { containerOf, privateKeysOf, replacedBy, rotate } from './rotating.ts';

/** Pieces of bytes that stand nowhere else. */
function pieces(bytes: Uint8Array): Buffer[] {
  return Array.from({ length: Math.floor(bytes.length / 24) }, (_, index) =>
    Buffer.from(bytes.subarray(index * 24, index * 24 + 24)),
  );
}

/**
 * The lines of a header that wrap the file key for the account; what names the file stays as it is.
 */
async function wrappedIn(call: Client, fileId: string): Promise<Buffer> {
  const container = await containerOf(call, fileId);
  return container.subarray(container.indexOf('-> p256 ') + 8, container.indexOf('-> file '));
}

const bytesIn = (column: unknown): Buffer => Buffer.from(new Uint8Array(column as ArrayBuffer));

const sealedOf = async (call: Client): Promise<Buffer> =>
  Buffer.from(present((await call.getAccount()).key.sealed), 'base64');

it('overwrites what was sealed to it, and the private key itself, once nothing needs them', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-rotated-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const service = await startService({ dir, entry: 'worker/test/clock.ts' });
  const { id, call, object } = await newOwner(service);
  const reader = await call.withKey(['read']);
  const writer = await call.withKey(['write']);
  const files = [await call.store('encrypted', 'x'), await call.store('encrypted', 'y')];
  await call.changeFile({ fileId: itemOf(files, 1).fileId, tags: ['tag'] });
  // An upload whose header is in a row of its own.
  const upload = await create(writer, 'encrypted', 5);
  await object.fail('addReference', 'before');
  await patch(writer, upload.path, 0, Buffer.from('hello'));
  const [finishing] = await object.rows('upload');
  const inUpload = bytesIn(present(finishing)['header']);
  const wrapped = await Promise.all(files.map(({ fileId }) => wrappedIn(call, fileId)));
  const sealed = [await sealedOf(call), await sealedOf(reader)];
  const [pkcs8] = await privateKeysOf(call);
  // As an earlier version kept it there.
  const kv = await service.miniflare.getKVNamespace('API_KEYS');
  const name = `key:${present(await parseApiKey(call.apiKey)).hash}`;
  const record = JSON.parse(present(await kv.get(name, 'text'))) as object;
  const inKv = itemOf(sealed, 0).toString('base64');
  await kv.put(name, JSON.stringify({ ...record, sealed: inKv }));

  const publicKey = await replacedBy(call);
  await object.fail('rewrap', 'before');
  expect(await problemOf(call.ask('rotateAccount', { publicKey }))).toBe('500 internal');
  const [running] = await object.rows('rotation');
  const previous = bytesIn(present(running)['previous']);
  expect(previous.includes('age-encryption.org/v1')).toBe(true);
  // Rows around it grow and move meanwhile.
  for (const text of ['1', '2', '3']) await call.store('plain', text);
  await service.account();
  await rotate(call);
  await object.ring(3_600_000);
  expect((await call.read(upload.id)).toString()).toBe('hello');
  await service.close();

  const wrappedInUpload = inUpload.subarray(inUpload.indexOf('-> p256 ') + 8, inUpload.indexOf('-> file '));
  const traces = [...wrapped, wrappedInUpload, ...sealed, previous.subarray(22), Buffer.from(inKv)].flatMap(pieces);
  expect(traces.length).toBeGreaterThan(40);
  for (const secret of [present(pkcs8).subarray(36, 60)]) traces.push(Buffer.from(secret));
  const all = readdirSync(dir, { recursive: true, encoding: 'utf8' }).map((path) => join(dir, path));
  for (const path of all.filter((each) => each.endsWith('.sqlite'))) {
    const database = new DatabaseSync(path);
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
  }
  const paths = all.filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true);
  expect(paths.some((path) => readFileSync(path).includes(id))).toBe(true);
  for (const path of paths) {
    const bytes = readFileSync(path);
    expect(traces.map((trace) => bytes.includes(trace)).lastIndexOf(true), path).toBe(-1);
  }
});
