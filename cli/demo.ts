/** The main job from start to end, as a person would do it, in a folder that is gone afterwards: `npm run demo`. */
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';

const entry = join(import.meta.dirname, 'index.ts');
const original = createRequire(import.meta.url).resolve('miniflare');
const password = 'correct horse battery staple and a demo';
const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => interrupted.abort());

type Ran = { stdout: string; stderr: string };

const dir = await mkdtemp(join(tmpdir(), 'sealpin-demo-'));
const service = spawn(process.execPath, [entry, 'start', '--port=0', '--json', `--data-dir=${dir}`], {
  stdio: ['ignore', 'pipe', 'pipe'],
});
const serviceEnded = new Promise<void>((resolve) => service.once('close', () => resolve()));

try {
  await demo();
  process.exitCode = 0;
} catch (error) {
  process.exitCode = interrupted.signal.aborted ? 130 : 1;
  console.log(
    interrupted.signal.aborted
      ? '\nInterrupted; cleaning up.'
      : `\n✗ ${error instanceof Error ? error.message : String(error)}`,
  );
} finally {
  service.kill('SIGTERM');
  await serviceEnded;
  await rm(dir, { recursive: true, force: true });
}
if (process.exitCode === 0)
  console.log('\nEverything is stopped and nothing is left behind. Start your own service with: ./sealpin start');

async function demo(): Promise<void> {
  const { size } = await stat(original);
  console.log(`Sealpin, on one real file: ${basename(original)} of miniflare, ${mib(size)}.\n`);

  let begun = performance.now();
  const { url, keyFile } = JSON.parse(await firstLine()) as { url: string; keyFile: string };
  say('start', `a Worker and an IPFS node, at ${url}, ready after ${seconds(begun)}`);

  const alice = await keys('Alice');
  const bob = await keys('Bob');

  const blobs = {
    encrypt: await store('encrypt', 'AES-256-GCM under a password', original),
    'chacha-encrypt': await store('chacha-encrypt', 'ChaCha20-Poly1305 under a password, an age file', original),
    'ecc-encrypt': await store('ecc-encrypt', 'for Alice and Bob, P-256', original, alice.public, bob.public),
  };

  for (const [made, reader, keys] of [
    ['encrypt', 'decrypt', []],
    ['chacha-encrypt', 'decrypt', []],
    ['ecc-encrypt', 'ecc-decrypt', [alice.private]],
    ['ecc-encrypt', 'ecc-decrypt', [bob.private]],
  ] as const) {
    begun = performance.now();
    const output = join(dir, `${made}-${keys[0] === undefined ? 'back' : basename(dirname(keys[0]))}`);
    await sealpin(reader, blobs[made], output, ...keys);
    await compare(output);
    say(
      reader,
      `${short(blobs[made])} ${keys[0] === undefined ? 'with the password' : `with the key of ${basename(dirname(keys[0]))}`}: restored byte for byte, ${seconds(begun)}`,
    );
  }

  const { apiKey } = JSON.parse(await readFile(keyFile, 'utf8')) as { apiKey: string };
  const api = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(url + path, {
      ...init,
      signal: interrupted.signal,
      headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${apiKey}` },
    });
  const data = await readFile(original);

  const sealed = await answer<{ fileId: string; cid: string }>(
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
  say('POST', `encrypted by the service, as raw bytes → file ${sealed.fileId}`);
  const plain = await answer<{ fileId: string; cid: string }>(
    await api('/v1/storage/plain', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ filename: basename(original), data: data.toString('base64') }),
    }),
    201,
  );
  say('POST', `plain, as JSON with base64 → blob ${short(plain.cid)}, which anybody can read`);

  const raw = await api(`/v1/storage/${sealed.fileId}`, { headers: { accept: 'application/octet-stream' } });
  same(Buffer.from(await raw.arrayBuffer()), data);
  say('GET', `the encrypted one as ${raw.headers.get('content-type')}: restored byte for byte`);
  const json = await answer<{ filename: string; data: string }>(await api(`/v1/storage/${plain.fileId}`), 200);
  same(Buffer.from(json.data, 'base64'), data);
  say('GET', `the plain one as JSON, ${json.filename}: restored byte for byte`);

  const receipt = await answer<{ key: string; pins: { service: string; status: string }[] }>(
    await api(`/v1/storage/${sealed.fileId}`, { method: 'DELETE' }),
    200,
  );
  say(
    'DELETE',
    `receipt: key ${receipt.key}, ${receipt.pins.map((pin) => `${pin.status} at ${pin.service}`).join(', ')}`,
  );
  const again = await api(`/v1/storage/${sealed.fileId}`);
  await again.body?.cancel();
  if (again.status !== 404) throw new Error(`a deleted file answers ${again.status}`);
  say('GET', 'the deleted one: 404');
}

/** Runs one command line to its end. Its password comes by the environment, where other users cannot read it. */
function sealpin(...args: string[]): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [entry, ...args, `--data-dir=${dir}`], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        ...(/^(encrypt|chacha-encrypt|decrypt)$/.test(args[0]!) ? { SEALPIN_PASSWORD: password } : {}),
      },
      signal: interrupted.signal,
      killSignal: 'SIGTERM',
    });
    const ran = { stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => (ran.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (ran.stderr += text));
    child.once('error', reject);
    child.once('close', (code) =>
      code === 0 ? resolve(ran) : reject(new Error(`sealpin ${args[0]} ended with ${code}\n${ran.stderr}`)),
    );
  });
}

async function keys(name: string): Promise<{ private: string; public: string }> {
  const folder = join(dir, name);
  const { stdout } = await sealpin('keygen', `--output=${folder}`);
  say('keygen', `${name} is ${stdout.slice(0, 20)}…`);
  return { private: join(folder, 'private.key'), public: join(folder, 'public.key') };
}

async function store(command: string, how: string, ...args: string[]): Promise<string> {
  const begun = performance.now();
  const { stdout } = await sealpin(command, ...args);
  const blob = stdout.trim();
  say(command, `${how}, ${seconds(begun)}\n${' '.repeat(17)}→ ${blob}`);
  return blob;
}

/** What the service prints when it is ready; its own error when it never is. */
function firstLine(): Promise<string> {
  return new Promise((resolve, reject) => {
    let stdout = '';
    let stderr = '';
    service.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    service.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (stdout.includes('\n')) resolve(stdout.slice(0, stdout.indexOf('\n')));
    });
    service.once('close', () => reject(new Error(`the service did not start\n${stderr}`)));
  });
}

async function answer<T>(response: Response, status: number): Promise<T> {
  const body: unknown = await response.json();
  if (response.status !== status) throw new Error(`the service answered ${response.status}: ${JSON.stringify(body)}`);
  return body as T;
}

async function compare(path: string): Promise<void> {
  same(await readFile(path), await readFile(original));
}

function same(got: Buffer, wanted: Buffer): void {
  if (!got.equals(wanted)) throw new Error('what came back is not what went in');
}

function say(step: string, text: string): void {
  console.log(`✓ ${step.padEnd(14)} ${text}`);
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
