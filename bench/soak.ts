/**
 * A load on the local service, over loopback: files of mixed sizes in both modes, read back whole and in part, listed and
 * deleted by several clients at once. At the end every file that is left is compared with what went in.
 *
 * `npm run soak [-- seconds]`, 60 by default. Ends with 1 on the first wrong byte or unexpected answer, and when the memory
 * of the service grew.
 */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../cli/local/bundle.ts';
import { summarize } from './figure.ts';
import { residentMiB } from './memory.ts';

const seconds = Number(process.argv[2] ?? 60);
const clients = 6;
/** Bytes that may lie on the disk at a time. */
const heldBytes = 2 ** 30;
/** MiB by which the memory may move between the middle of the time and its end: garbage, and what allocators keep. */
const slackMiB = 64;
/** The memory is told in so many medians, each of so many looks. */
const spans = 10;
const looks = 20;

type Stored = { fileId: string; size: number; seed: number; sum: string };

if (!(seconds > 0)) throw new TypeError('the seconds are not a number');
const dir = await mkdtemp(join(tmpdir(), 'sealpin-soak-'));
const service = spawn(
  process.execPath,
  [join(packageRoot(), 'cli/index.ts'), 'start', '--port=0', '--json', `--data-dir=${dir}`],
  { stdio: ['ignore', 'pipe', 'ignore'] },
);
const ended = new Promise<void>((resolve) => service.once('close', () => resolve()));
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort(new Error(signal)));

const files: Stored[] = [];
const counts = { stored: 0, read: 0, ranged: 0, listed: 0, deleted: 0, bytes: 0 };
try {
  const line = await new Promise<string>((resolve, reject) => {
    service.stdout.once('data', (data: Buffer) => resolve(data.toString()));
    service.once('close', () => reject(new Error('the service did not start')));
  });
  const { url, keyFile } = JSON.parse(line) as { url: string; keyFile: string };
  const { apiKey } = JSON.parse(await readFile(keyFile, 'utf8')) as { apiKey: string };
  const run = JSON.parse(await readFile(join(dir, 'local/run.json'), 'utf8')) as {
    service: { pid: number };
    workerd: { pid: number }[];
  };
  const pids = [run.service.pid, ...run.workerd.map(({ pid }) => pid)];
  const end = performance.now() + seconds * 1000;
  const seen: number[][] = [];
  const watch = setInterval(() => seen.push(resident(pids)), (seconds * 1000) / spans / looks);
  await Promise.all(Array.from({ length: clients }, () => load({ url, apiKey, end }))).finally(() =>
    clearInterval(watch),
  );
  for (const file of files) await readWhole({ url, apiKey }, file);
  console.log(`${seconds} s: ${JSON.stringify(counts)}, ${files.length} files compared at the end`);
  for (const [index, name] of ['node', 'workerd'].entries()) {
    const medians = mediansOf(seen.map((each) => each[index]!));
    console.log(`resident memory of ${name}, MiB: ${medians.map((mib) => mib.toFixed(0)).join(' ')}`);
    if (medians.at(-1)! > medians[Math.floor(medians.length / 2)]! + slackMiB)
      throw new Error(`the memory of ${name} grew`);
  }
} catch (error) {
  console.error(`✗ ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  service.kill('SIGTERM');
  await ended;
  await rm(dir, { recursive: true, force: true });
}

async function load(o: { url: string; apiKey: string; end: number }): Promise<void> {
  while (performance.now() < o.end) {
    stop.signal.throwIfAborted();
    const held = files.reduce((sum, { size }) => sum + size, 0);
    const dice = Math.random();
    if (files.length === 0 || (dice < 0.4 && held < heldBytes)) await storeOne(o);
    else if (dice < 0.6) await readWhole(o, pick());
    else if (dice < 0.8) await readPart(o, pick());
    else if (dice < 0.85) await listAll(o);
    else await removeOne(o);
  }
}

function pick(): Stored {
  return files[Math.floor(Math.random() * files.length)]!;
}

/** The same bytes for the same seed and size, so that nothing has to be kept to compare with. */
function bytesOf(seed: number, size: number): Buffer<ArrayBuffer> {
  const block = createHash('sha512').update(String(seed)).digest();
  const bytes = Buffer.alloc(size, block);
  for (let at = 0; at + 8 <= size; at += 65_536) bytes.writeDoubleLE(at + seed, at);
  return bytes;
}

async function storeOne(o: { url: string; apiKey: string }): Promise<void> {
  // Mostly small, now and then large: 2^0 to 2^25 bytes, evenly by their logarithm.
  const size = Math.floor(2 ** (Math.random() * 25));
  const seed = randomBytes(4).readUInt32LE();
  const bytes = bytesOf(seed, size);
  const mode = Math.random() < 0.5 ? 'plain' : 'encrypted';
  const json = Math.random() < 0.3 && size < 2 ** 22;
  const answer = await ask(o, `/v1/storage/${mode}`, 201, {
    method: 'POST',
    headers: json
      ? { 'content-type': 'application/json' }
      : { 'content-type': 'application/octet-stream', 'content-disposition': 'attachment; filename="soak"' },
    body: json ? JSON.stringify({ filename: 'soak', data: bytes.toString('base64') }) : bytes,
  });
  const { fileId } = (await answer.json()) as { fileId: string };
  files.push({ fileId, size, seed, sum: sumOf(bytes) });
  counts.stored += 1;
  counts.bytes += size;
}

async function readWhole(o: { url: string; apiKey: string }, file: Stored): Promise<void> {
  const answer = await ask(o, `/v1/storage/${file.fileId}`, [200, 404], {
    headers: { accept: 'application/octet-stream' },
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  if (answer.status === 404) return mayBeGone(file);
  if (bytes.length !== file.size || sumOf(bytes) !== file.sum) throw new Error(`${file.fileId} came back wrong`);
  counts.read += 1;
}

async function readPart(o: { url: string; apiKey: string }, file: Stored): Promise<void> {
  if (file.size === 0) return;
  const start = Math.floor(Math.random() * file.size);
  const last = Math.min(file.size - 1, start + Math.floor(Math.random() * 2 ** 20));
  const answer = await ask(o, `/v1/storage/${file.fileId}`, [206, 404], {
    headers: { accept: 'application/octet-stream', range: `bytes=${start}-${last}` },
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  if (answer.status === 404) return mayBeGone(file);
  if (!bytes.equals(bytesOf(file.seed, file.size).subarray(start, last + 1)))
    throw new Error(`bytes ${start}-${last} of ${file.fileId} came back wrong`);
  counts.ranged += 1;
}

async function listAll(o: { url: string; apiKey: string }): Promise<void> {
  const answer = await ask(o, '/v1/storage?limit=100', 200);
  await answer.json();
  counts.listed += 1;
}

async function removeOne(o: { url: string; apiKey: string }): Promise<void> {
  const [file] = files.splice(Math.floor(Math.random() * files.length), 1);
  if (file === undefined) return;
  const answer = await ask(o, `/v1/storage/${file.fileId}`, 200, { method: 'DELETE' });
  await answer.json();
  counts.deleted += 1;
}

/** Another client may have deleted it meanwhile, and only then may it be gone. */
function mayBeGone(file: Stored): void {
  if (files.includes(file)) throw new Error(`${file.fileId} is gone`);
}

async function ask(
  o: { url: string; apiKey: string },
  path: string,
  expected: number | number[],
  init: RequestInit = {},
): Promise<Response> {
  const answer = await fetch(o.url + path, {
    ...init,
    signal: stop.signal,
    headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${o.apiKey}` },
  });
  if (![expected].flat().includes(answer.status))
    throw new Error(`${init.method ?? 'GET'} ${path} answered ${answer.status}: ${await answer.text()}`);
  return answer;
}

function sumOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64');
}

/** Of each tenth of the time. */
function mediansOf(values: readonly number[]): number[] {
  const size = Math.ceil(values.length / spans);
  return Array.from(
    { length: Math.ceil(values.length / size) },
    (_, index) => summarize(values.slice(index * size, (index + 1) * size)).median,
  );
}

function resident(pids: readonly number[]): number[] {
  return pids.map((pid) => residentMiB(pid) ?? 0);
}
