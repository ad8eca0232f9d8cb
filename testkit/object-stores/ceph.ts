/** A real Ceph cluster, unpacked by `.ci/ceph`: a monitor, three OSDs, a gateway for S3. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../../cli/local/port.ts';
import { endWithProcess } from '../end-with-process.ts';
import { newestBuilt } from '../programs/programs.ts';
import { done, sendS3, type Bucket } from './s3-requests.ts';

const run = promisify(execFile);

/** The folder that `.ci/ceph` unpacked; undefined where there is none. */
const cephFolder = (): string | undefined => newestBuilt('ceph', 'usr/bin/radosgw');

/** The note of tests that are skipped without Ceph. */
export const noCeph = 'Ceph is not there: unpack it with .ci/ceph';

/** Tells whether `.ci/ceph` has unpacked it. */
export const hasCeph = (): boolean => cephFolder() !== undefined;

/** A daemon of the cluster: killed, as a power cut would, and started again. */
export type Daemon = { readonly name: string; kill(): Promise<void>; start(): Promise<void> };

export type Ceph = Bucket & {
  readonly osds: readonly Daemon[];
  readonly gateway: Daemon;
  /** The OSDs that are up, as the monitor sees them. */
  osdsUp(): Promise<number>;
  /** Kills it and removes its data. */
  close(): Promise<void>;
};

const osdCount = 3;

/** Starts a cluster that keeps two copies, with a bucket. It takes about 30 s. */
export async function startCeph(): Promise<Ceph> {
  const folder = cephFolder();
  if (folder === undefined) throw new Error(noCeph);
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

  const daemon = (name: string, program: string, ...args: string[]): Promise<Daemon> =>
    startDaemon(name, { dir, program: join(folder, 'usr/bin', program), args, env });

  const address = `[v2:127.0.0.1:${monitorPort}]`;
  await call('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', address, join(dir, 'monmap'));
  await call('ceph-mon', '-i', 'a', '--mkfs', '--monmap', join(dir, 'monmap'));
  const monitor = await daemon('monitor', 'ceph-mon', '-i', 'a');
  const osds: Daemon[] = [];
  for (let i = 0; i < osdCount; i += 1) {
    const uuid = randomUUID();
    await call('ceph', '--connect-timeout', '60', 'osd', 'new', uuid);
    await mkdir(join(dir, `osd.${i}`));
    await call('ceph-osd', '-i', `${i}`, '--mkfs', '--osd-uuid', uuid);
    osds.push(await daemon(`osd.${i}`, 'ceph-osd', '-i', `${i}`));
  }
  const osdsUp = async (): Promise<number> =>
    (JSON.parse(await call('ceph', 'osd', 'stat', '--format=json')) as { num_up_osds: number }).num_up_osds;
  while ((await osdsUp()) < osdCount) await sleep(200);
  const own = { region: 'default', keyId: 'key-of-the-tests', secret: 'secret-of-the-tests', bucket: 'sealpin-tests' };
  const key = [`--access-key=${own.keyId}`, `--secret=${own.secret}`];
  await call('radosgw-admin', 'user', 'create', '--uid=tests', '--display-name=tests', ...key);
  const gateway = await daemon('gateway', 'radosgw', '-n', 'client.rgw');
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

/** Starts a daemon. @param o.dir where its output goes */
async function startDaemon(
  name: string,
  o: { dir: string; program: string; args: readonly string[]; env: NodeJS.ProcessEnv },
): Promise<Daemon> {
  let running: { child: ChildProcess; ended: Promise<unknown> } | undefined;
  const output = openSync(join(o.dir, `${name}.out`), 'a');
  const started = {
    name,
    async start() {
      const child = spawn(o.program, [...o.args, '-f'], { env: o.env, stdio: ['ignore', output, output] });
      endWithProcess(child);
      running = { child, ended: once(child, 'exit') };
      await once(child, 'spawn');
    },
    async kill() {
      running?.child.kill('SIGKILL');
      await running?.ended;
    },
  };
  await started.start();
  return started;
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
