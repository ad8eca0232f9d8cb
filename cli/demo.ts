/**
 * The main job from start to end, as a person would do it, in a temporary folder: `npm run demo`.
 */
import { cancelQuietly } from '../shared/streams/cancel-quietly.ts';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { wrap } from './terminal/wrap.ts';

/** The program that it shows; tests name one with cheap passwords. */
const [, , entry = join(import.meta.dirname, 'index.ts')] = process.argv;
const original = createRequire(import.meta.url).resolve('miniflare');
/** Indent of the second and later lines of a step. */
const indent = ' '.repeat(17);
const password = 'correct horse battery staple and a demo';
const interruption = new AbortController();
const interruptions = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
for (const signal of interruptions) process.on(signal, () => interruption.abort());

type Printed = { stdout: string; stderr: string };

const dir = await mkdtemp(join(tmpdir(), 'sealpin-demo-'));
const service = spawn(process.execPath, [entry, 'start', '--port=0', '--json', `--data-dir=${dir}`], {
  stdio: ['ignore', 'pipe', 'pipe'],
  // Ctrl-C does not reach it: a second signal, ours, would end it before it has stopped workerd.
  detached: true,
});
const serviceEnded = new Promise<void>((resolve) => service.once('close', () => resolve()));

try {
  await demo();
  process.exitCode = 0;
} catch (error) {
  process.exitCode = interruption.signal.aborted ? 130 : 1;
  console.log(
    interruption.signal.aborted
      ? '\nInterrupted; cleaning up.'
      : `\n✗ ${error instanceof Error ? error.message : String(error)}`,
  );
} finally {
  service.kill('SIGTERM');
  await serviceEnded;
  await rm(dir, { recursive: true, force: true });
}
if (process.exitCode === 0)
  console.log('\nEverything is stopped and removed. Start your own service with: ./sealpin start');

async function demo(): Promise<void> {
  const { size } = await stat(original);
  console.log(`Sealpin, on one real file: ${basename(original)} of miniflare, ${mib(size)}.\n`);

  let started = performance.now();
  const { url, keyFile } = JSON.parse(await firstLine()) as { url: string; keyFile: string };
  report('start', `a Worker and an IPFS node at ${url}, ready after ${seconds(started)}`);

  const alice = await keys('Alice');
  const bob = await keys('Bob');

  const blobs = {
    encrypt: await storeBlob('encrypt', 'AES-256-GCM under a password', original),
    'chacha-encrypt': await storeBlob('chacha-encrypt', 'ChaCha20-Poly1305 under a password, an age file', original),
    'ecc-encrypt': await storeBlob('ecc-encrypt', 'for Alice and Bob, P-256', original, alice.public, bob.public),
  };

  for (const [made, reader, keys] of [
    ['encrypt', 'decrypt', []],
    ['chacha-encrypt', 'decrypt', []],
    ['ecc-encrypt', 'ecc-decrypt', [alice.private]],
    ['ecc-encrypt', 'ecc-decrypt', [bob.private]],
  ] as const) {
    started = performance.now();
    const owner = keys[0] === undefined ? undefined : basename(dirname(keys[0]));
    const output = join(dir, `${made}-${owner ?? 'back'}`);
    await sealpin(reader, blobs[made], output, ...keys);
    await compare(output);
    const how = owner === undefined ? 'with the password' : `with the key of ${owner}`;
    report(reader, `${short(blobs[made])} ${how}: restored byte for byte, ${seconds(started)}`);
  }

  await byLink();
  await throughApi(url, keyFile);
}

/** Stores, reads and deletes the file over HTTP. */
async function throughApi(url: string, keyFile: string): Promise<void> {
  const { apiKey } = JSON.parse(await readFile(keyFile, 'utf8')) as { apiKey: string };
  const api = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(url + path, {
      ...init,
      signal: interruption.signal,
      headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${apiKey}` },
    });
  const data = await readFile(original);

  const sealed = await checkedJson<{ fileId: string; cid: string }>(
    await api('/v1/storage/encrypted', {
      method: 'POST',
      headers: {
        'content-type': 'application/javascript',
        'content-disposition': `attachment; filename*=UTF-8''${basename(original)}`,
      },
      body: data,
    }),
    201,
  );
  report('POST', `encrypted by the service, as raw bytes → file ${sealed.fileId}`);
  const plain = await checkedJson<{ fileId: string; cid: string }>(
    await api('/v1/storage/plain', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ filename: basename(original), data: data.toString('base64') }),
    }),
    201,
  );
  report('POST', `plain, as JSON with base64 → blob ${short(plain.cid)}, which anyone can read`);

  const raw = await api(`/v1/storage/${sealed.fileId}`, { headers: { accept: 'application/octet-stream' } });
  assertSame(Buffer.from(await raw.arrayBuffer()), data);
  report('GET', `the encrypted one as ${raw.headers.get('content-type')}: restored byte for byte`);
  const json = await checkedJson<{ filename: string; data: string }>(await api(`/v1/storage/${plain.fileId}`), 200);
  assertSame(Buffer.from(json.data, 'base64'), data);
  report('GET', `the plain one as JSON, ${json.filename}: restored byte for byte`);

  const { key, pins } = await checkedJson<{ key: string; pins: { service: string; status: string }[] }>(
    await api(`/v1/storage/${sealed.fileId}`, { method: 'DELETE' }),
    200,
  );
  report('DELETE', `receipt: key ${key}, ${pins.map((pin) => `${pin.status} at ${pin.service}`).join(', ')}`);
  const again = await api(`/v1/storage/${sealed.fileId}`);
  await cancelQuietly(again.body);
  if (again.status !== 404) throw new Error(`a request for a deleted file got status ${again.status}`);
  report('GET', 'the deleted one: 404');
}

/** Sends the file by a link, and receives it as somebody who has nothing but the link. */
async function byLink(): Promise<void> {
  let started = performance.now();
  const { stdout } = await sealpin('send', original, '--opens=1', '--note=From the demo');
  const link = stdout.trim();
  report('send', `by a link that opens once, ${seconds(started)}`, `→ ${link.slice(0, 44)}…`);
  started = performance.now();
  const folder = join(dir, 'Ann');
  await sealpin('receive', link, folder, `--data-dir=${join(dir, 'home-of-Ann')}`);
  await compare(join(folder, basename(original)));
  report('receive', `by Ann, who has the link and nothing else: restored byte for byte, ${seconds(started)}`);
  const [again] = await Promise.allSettled([sealpin('receive', link, folder)]);
  if (again.status === 'fulfilled') throw new Error('a link that opens once was opened twice');
  report('receive', 'again: the link is used up');
}

/**
 * Runs one command line to its end, also when it is interrupted, so that it writes nothing into a
 * folder that is removed. The password goes through the environment, where other users cannot read
 * it.
 */
function sealpin(command: string, ...args: string[]): Promise<Printed> {
  return new Promise((resolve, reject) => {
    const own = args.some((arg) => arg.startsWith('--data-dir=')) ? [] : [`--data-dir=${dir}`];
    const child = spawn(process.execPath, [entry, command, ...args, ...own], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        ...(/^(encrypt|chacha-encrypt|decrypt)$/.test(command) ? { SEALPIN_PASSWORD: password } : {}),
      },
      signal: interruption.signal,
      killSignal: 'SIGTERM',
    });
    const output = { stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
    let failure: Error | undefined;
    child.once('error', (error) => (failure = error));
    child.once('close', (code, signal) => {
      // Ctrl-C ends the command as well, and its end may be seen first.
      if (interruptions.some((each) => each === signal)) interruption.abort();
      if (code === 0) resolve(output);
      else reject(failure ?? new Error(`sealpin ${command} exited with ${code ?? signal}\n${output.stderr}`));
    });
  });
}

async function keys(name: string): Promise<{ private: string; public: string }> {
  const folder = join(dir, name);
  const { stdout } = await sealpin('keygen', `--output=${folder}`);
  report('keygen', `${name} is ${stdout.slice(0, 20)}…`);
  return { private: join(folder, 'private.key'), public: join(folder, 'public.key') };
}

async function storeBlob(command: string, how: string, ...args: string[]): Promise<string> {
  const started = performance.now();
  const { stdout } = await sealpin(command, ...args);
  const blob = stdout.trim();
  report(command, `${how}, ${seconds(started)}`, `→ ${blob}`);
  return blob;
}

/** The line that the service prints when it is ready; its error when it fails. */
async function firstLine(): Promise<string> {
  let stderr = '';
  service.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const line = new Promise<string>((resolve) => createInterface(service.stdout).once('line', resolve));
  const ended = serviceEnded.then(() => Promise.reject(new Error(`the service did not start\n${stderr}`)));
  return await Promise.race([line, ended]);
}

async function checkedJson<T>(response: Response, status: number): Promise<T> {
  const text = await response.text();
  if (response.status !== status) throw new Error(`the service responded with ${response.status}: ${text}`);
  return JSON.parse(text) as T;
}

async function compare(path: string): Promise<void> {
  assertSame(await readFile(path), await readFile(original));
}

function assertSame(got: Buffer, wanted: Buffer): void {
  if (!got.equals(wanted)) throw new Error('the restored file differs from the original');
}

/** Prints a step that is done, and what came of it, in lines that fit 80 columns. */
function report(step: string, ...paragraphs: string[]): void {
  const [first = '', ...others] = paragraphs.flatMap((text) => wrap(text, 80 - indent.length));
  console.log([`✓ ${step.padEnd(14)} ${first}`, ...others.map((line) => indent + line)].join('\n'));
}

function mib(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}

function short(cid: string): string {
  return `${cid.slice(0, 10)}…${cid.slice(-4)}`;
}
