/**
 * Files on a Ceph cluster that loses disks and its gateway again and again. Everything that was
 * acknowledged is read afterwards.
 */
import { execFile } from 'node:child_process';
import { createCipheriv, createHash, randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { ResumableUpload, StoredFile } from '../../../shared/api.ts';
import { long } from '../../../testkit/long-run.ts';
import { freePort } from '../../../testkit/node.ts';
import { done, sendS3, type Bucket } from '../../../testkit/object-stores/s3-requests.ts';
import { newestBuilt, startProgram } from '../../../testkit/programs/programs.ts';
import { startService } from '../../../testkit/service.ts';
import { client, type Client } from '../../../testkit/api-client.ts';
import { mib, patch, version } from '../uploads/tus-client.ts';

const run = promisify(execFile);
/** The folder that `.ci/ceph` unpacked: a monitor, OSDs and a gateway for S3. */
const ceph = newestBuilt('ceph', 'usr/bin/radosgw');

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

/** A daemon of the cluster: killed, as a power cut would, and started again. */
type Daemon = { kill(): Promise<void>; start(): Promise<void> };

type Ceph = Bucket & {
  readonly osds: readonly Daemon[];
  readonly gateway: Daemon;
  /** The OSDs that are up, as the monitor sees them. */
  osdsUp(): Promise<number>;
  /** Kills it and removes its data. */
  close(): Promise<void>;
};

const osdCount = 3;

/** Starts a cluster that keeps two copies, with a bucket. It takes about 30 s. */
async function startCeph(folder: string): Promise<Ceph> {
  // On a disk: the temporary directory of the tests may be in memory, and OSDs hold gigabytes.
  const dir = await mkdtemp('/var/tmp/sealpin-ceph-');
  const libraries = join(folder, 'usr/lib/x86_64-linux-gnu');
  const env = {
    PATH: `${join(folder, 'usr/bin')}:${process.env['PATH'] ?? ''}`,
    LD_LIBRARY_PATH: [libraries, join(libraries, 'ceph'), join(folder, 'lib/x86_64-linux-gnu')].join(':'),
    PYTHONPATH: join(folder, 'usr/lib/python3/dist-packages'),
    PYTHONDONTWRITEBYTECODE: '1',
    CEPH_CONF: join(dir, 'ceph.conf'),
  };
  const call = async (program: string, ...args: string[]): Promise<string> =>
    (await run(join(folder, 'usr/bin', program), args, { env })).stdout.trim();
  const [fsid, monitorPort, port] = [randomUUID(), await freePort(0), await freePort(0)];
  await writeFile(env.CEPH_CONF, configuration({ dir, libraries, fsid, monitorPort, port }));
  await mkdir(join(dir, 'rgw'));

  const daemon = async (program: string, ...args: string[]): Promise<Daemon> => {
    const begin = () => startProgram(join(folder, 'usr/bin', program), [...args, '-f'], { env, ready: () => true });
    let running = await begin();
    return {
      kill: () => running.stop('SIGKILL'),
      async start() {
        running = await begin();
      },
    };
  };

  const address = `[v2:127.0.0.1:${monitorPort}]`;
  await call('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', address, join(dir, 'monmap'));
  await call('ceph-mon', '-i', 'a', '--mkfs', '--monmap', join(dir, 'monmap'));
  const monitor = await daemon('ceph-mon', '-i', 'a');
  const osds: Daemon[] = [];
  for (let i = 0; i < osdCount; i += 1) {
    const uuid = randomUUID();
    await call('ceph', '--connect-timeout', '60', 'osd', 'new', uuid);
    await mkdir(join(dir, `osd.${i}`));
    await call('ceph-osd', '-i', `${i}`, '--mkfs', '--osd-uuid', uuid);
    osds.push(await daemon('ceph-osd', '-i', `${i}`));
  }
  const osdsUp = async (): Promise<number> =>
    (JSON.parse(await call('ceph', 'osd', 'stat', '--format=json')) as { num_up_osds: number }).num_up_osds;
  while ((await osdsUp()) < osdCount) await sleep(200);
  const own = { region: 'default', keyId: 'key-of-the-tests', secret: 'secret-of-the-tests', bucket: 'sealpin-tests' };
  const key = [`--access-key=${own.keyId}`, `--secret=${own.secret}`];
  await call('radosgw-admin', 'user', 'create', '--uid=tests', '--display-name=tests', ...key);
  const gateway = await daemon('radosgw', '-n', 'client.rgw');
  const bucket = { ...own, url: `http://127.0.0.1:${port}` };
  await whenAnswers(bucket.url);
  await done(await sendS3(bucket, 'PUT', ''));

  return {
    ...bucket,
    osds,
    gateway: { ...gateway, start: () => gateway.start().then(() => whenAnswers(bucket.url)) },
    osdsUp,
    async close() {
      for (const each of [gateway, ...osds, monitor]) await each.kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function whenAnswers(url: string): Promise<void> {
  for (;;) {
    try {
      return void (await (await fetch(url)).text());
    } catch {
      await sleep(100);
    }
  }
}

function configuration(o: { dir: string; libraries: string; fsid: string; monitorPort: number; port: number }): string {
  const protocol = ['cluster', 'service', 'client', 'mon_cluster', 'mon_service', 'mon_client'];
  return `[global]
fsid = ${o.fsid}
mon_host = v2:127.0.0.1:${o.monitorPort}
ms_bind_msgr1 = false
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
${['cluster', 'service', 'client'].map((of) => `auth_${of}_required = none`).join('\n')}
${protocol.map((of) => `ms_${of}_mode = crc`).join('\n')}
osd_pool_default_size = 2
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = bluestore
bluestore_block_size = ${40 * 2 ** 30}
bluestore_cache_autotune = false
bluestore_cache_size = ${64 * 2 ** 20}
mon_osd_min_down_reporters = 1
osd_heartbeat_interval = 1
osd_heartbeat_grace = 4
run_dir = ${o.dir}
admin_socket = ${o.dir}/$name.asok
log_file = ${o.dir}/$name.log
pid_file =
crash_dir = ${o.dir}
mon_data = ${o.dir}/mon
osd_data = ${o.dir}/osd.$id
rgw_data = ${o.dir}/rgw
rgw_frontends = beast endpoint=127.0.0.1:${o.port}
plugin_dir = ${o.libraries}/ceph
osd_class_dir = ${o.libraries}/rados-classes
erasure_code_dir = ${o.libraries}/ceph/erasure-code
`;
}

/** Kills one of the daemons and starts it again: never two at a time. */
async function killOne(cluster: Ceph, victim: Daemon, outageMs: number): Promise<void> {
  await victim.kill();
  await sleep(outageMs);
  await victim.start();
  while ((await cluster.osdsUp()) < cluster.osds.length) await sleep(200);
}

describe.runIf(long)('Ceph', () => {
  test.skipIf(ceph === undefined)('keeps every acknowledged file while disks and the gateway are killed', async () => {
    const cluster = await startCeph(ceph ?? '');
    onTestFinished(() => cluster.close());
    const { url, bucket, region } = cluster;
    const entry = { id: 'ceph', type: 's3', url, bucket, region, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
    const vars = {
      BACKENDS: JSON.stringify([entry]),
      S3_KEY: cluster.keyId,
      S3_SECRET: cluster.secret,
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
        const victims = [...cluster.osds, cluster.gateway];
        await killOne(
          cluster,
          victims[Math.floor(random() * victims.length)] ?? cluster.gateway,
          500 + 5_000 * random(),
        );
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
  if (ceph === undefined) test.skip('Ceph is not there: unpack it with .ci/ceph');
});
