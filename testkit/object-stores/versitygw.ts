/** A real versitygw on loopback: an S3 API over a folder, built by `.ci/versitygw`. */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onFreePort } from '../../cli/local/port.ts';
import { SealpinError } from '../../shared/errors.ts';
import { isOpen } from '../loopback-server.ts';
import { programPath, startProgram } from '../programs/programs.ts';
import { done, sendS3, type Bucket } from './s3-requests.ts';

/** The note of tests that are skipped without versitygw. */
export const noVersitygw = 'versitygw is not installed: build it with .ci/versitygw';

/** Tells whether `.ci/versitygw` has built it. */
export const hasVersitygw = (): boolean => programPath('versitygw') !== undefined;

export type Versitygw = Bucket & {
  /** The folder with the objects of the bucket, each a file named by its key. */
  readonly folder: string;
  /** Makes another bucket with the same key. */
  addBucket(bucket: string): Promise<Bucket>;
  /** Changes one byte of an object, as a disk may: its ETag and its time stay. */
  damage(key: string, atByte: number): Promise<void>;
  /** Loses an object, as nobody asked it to. */
  lose(key: string): Promise<void>;
  /** Kills it, as a power cut would, and keeps its objects. */
  kill(): Promise<void>;
  /** Starts it again at the same `url`. */
  start(o?: { isReadOnly?: boolean }): Promise<void>;
  /** Stops it and removes its objects. */
  close(): Promise<void>;
};

/**
 * Starts one with an empty bucket. What differs from other stores:
 * - An upload that breaks off is stored as far as it came, unless it has a digest (`Content-MD5`).
 * - It syncs nothing that it acknowledges.
 * - Where a bucket keeps versions, `If-None-Match: *` fails also while the newest of a key is a
 *   delete marker.
 * - Rules of lifecycle and replication answer 501, and a key ID that it does not know 404
 *   (`XAdminUserNotFound`).
 * @param o.keeps what the buckets keep of removed objects: versions, or versions that are locked
 * for a day; `versions later`: from `keepVersions` on
 * @param o.dir where the objects are; by default a temporary directory
 */
export async function startVersitygw(
  o: { keeps?: 'versions' | 'locked' | 'versions later'; dir?: string } = {},
): Promise<Versitygw> {
  const program = programPath('versitygw');
  if (program === undefined) throw new Error(noVersitygw);
  const dir = o.dir ?? (await mkdtemp(join(tmpdir(), 'sealpin-versitygw-')));
  const [root, versions] = [join(dir, 'buckets'), join(dir, 'versions')];
  await Promise.all([mkdir(root), mkdir(versions)]);
  const own = { region: 'us-east-1', keyId: 'key-of-the-tests', secret: 'secret-of-the-tests' };
  const start = async (port: number, isReadOnly = false) => {
    const args = ['--quiet', '--keep-alive', '--region', own.region, '--port', `127.0.0.1:${port}`];
    const kept = o.keeps !== undefined ? ['--versioning-dir', versions] : [];
    const all = [...args, ...(isReadOnly ? ['--readonly'] : []), 'posix', ...kept, root];
    const env = { ROOT_ACCESS_KEY_ID: own.keyId, ROOT_SECRET_ACCESS_KEY: own.secret };
    const gateway = await startProgram(program, all, { env, ready: () => isOpen(port) }).catch((error: Error) => {
      if (!error.message.includes('address already in use')) throw error;
      throw new SealpinError('port_in_use', `port ${port} is in use by another program`);
    });
    return { port, kill: () => gateway.stop('SIGKILL') };
  };
  let running = await onFreePort(0, start);
  const url = `http://127.0.0.1:${running.port}`;
  const addBucket = async (bucket: string): Promise<Bucket> => {
    const added = { ...own, url, bucket };
    const lockable = { 'x-amz-bucket-object-lock-enabled': 'true' };
    await done(await sendS3(added, 'PUT', '', o.keeps === 'locked' ? { headers: lockable } : {}));
    if (o.keeps === 'versions') await keepVersions(added);
    if (o.keeps === 'locked') await configure(added, 'object-lock', locksForADay);
    return added;
  };
  const bucket = await addBucket('sealpin-tests');
  const folder = join(root, bucket.bucket);
  return {
    ...bucket,
    folder,
    addBucket,
    damage: (key, atByte) => flipBit(join(folder, key), atByte),
    lose: (key) => rm(join(folder, key)),
    kill: () => running.kill(),
    async start({ isReadOnly } = {}) {
      running = await start(running.port, isReadOnly);
    },
    async close() {
      // It would wait 10 s for connections that are kept alive.
      await running.kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function configure(bucket: Bucket, query: string, body: string): Promise<void> {
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  await done(await sendS3(bucket, 'PUT', '', { query: { [query]: '' }, body, headers }));
}

/** Makes a bucket keep versions; or no more than it has. */
export const keepVersions = (bucket: Bucket, status: 'Enabled' | 'Suspended' = 'Enabled'): Promise<void> =>
  configure(bucket, 'versioning', `<VersioningConfiguration><Status>${status}</Status></VersioningConfiguration>`);

async function flipBit(path: string, atByte: number): Promise<void> {
  const file = await open(path, 'r+');
  const { atime, mtime } = await file.stat();
  const byte = Buffer.alloc(1);
  await file.read(byte, 0, 1, atByte);
  await file.write(Buffer.of(byte.readUInt8() ^ 1), 0, 1, atByte);
  await file.utimes(atime, mtime);
  await file.close();
}

const locksForADay = `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>
<Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>`;
