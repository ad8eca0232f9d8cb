/**
 * A load on the local service, over loopback: several clients store files of mixed sizes in both
 * modes, read them back whole and in part, list and delete them. At the end every remaining file is
 * compared with what went in.
 *
 * `npm run soak [-- seconds]`, 60 by default. Exits with 1 at the first wrong byte or unexpected
 * response, and when the memory of the service grew.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../cli/local/package-root.ts';
import { summarize } from './figure.ts';
import { residentMiB } from './process-stats.ts';
import { startProgram } from '../testkit/programs/programs.ts';

const seconds = Number(process.argv[2] ?? 60);
const clients = 6;
/** Bytes that the service holds at most. */
const heldBytes = 2 ** 30;
/** MiB by which memory may grow from the middle on: garbage, and what allocators keep. */
const slackMiB = 64;
/** The memory is reported as so many medians, each of so many samples. */
const spans = 10;
const samplesPerSpan = 20;

type HeldFile = { fileId: string; size: number; seed: number; digest: string };

if (!(seconds > 0)) throw new TypeError('the argument must be a positive number of seconds');
const dir = await mkdtemp(join(tmpdir(), 'sealpin-soak-'));
const args = [join(packageRoot(), 'cli/index.ts'), 'start', '--port=0', '--json', `--data-dir=${dir}`];
let endService = async (): Promise<void> => undefined;
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort(new Error(signal)));

const heldFiles: HeldFile[] = [];
const counts = { stored: 0, read: 0, ranged: 0, listed: 0, deleted: 0, bytes: 0 };
try {
  const ready = (output: string) => /^\{.*\}\n/m.exec(output)?.[0];
  const service = await startProgram(process.execPath, args, { ready });
  endService = () => service.stop();
  const { url, keyFile } = JSON.parse(service.ready) as { url: string; keyFile: string };
  const { apiKey } = JSON.parse(await readFile(keyFile, 'utf8')) as { apiKey: string };
  const run = JSON.parse(await readFile(join(dir, 'local/run.json'), 'utf8')) as {
    service: { pid: number };
    workerd: { pid: number }[];
  };
  const pids = [run.service.pid, ...run.workerd.map(({ pid }) => pid)];
  const end = performance.now() + seconds * 1000;
  const samples: number[][] = [];
  const watch = setInterval(() => samples.push(residentOf(pids)), (seconds * 1000) / spans / samplesPerSpan);
  await Promise.all(Array.from({ length: clients }, () => runClient({ url, apiKey, end }))).finally(() =>
    clearInterval(watch),
  );
  for (const file of heldFiles) await readWhole({ url, apiKey }, file);
  console.log(`${seconds} s: ${JSON.stringify(counts)}, ${heldFiles.length} files compared at the end`);
  for (const [index, name] of ['node', 'workerd'].entries()) {
    const medians = mediansOf(samples.map((each) => each[index] ?? 0));
    console.log(`resident memory of ${name}, MiB: ${medians.map((mib) => mib.toFixed(0)).join(' ')}`);
    const [middle = 0, last = 0] = [medians[Math.floor(medians.length / 2)], medians.at(-1)];
    if (last > middle + slackMiB) throw new Error(`the memory of ${name} grew`);
  }
} catch (error) {
  console.error(`✗ ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  await endService();
  await rm(dir, { recursive: true, force: true });
}

async function runClient(o: { url: string; apiKey: string; end: number }): Promise<void> {
  while (performance.now() < o.end) {
    stop.signal.throwIfAborted();
    const held = heldFiles.reduce((sum, { size }) => sum + size, 0);
    const draw = Math.random();
    if (heldFiles.length === 0 || (draw < 0.4 && held < heldBytes)) await storeOne(o);
    else if (draw < 0.6) await readWhole(o, pickFile());
    else if (draw < 0.8) await readPart(o, pickFile());
    else if (draw < 0.85) await listAll(o);
    else await removeOne(o);
  }
}

function pickFile(): HeldFile {
  const file = heldFiles[Math.floor(Math.random() * heldFiles.length)];
  if (file === undefined) throw new Error('no files to pick from');
  return file;
}

/** The same bytes for the same seed and size, so that none need to be kept for the comparison. */
function seededBytes(seed: number, size: number): Buffer<ArrayBuffer> {
  const block = createHash('sha512').update(String(seed)).digest();
  const bytes = Buffer.alloc(size, block);
  for (let at = 0; at + 8 <= size; at += 65_536) bytes.writeDoubleLE(at + seed, at);
  return bytes;
}

async function storeOne(o: { url: string; apiKey: string }): Promise<void> {
  // 2^0 to 2^25 bytes, their logarithm evenly distributed: mostly small, now and then large.
  const size = Math.floor(2 ** (Math.random() * 25));
  const seed = randomBytes(4).readUInt32LE();
  const bytes = seededBytes(seed, size);
  const mode = Math.random() < 0.5 ? 'plain' : 'encrypted';
  const json = Math.random() < 0.3 && size < 2 ** 22;
  const response = await callService(o, `/v1/storage/${mode}`, 201, {
    method: 'POST',
    headers: json
      ? { 'content-type': 'application/json' }
      : { 'content-type': 'application/octet-stream', 'content-disposition': 'attachment; filename="soak"' },
    body: json ? JSON.stringify({ filename: 'soak', data: bytes.toString('base64') }) : bytes,
  });
  const { fileId } = (await response.json()) as { fileId: string };
  heldFiles.push({ fileId, size, seed, digest: digestOf(bytes) });
  counts.stored += 1;
  counts.bytes += size;
}

async function readWhole(o: { url: string; apiKey: string }, file: HeldFile): Promise<void> {
  const response = await callService(o, `/v1/storage/${file.fileId}`, [200, 404], {
    headers: { accept: 'application/octet-stream' },
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  if (response.status === 404) return checkDeleted(file);
  if (bytes.length !== file.size || digestOf(bytes) !== file.digest)
    throw new Error(`the bytes of ${file.fileId} are wrong`);
  counts.read += 1;
}

async function readPart(o: { url: string; apiKey: string }, file: HeldFile): Promise<void> {
  if (file.size === 0) return;
  const start = Math.floor(Math.random() * file.size);
  const last = Math.min(file.size - 1, start + Math.floor(Math.random() * 2 ** 20));
  const response = await callService(o, `/v1/storage/${file.fileId}`, [206, 404], {
    headers: { accept: 'application/octet-stream', range: `bytes=${start}-${last}` },
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  if (response.status === 404) return checkDeleted(file);
  if (!bytes.equals(seededBytes(file.seed, file.size).subarray(start, last + 1)))
    throw new Error(`bytes ${start}-${last} of ${file.fileId} are wrong`);
  counts.ranged += 1;
}

async function listAll(o: { url: string; apiKey: string }): Promise<void> {
  const response = await callService(o, '/v1/storage?limit=100', 200);
  await response.json();
  counts.listed += 1;
}

async function removeOne(o: { url: string; apiKey: string }): Promise<void> {
  const [file] = heldFiles.splice(Math.floor(Math.random() * heldFiles.length), 1);
  if (file === undefined) return;
  const response = await callService(o, `/v1/storage/${file.fileId}`, 200, { method: 'DELETE' });
  await response.json();
  counts.deleted += 1;
}

/** A 404 is right only if another client has deleted the file in the meantime. */
function checkDeleted(file: HeldFile): void {
  if (heldFiles.includes(file)) throw new Error(`${file.fileId} was not found`);
}

async function callService(
  o: { url: string; apiKey: string },
  path: string,
  expected: number | number[],
  init: RequestInit = {},
): Promise<Response> {
  const response = await fetch(o.url + path, {
    ...init,
    signal: stop.signal,
    headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${o.apiKey}` },
  });
  if (![expected].flat().includes(response.status))
    throw new Error(`${init.method ?? 'GET'} ${path} gave ${response.status}: ${await response.text()}`);
  return response;
}

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64');
}

/** One median for each span of the time. */
function mediansOf(values: readonly number[]): number[] {
  const size = Math.ceil(values.length / spans);
  return Array.from(
    { length: Math.ceil(values.length / size) },
    (_, index) => summarize(values.slice(index * size, (index + 1) * size)).median,
  );
}

function residentOf(pids: readonly number[]): number[] {
  return pids.map((pid) => residentMiB(pid) ?? 0);
}
