/**
 * State that a service of an earlier version stored, under today's code. `states/ab333d8.tar.gz`
 * was made by the code of that commit: one account with files in both modes, an upload of each mode
 * in progress, shares, an inbox with a delivery and a deleted file, at the embedded node with
 * copies at a Kubo 0.42, whose repository is in it. Its uploads end in 2126. `made.json` has what
 * the service answered. Nothing in it is a secret of anybody's.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { FileList, OpenedShare, StoredFile } from '../../../shared/api.ts';
import { openParcel, parseLink } from '../../../shared/link/index.ts';
import { kuboProgram, startKubo, type RealKubo } from '../../../testkit/programs/kubo.ts';
import { startNode, type RunningNode } from '../../../testkit/node.ts';
import { adminToken, rpcToken, startService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { rotate } from '../accounts/rotating.ts';
import { create, head, patch } from '../uploads/tus-client.ts';
import { present } from '../../../testkit/present.ts';

/** Answers of the earlier version. Links are those of the address that it had. */
type Made = Record<'account' | 'apiKey' | 'reader' | 'writer' | 'deleted' | 'link' | 'share', string> &
  Record<'usedShare' | 'inbox' | 'plainUpload' | 'encryptedUpload', string> &
  Record<'plain' | 'large' | 'encrypted', StoredFile> & { list: FileList };

let dir: string;
let made: Made;
let node: RunningNode;
let kubo: RealKubo | undefined;
let service: Service;
let call: Client;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sealpin-earlier-'));
  await promisify(execFile)('tar', ['-xzf', join(import.meta.dirname, 'states/ab333d8.tar.gz'), '-C', dir]);
  made = JSON.parse(await readFile(join(dir, 'made.json'), 'utf8')) as Made;
  node = await startNode({ dir: join(dir, 'ipfs'), token: rpcToken });
  kubo = kuboProgram() === undefined ? undefined : await startKubo({ repository: join(dir, 'kubo'), token: rpcToken });
  const backend = (id: string, url: string) => ({ id, type: 'kubo', url, tokenSecret: 'KUBO_TOKEN' });
  service = await startService({
    dir,
    node,
    vars: {
      PINNING_SERVICES: JSON.stringify([backend('node', node.url), backend('kubo', kubo?.url ?? 'http://127.0.0.1:9')]),
      REPLICAS: '2',
      SERVICE_ID: 'made-by-ab333d8',
      SHARE_MAX_DAYS: '36500',
    },
  });
  call = client(service.url, made.apiKey);
});
afterAll(async () => {
  await service?.close();
  await Promise.all([kubo?.close(), node?.close()]);
  await rm(dir, { recursive: true, force: true });
});

const content = async (fileId: string, by = call): Promise<string> => String(await by.read(fileId));

it('lists the files of an earlier version and reads them, with its keys', async () => {
  const { files } = await call.listFiles();
  expect(files.map(({ fileId, cid, filename, createdAt }) => ({ fileId, cid, filename, createdAt }))).toEqual(
    made.list.files.map(({ fileId, cid, filename, createdAt }) => ({ fileId, cid, filename, createdAt })),
  );
  const reader = client(service.url, made.reader);
  for (const by of [call, reader]) {
    expect(await content(made.plain.fileId, by)).toBe('plain of round two');
    expect(await content(made.encrypted.fileId, by)).toBe('encrypted of round two');
    expect(await content(made.large.fileId, by)).toBe('r'.repeat(1_300_000));
  }
  const path = `/v1/storage/${made.encrypted.fileId}?data=false`;
  expect(await jsonOf<StoredFile>(call(path))).toMatchObject({ metadata: { of: 'round two' }, tags: ['old', 'state'] });
  expect((await call.listFiles({ tag: 'old' })).files).toHaveLength(1);
  const stored = await client(service.url, made.writer).store('encrypted', 'stored later', { filename: 'later.txt' });
  expect(await content(stored.fileId)).toBe('stored later');
  expect(await problemOf(call.ask('getFile', { fileId: made.deleted }))).toBe('404 not_found');
});

it('continues uploads that an earlier version began', async () => {
  for (const path of [made.plainUpload, made.encryptedUpload]) {
    expect((await head(call, path)).headers.get('Upload-Offset')).toBe('10');
    const response = await patch(call, path, 10, Buffer.from('abcdefghijklmnopqrst'));
    expect(await content(present(response.headers.get('Sealpin-File')))).toBe('0123456789abcdefghijklmnopqrst');
  }
  const { path } = await create(call, 'encrypted', 1);
  expect((await patch(call, path, 0, Buffer.from('x'))).status).toBe(204);
});

it('opens a share of an earlier version as often as was left, and ends it', async () => {
  const anybody = client(service.url, '');
  const open = (id: string): Promise<Response> => anybody.ask('openShare', { shareId: id });
  const { link } = parseLink(made.link);
  if (link.kind !== 'share') throw new Error('it is the link of a share');
  const { record, opensLeft } = await jsonOf<OpenedShare>(open(made.share));
  expect(opensLeft).toBe(89);
  const parcel = await openParcel(Buffer.from(record, 'base64'), { secret: link.secret });
  expect(parcel).toMatchObject({ note: 'kept', files: [{ name: 'shared.txt' }] });
  expect(await problemOf(open(made.usedShare))).toBe('410 gone');
  expect(await call.changeShare({ shareId: made.share, opens: 12 })).toMatchObject({ opens: 12, opensLeft: 11 });
  await call.deleteShare({ shareId: made.share });
  expect(await problemOf(open(made.share))).toBe('410 gone');
});

it('keeps the inbox of an earlier version and what came by it', async () => {
  const letters = async (): Promise<number> =>
    (await call.listFiles({ mode: 'plain', contentType: 'application/vnd.sealpin.parcel' })).files.length;
  expect(await letters()).toBe(1);
  const { link } = parseLink(made.inbox);
  if (link.kind !== 'inbox') throw new Error('it is the link of an inbox');
  await client(service.url, link.apiKey).store('plain', 'more', { type: 'application/vnd.sealpin.parcel' });
  expect(await letters()).toBe(2);
});

it.skipIf(kuboProgram() === undefined)('knows the copies that an earlier version made at a Kubo', async () => {
  const pinned = await present(kubo).ipfs('pin', 'ls', '--type=recursive', '--quiet');
  for (const { cid } of [made.plain, made.large, made.encrypted]) expect(pinned).toContain(cid);
  const { pins } = await call.getFile({ fileId: made.large.fileId, data: false });
  expect(pins).toMatchObject([
    { service: 'node', status: 'pinned' },
    { service: 'kubo', status: 'pinned' },
  ]);
});

it('keeps the sealed name of a file of an earlier version', async () => {
  const details = btoa('sealpin/v1\n a sealed name');
  await call.changeFile({ fileId: made.plain.fileId, details });
  expect(await call.getFile({ fileId: made.plain.fileId, data: false })).toMatchObject({ details });
});

it('gives the operator a backup of an account that an earlier version made', async () => {
  const operator = client(service.url, adminToken);
  const page = await operator.backUpAccount({ id: made.account });
  expect(JSON.stringify(page)).toContain(made.plain.fileId);
});

it('rotates the key pair of an earlier version, and reads every file under the new one', async () => {
  const { files } = await call.listFiles({ limit: 100 });
  const texts = await Promise.all(files.map(({ fileId }) => content(fileId)));
  expect(files.filter(({ mode }) => mode === 'encrypted').length).toBeGreaterThan(1);
  expect(await rotate(call)).toEqual([expect.not.objectContaining({ unreadable: expect.anything() as unknown })]);
  const again = await call.listFiles({ limit: 100 });
  const known = (all: readonly StoredFile[]) => all.map((file) => ({ ...file, pins: [] }));
  expect(known(again.files)).toEqual(known(files));
  expect(await Promise.all(files.map(({ fileId }) => content(fileId)))).toEqual(texts);
  expect((await call.listFiles({ tag: 'old' })).files).toHaveLength(1);
  expect(await problemOf(client(service.url, made.reader).ask('listFiles'))).toBe('401 unauthorized');
  const stored = await client(service.url, made.writer).store('encrypted', 'stored under the new pair');
  expect(await content(stored.fileId)).toBe('stored under the new pair');
});
