/**
 * Everything moves from one kind of backend to another: Kubo to R2, R2 to S3, and the embedded node
 * to S3, while the service is killed, and after a migration that was cancelled.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Migration, StoredFile } from '../../../shared/api.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { startNode, type RunningNode } from '../../../testkit/node.ts';
import { answersLate, startHostileStore, type HostileStore } from '../../../testkit/object-stores/hostile-store.ts';
import { keysOf } from '../../../testkit/object-stores/s3-requests.ts';
import { hasVersitygw, noVersitygw, startVersitygw, type Versitygw } from '../../../testkit/object-stores/versitygw.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../../testkit/programs/kubo.ts';
import { adminToken, rpcToken, startService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, type Client } from '../../../testkit/api-client.ts';
import { foreignCar, linksPerNode } from './foreign-car.ts';

const mib = 1_048_576;
const files = long ? 1000 : 12;
const lanes = 8;
const slow = { timeout: long ? 1_800_000 : 120_000, interval: 200 };
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

type Id = 'kubo' | 'node' | 'r2' | 's3';
type Kept = { file: StoredFile; digest: string };

let dir: string;
let kubo: RealKubo;
let node: RunningNode;
let gateway: Versitygw;
let hostile: HostileStore;
let service: Service;
let apiKey: string;

/** Starts the service, which stores new files at the first of the backends. */
async function start(first: Id): Promise<void> {
  const { url, bucket, region } = hostile;
  const entries = [
    { id: 'kubo', type: 'kubo', url: kubo.url, tokenSecret: 'REAL_TOKEN' },
    { id: 'node', type: 'kubo', url: node.url, tokenSecret: 'KUBO_TOKEN' },
    { id: 'r2', type: 'r2', binding: 'BUCKET' },
    { id: 's3', type: 's3', url, bucket, region, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' },
  ];
  const secrets = { REAL_TOKEN: kubo.token, S3_KEY: gateway.keyId, S3_SECRET: gateway.secret };
  const BACKENDS = JSON.stringify(entries.toSorted((a, b) => Number(b.id === first) - Number(a.id === first)));
  service = await startService({ dir, node, vars: { BACKENDS, SERVICE_ID: 'tested', REPLICAS: '1', ...secrets } });
}

/** Kills the service, as a power cut would, and starts it again. */
async function restart(first: Id): Promise<void> {
  await service.kill();
  await start(first);
}

const call = (): Client => client(service.url, apiKey);
const operator = (): Client => client(service.url, adminToken);

/** Does something for each of some items, several at once. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = [...items];
  const lane = async (): Promise<void> => {
    for (let item = rest.pop(); item !== undefined; item = rest.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** Stores files: most are small, one has two objects, and one is of another shape. */
async function fill(): Promise<Kept[]> {
  const kept: Kept[] = [];
  const sizes = Array.from({ length: files - 1 }, (_, i) =>
    i === 0 ? 17 * mib : i % 10 === 1 ? 2 * mib + 5 : 2000 + i,
  );
  await each(sizes, async (size) => {
    const bytes = randomBytes(size);
    kept.push({ file: await call().store('plain', bytes), digest: sha256(bytes) });
  });
  const foreign = randomBytes(700_000);
  kept.push({ file: await storeCar(await foreignCar(foreign)), digest: sha256(foreign) });
  return kept;
}

async function storeCar(body: Uint8Array<ArrayBuffer>): Promise<StoredFile> {
  const headers = { 'Content-Type': 'application/vnd.ipld.car' };
  return await jsonOf<StoredFile>(call()('/v1/storage/plain', { method: 'POST', headers, body }), 201);
}

async function progress(from: Id, to: Id): Promise<Migration | undefined> {
  const { migrations } = await operator().listMigrations();
  return migrations.find((migration) => migration.from === from && migration.to === to);
}

/** Waits until not more than this is left. */
const left = (from: Id, to: Id) => expect.poll(async () => (await progress(from, to))?.left ?? Infinity, slow);

/** The backends that have each of the files, and whether the bytes of each are right. */
async function seen(kept: readonly Kept[]): Promise<{ at: Set<string>; wrong: string[] }> {
  const [at, wrong] = [new Set<string>(), new Array<string>()];
  await each(kept, async ({ file: { fileId, cid }, digest }) => {
    const { pins } = await call().getFile({ fileId, data: false });
    at.add(pins.map((pin) => `${pin.service} ${pin.status}`).join());
    if (sha256(await call().getFileContent({ fileId })) !== digest) wrong.push(cid);
  });
  return { at, wrong };
}

/** The keys that a bucket has, without the prefix. */
async function keys(of: 'r2' | 's3'): Promise<string[]> {
  const bucket = await service.miniflare.getR2Bucket('BUCKET');
  const all: string[] = of === 's3' ? await keysOf(gateway) : [];
  for (let cursor: string | undefined, isLast = of === 's3'; !isLast;) {
    const page = await bucket.list(cursor === undefined ? {} : { cursor });
    all.push(...page.objects.map(({ key }) => key));
    cursor = page.truncated ? page.cursor : undefined;
    isLast = cursor === undefined;
  }
  return all.map((key) => key.replace('sealpin-tested/', ''));
}

/** The CIDs of the indexes in a bucket. */
const cidsIn = async (of: 'r2' | 's3'): Promise<string[]> =>
  (await keys(of)).flatMap((key) => (key.startsWith('cid/') ? [key.slice(4)] : [])).toSorted();
const cidsOf = (kept: readonly Kept[]): string[] => kept.map(({ file }) => file.cid).toSorted();

const missing = kuboProgram() === undefined ? noKubo : hasVersitygw() ? undefined : noVersitygw;

describe.skipIf(missing !== undefined)('everything moves', { timeout: long ? 5_400_000 : 120_000 }, () => {
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sealpin-migrating-'));
    [kubo, node, gateway] = await Promise.all([
      startKubo(),
      startNode({ dir: join(dir, 'node'), token: rpcToken }),
      startVersitygw(),
    ]);
    hostile = await startHostileStore(gateway);
    await start('kubo');
    ({ apiKey } = await service.account());
  });
  afterAll(async () => {
    await service.close();
    await hostile.close();
    await Promise.all([kubo.close(), node.close(), gateway.close()]);
    await rm(dir, { recursive: true, force: true });
  });

  inCi('from Kubo to R2 and on to S3: killed twice, cancelled once', async () => {
    const kept = await fill();
    expect(await operator().createMigration({ from: 'kubo', to: 'r2' })).toMatchObject({ total: files });
    await restart('r2');
    await left('kubo', 'r2').toBeLessThan(files * 0.7);
    await restart('r2');
    await left('kubo', 'r2').toBe(0);
    expect(await progress('kubo', 'r2')).toMatchObject({ state: 'done', failed: 0 });
    expect(await kubo.ipfs('pin', 'ls', '--type=recursive', '--quiet')).not.toContain('baf');
    await kubo.stop();
    expect(await seen(kept)).toEqual({ at: new Set(['r2 pinned']), wrong: [] });
    expect(await cidsIn('r2')).toEqual(cidsOf(kept));

    // What is sent after the first objects waits until the migration is cancelled.
    const cancelled = Promise.withResolvers<void>();
    const some = Math.floor(files / 3);
    const rest = Array.from({ length: 8 * files }, (_, i) => some + i);
    hostile.obey({ method: 'PUT', key: /data\//, nth: rest, fault: answersLate(cancelled.promise) });
    await operator().createMigration({ from: 'r2', to: 's3' });
    await left('r2', 's3').toBeLessThan(files);
    const { left: stayed } = await operator().cancelMigration({ from: 'r2', to: 's3' });
    expect(stayed).toBeGreaterThan(0);
    cancelled.resolve();
    await expect
      .poll(async () => [...(await cidsIn('r2')), ...(await cidsIn('s3'))].toSorted(), slow)
      .toEqual(cidsOf(kept));
    expect((await cidsIn('r2')).length).toBe(stayed);
    await expect.poll(() => seen(kept), slow).toEqual({ at: new Set(['r2 pinned', 's3 pinned']), wrong: [] });

    hostile.obey();
    await operator().createMigration({ from: 'r2', to: 's3' });
    await restart('s3');
    await left('r2', 's3').toBe(0);
    expect(await seen(kept)).toEqual({ at: new Set(['s3 pinned']), wrong: [] });
    expect(await cidsIn('s3')).toEqual(cidsOf(kept));
    await expect.poll(() => keys('r2'), slow).toEqual(['service']);
    for (const { file } of kept) await call().deleteFile({ fileId: file.fileId });
    await expect.poll(() => keys('s3'), slow).toEqual(['service']);
  });

  // It speaks the RPC of Kubo, from which the test before moves files.
  test.runIf(long)('from the embedded node to S3, killed once', async () => {
    await restart('node');
    const kept = await fill();
    await operator().createMigration({ from: 'node', to: 's3' });
    await restart('s3');
    await left('node', 's3').toBe(0);
    expect(await seen(kept)).toEqual({ at: new Set(['s3 pinned']), wrong: [] });
    expect(await cidsIn('s3')).toEqual(cidsOf(kept));
  });

  test.runIf(long)('what no store can take is listed with the reason, and stays where it is', async () => {
    await restart('node');
    // Nodes of 4.6 MB over leaves of which most are the same: a CAR has 32,768 blocks at most.
    const [nodes, leafBytes] = [5, 4096];
    const bytes = Buffer.alloc(nodes * linksPerNode * leafBytes);
    for (let i = 0; i < nodes; i += 1) bytes[i * linksPerNode * leafBytes] = i + 1;
    const { fileId, cid } = await storeCar(await foreignCar(bytes, leafBytes));
    const before = hostile.requests.length;
    await operator().createMigration({ from: 'node', to: 's3' });
    await expect.poll(() => progress('node', 's3'), slow).toMatchObject({ left: 1, failed: 1 });
    // It is refused before its bytes are copied.
    expect(hostile.requests.slice(before).filter(({ key }) => key.includes('/data/'))).toEqual([]);
    const detail = 'the file has too many small blocks for an object store';
    expect((await operator().listPins({ state: 'failed' })).pins).toMatchObject([
      { cid, service: 's3', reason: 'invalid_request', detail, files: [{ fileId }] },
    ]);
    expect(sha256(await call().getFileContent({ fileId }))).toBe(sha256(bytes));
    await operator().cancelMigration({ from: 'node', to: 's3' });
    const { pins } = await call().getFile({ fileId, data: false });
    expect(pins.find((pin) => pin.service === 'node')?.status).toBe('pinned');
  });
});
if (missing !== undefined) test.skip(missing);
