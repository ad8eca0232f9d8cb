/**
 * Files on a Ceph cluster that loses disks and its gateway again and again. Everything that was
 * acknowledged is read afterwards.
 */
import { createCipheriv, createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { ResumableUpload, StoredFile } from '../../../shared/api.ts';
import { long } from '../../../testkit/long-run.ts';
import { hasCeph, noCeph, startCeph, type Ceph, type Daemon } from '../../../testkit/object-stores/ceph.ts';
import { startService } from '../../../testkit/service.ts';
import { client, type Client } from '../../../testkit/api-client.ts';
import { mib, patch, version } from '../uploads/tus-client.ts';

const [files, kills] = [1000, 30];
const writers = 3;
/** Uploads over this size go in parts, as the command line sends them. */
const largestBody = 16 * mib;

/** Numbers from 0 to 1 that are the same in each run. */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Sizes of files: most are small, each 64th is large, the largest 300 MiB. */
function sizesOf(count: number): number[] {
  const random = sequence(7);
  const sizes = Array.from({ length: count }, (_, i) =>
    Math.floor(i % 64 === 63 ? (16 + 200 * random()) * mib : 2 ** (23 * random())),
  );
  return sizes.with(0, 1).with(Math.floor(count / 2), 300 * mib);
}

/** The bytes of a file, none of whose leaves is like one of another. */
function contentOf(file: number, bytes: number): Buffer {
  const key = createHash('sha256').update(`file ${file}`).digest().subarray(0, 16);
  return createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(bytes));
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/**
 * Repeats what a store that is away for a while made fail; a client would do so by `Retry-After`.
 */
async function patiently<T>(failures: string[], attempt: () => Promise<T | string>): Promise<T> {
  // The service tries again by itself what it could not finish, after ever longer breaks.
  for (let left = 900; ; left -= 1) {
    const result = await attempt().catch((error: unknown) => String(error));
    if (typeof result !== 'string') return result;
    failures.push(result);
    if (left === 0) throw new Error(`it never succeeded: ${result}`);
    await sleep(1000);
  }
}

/** Stores a file in one request, or in parts that continue where the service is. @returns its ID */
async function store(call: Client, content: Buffer, failures: string[]): Promise<string> {
  if (content.length <= largestBody)
    return await patiently(failures, async () => {
      const body = new Uint8Array(content);
      const response = await call('/v1/storage/plain', {
        method: 'POST',
        body,
        headers: { 'Content-Type': 'application/octet-stream' },
      });
      if (response.status !== 201) return `${response.status}: ${await response.text()}`;
      const { fileId }: StoredFile = await response.json();
      return { id: fileId };
    }).then(({ id }) => id);
  const length = { ...version, 'Upload-Length': String(content.length) };
  const { path } = await patiently(failures, async () => {
    const response = await call('/v1/uploads/plain', { method: 'POST', headers: length });
    const path = response.headers.get('Location');
    return path === null ? `${response.status}: ${await response.text()}` : { path };
  });
  const { id } = await patiently(failures, async () => {
    for (;;) {
      const seen = await call(path, { method: 'HEAD', headers: version });
      if (seen.status !== 200) return `HEAD: ${seen.status}`;
      const offset = Number(seen.headers.get('Upload-Offset'));
      if (offset === content.length) break;
      const sent = await patch(call, path, offset, new Uint8Array(content.subarray(offset, offset + 64 * mib)));
      if (sent.status !== 204) return `PATCH: ${sent.status}: ${await sent.text()}`;
    }
    const state = await call(path);
    const { file }: ResumableUpload = await state.json();
    return file === undefined ? `GET: ${state.status}` : { id: file.fileId };
  });
  return id;
}

/** Compares a file with what was sent; a sentence if the store could not give it. */
async function read(call: Client, id: string, digest: string): Promise<{ isRight: boolean } | string> {
  const response = await call(`/v1/storage/${id}/content`);
  if (response.status !== 200 || response.body === null) return `${response.status}: ${await response.text()}`;
  const hash = createHash('sha256');
  for await (const chunk of response.body) hash.update(chunk);
  return { isRight: hash.digest('hex') === digest };
}

/** Kills one of the daemons and starts it again: never two at a time. */
async function killOne(ceph: Ceph, victim: Daemon, outageMs: number): Promise<void> {
  await victim.kill();
  await sleep(outageMs);
  await victim.start();
  while ((await ceph.osdsUp()) < ceph.osds.length) await sleep(200);
}

describe.runIf(long)('Ceph', () => {
  test.skipIf(!hasCeph())('keeps every acknowledged file while disks and the gateway are killed', async () => {
    const ceph = await startCeph();
    onTestFinished(() => ceph.close());
    const { url, bucket, region } = ceph;
    const entry = { id: 'ceph', type: 's3', url, bucket, region, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
    const vars = {
      BACKENDS: JSON.stringify([entry]),
      S3_KEY: ceph.keyId,
      S3_SECRET: ceph.secret,
      SERVICE_ID: 'tested',
    };
    const service = await startService({ vars });
    onTestFinished(() => service.close());
    const { apiKey } = await service.account();
    const call = client(service.url, apiKey);

    const sizes = sizesOf(files);
    const acknowledged = new Map<number, { id: string; digest: string }>();
    const failures: string[] = [];
    const so = { far: 0, killed: 0, wrong: 0, unread: 0 };
    const write = async (): Promise<void> => {
      for (let file = so.far++; file < files; file = so.far++) {
        const content = contentOf(file, sizes[file] ?? 0);
        acknowledged.set(file, { id: await store(call, content, failures), digest: sha256(content) });
      }
    };
    const random = sequence(11);
    const kill = async (): Promise<void> => {
      for (; so.killed < kills; so.killed += 1) {
        while (so.far < (files * so.killed) / kills) await sleep(100);
        const victims = [...ceph.osds, ceph.gateway];
        await killOne(ceph, victims[Math.floor(random() * victims.length)] ?? ceph.gateway, 500 + 5_000 * random());
      }
    };
    const readSome = async (): Promise<void> => {
      while (so.far < files) {
        const some = [...acknowledged.values()][Math.floor(random() * acknowledged.size)];
        if (some === undefined) await sleep(100);
        else {
          const seen = await read(call, some.id, some.digest).catch(String);
          if (typeof seen === 'string') so.unread += 1;
          else if (!seen.isRight) so.wrong += 1;
        }
      }
    };
    await Promise.all([...Array.from({ length: writers }, write), kill(), readSome()]);

    for (const { id, digest } of acknowledged.values()) {
      const { isRight } = await patiently(failures, () => read(call, id, digest));
      if (!isRight) so.wrong += 1;
    }
    const kinds = Object.entries(
      Object.groupBy(failures, (failure) => failure.slice(0, 200).replaceAll(/[0-9a-f-]{36}/g, '…')),
    );
    const seen = kinds.map(([kind, all = []]) => `${all.length} × ${kind}`).join('\n');
    // oxlint-disable-next-line no-console
    console.info(
      `${acknowledged.size} files, ${so.killed} kills, ${so.unread} reads that failed meanwhile\nrepeated:\n${seen}`,
    );
    // What a store does is never an internal error of the service.
    expect(service.log.filter((line) => line.includes('"code":"internal"'))).toEqual([]);
    expect(acknowledged.size).toBe(files);
    expect(so).toMatchObject({ killed: kills, wrong: 0 });
  });
  if (!hasCeph()) test.skip(noCeph);
});
