/** The container formats beside what else does the same: in Node, in workerd and in Chromium. */
import { spawnSync } from 'node:child_process';
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Decrypter, Encrypter } from 'age-encryption';
import { build } from 'esbuild';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import * as openpgp from 'openpgp';
import { chromium } from 'playwright-core';
import { interleave, type Bench, type Figure, type Sample } from '../../cli/bench/figure.ts';
import { nodeBackend } from '../../cli/crypto.ts';
import { encrypt, generateKeyPair, open, parseIdentities, parseRecipients, passwordRecipient, type Format, type PasswordKdf } from '../crypto/index.ts';
import { pathOf } from '../test/crypto/programs.ts';
import type { Kind } from './isolate.ts';

const mebibyte = 2 ** 20;
const totalMebibytes = 256;
/** What is decrypted is held in memory, which costs collecting garbage: a smaller container, several times over. */
const heldMebibytes = 32;
const block = new Uint8Array(randomBytes(mebibyte));

export const bench: Bench = { name: 'crypto', run };

async function* run(): AsyncGenerator<Figure> {
  yield* inNode();
  yield* passwords();
  yield* inWorkerd();
  yield* inChromium();
}

function source(parts: readonly Uint8Array[] | number): ReadableStream<Uint8Array> {
  const count = typeof parts === 'number' ? parts : parts.length;
  let index = 0;
  return new ReadableStream({
    pull(controller) {
      const piece = typeof parts === 'number' ? block : parts[index];
      if (index === count || piece === undefined) controller.close();
      // None of the measured readers changes what it is given, so that nothing is copied here.
      else controller.enqueue(piece);
      index += 1;
    },
  });
}

async function drain(stream: ReadableStream<Uint8Array>): Promise<void> {
  const reader = stream.getReader();
  while (!(await reader.read()).done);
}

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array[]> {
  const parts: Uint8Array[] = [];
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) parts.push(next.value);
  return parts;
}

/** MiB a second of a piece of work. */
const speed = (mebibytes: number, work: () => unknown) => async (): Promise<number> => {
  const begun = performance.now();
  await work();
  return mebibytes / ((performance.now() - begun) / 1000);
};

const figure = (name: string, ours: Sample, peerName: string, peer: Sample, target?: Figure['target']): Figure => ({
  figure: name,
  unit: 'MiB/s',
  value: ours.median,
  spread: ours.spread,
  peer: { name: peerName, value: peer.median, spread: peer.spread },
  ...(target === undefined ? {} : { target }),
});

/** As often as makes the total. */
async function repeated(decrypt: () => Promise<void>): Promise<void> {
  for (let done = 0; done < totalMebibytes; done += heldMebibytes) await decrypt();
}

/** Ours, on `node:crypto`. */
function ours(format: Format, pair: { recipient: string; privatePem: string }) {
  return {
    encrypt: async (mebibytes: number) => (await encrypt(source(mebibytes), { format, recipients: parseRecipients(pair.recipient), backend: nodeBackend })).stream,
    async decrypt(container: ReadableStream<Uint8Array>) {
      const opened = await open(container, { backend: nodeBackend });
      if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
      await drain(await opened.decrypt(parseIdentities(pair.privatePem)));
    },
  };
}

/** The cipher of node:crypto on the same chunks, with nothing around it. */
function cipherAlone(name: 'aes-256-gcm' | 'chacha20-poly1305', chunkBytes: number, direction: 'encrypt' | 'decrypt'): void {
  const key = createSecretKey(block.subarray(0, 32));
  const nonce = block.subarray(32, 44);
  // Node's types name the method of GCM ciphers alone, which ChaCha20-Poly1305 shares.
  const cipher = name as 'aes-256-gcm';
  for (let index = 0; index < totalMebibytes; index += 1) {
    for (let at = 0; at < mebibyte; at += chunkBytes) {
      const chunk = block.subarray(at, at + chunkBytes);
      if (direction === 'encrypt') {
        const sealing = createCipheriv(cipher, key, nonce, { authTagLength: 16 });
        sealing.update(chunk);
        sealing.final();
        sealing.getAuthTag();
      } else createDecipheriv(cipher, key, nonce, { authTagLength: 16 }).update(chunk);
    }
  }
}

async function* inNode(): AsyncGenerator<Figure> {
  const pair = await generateKeyPair(nodeBackend);
  for (const { format, cipher, chunkBytes, peer } of [
    { format: 'sealpin', cipher: 'aes-256-gcm', chunkBytes: 16_384, peer: openPgp() },
    { format: 'age', cipher: 'chacha20-poly1305', chunkBytes: 65_536, peer: await typage(pair) },
  ] as const) {
    const mine = ours(format, pair);
    const container = await collect(await mine.encrypt(heldMebibytes));
    const theirs = await collect(await peer.encrypt(source(heldMebibytes)));
    const least = format === 'sealpin' ? { value: { atLeast: 700 }, ratio: { atLeast: 3 } } : { ratio: { atLeast: 6 } };
    for (const direction of ['encrypt', 'decrypt'] as const) {
      const results = await interleave(
        {
          ours: speed(totalMebibytes, async () => (direction === 'encrypt' ? drain(await mine.encrypt(totalMebibytes)) : repeated(() => mine.decrypt(source(container))))),
          peer: speed(totalMebibytes, async () => (direction === 'encrypt' ? drain(await peer.encrypt(source(totalMebibytes))) : repeated(() => peer.decrypt(source(theirs))))),
          alone: speed(totalMebibytes, () => cipherAlone(cipher, chunkBytes, direction)),
        },
        3,
      );
      const name = `${format} container, Node, ${totalMebibytes} MiB, ${direction}`;
      yield figure(name, results.ours, peer.name, results.peer, least);
      yield figure(name, results.ours, `node:crypto alone, ${chunkBytes / 1024} KiB`, results.alone);
    }
    yield* opensslSpeed(cipher, chunkBytes);
  }
}

/** age in TypeScript, to the same kind of key; it has no P-256 identity, so that it opens with an X25519 one. */
async function typage({ recipient }: { recipient: string }) {
  const { generateX25519Identity, identityToRecipient } = await import('age-encryption');
  const identity = await generateX25519Identity();
  return {
    name: 'typage',
    async encrypt(plaintext: ReadableStream<Uint8Array>): Promise<ReadableStream<Uint8Array>> {
      const encrypter = new Encrypter();
      encrypter.addRecipient(recipient);
      encrypter.addRecipient(await identityToRecipient(identity));
      return encrypter.encrypt(plaintext);
    },
    async decrypt(container: ReadableStream<Uint8Array>): Promise<void> {
      const decrypter = new Decrypter();
      decrypter.addIdentity(identity);
      await drain(await decrypter.decrypt(container));
    },
  };
}

/** OpenPGP.js with AES-256 in its default AEAD mode, under a session key, so that no password is derived. */
function openPgp() {
  const sessionKey = { data: randomBytes(32), algorithm: 'aes256' as const, aeadAlgorithm: 'gcm' as const };
  return {
    name: 'openpgp',
    async encrypt(plaintext: ReadableStream<Uint8Array>): Promise<ReadableStream<Uint8Array>> {
      const message = await openpgp.createMessage({ binary: plaintext });
      return openpgp.encrypt({ message, sessionKey, passwords: 'x', format: 'binary', config: { s2kIterationCountByte: 0, preferredAEADAlgorithm: openpgp.enums.aead.gcm, aeadProtect: true } });
    },
    async decrypt(container: ReadableStream<Uint8Array>): Promise<void> {
      const message = await openpgp.readMessage({ binaryMessage: container });
      const { data } = await openpgp.decrypt({ message, sessionKeys: [sessionKey], format: 'binary', config: { allowUnauthenticatedStream: true } });
      await drain(data);
    },
  };
}

/** What the openssl program says of its own cipher, for scale. */
function* opensslSpeed(cipher: string, chunkBytes: number): Generator<Figure> {
  const { status, stdout } = spawnSync('openssl', ['speed', '-mr', '-elapsed', '-seconds', '1', '-bytes', String(chunkBytes), '-evp', cipher], { encoding: 'utf8' });
  const rate = /\+F:\d+:[^:]+:([\d.]+)/.exec(stdout ?? '')?.[1];
  if (status === 0 && rate !== undefined) yield { figure: `openssl speed ${cipher}, ${chunkBytes / 1024} KiB`, unit: 'MiB/s', value: Number(rate) / mebibyte };
}

/** How long a password keeps everything else waiting. */
async function* passwords(): AsyncGenerator<Figure> {
  const kdfs: [string, PasswordKdf][] = [['scrypt, logN 18', { name: 'scrypt' }], ['PBKDF2, 1,000,000 rounds', { name: 'pbkdf2-sha512' }]];
  for (const [name, kdf] of kdfs) {
    let longest = 0;
    let last = performance.now();
    const tick = (): void => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    };
    const timer = setInterval(tick, 5);
    const begun = performance.now();
    try {
      await passwordRecipient('correct horse battery staple', kdf).wrap(new Uint8Array(32), 'sealpin', nodeBackend);
    } finally {
      clearInterval(timer);
    }
    const took = performance.now() - begun;
    yield { figure: `longest stop while a password is derived: ${name}`, unit: 'ms', value: longest, peer: { name: 'the derivation', value: took }, target: { value: { atMost: 100 } } };
  }
}

const isolateKinds = [
  { ours: 'sealpin', peer: 'noble AES-256-GCM' },
  { ours: 'open sealpin', peer: 'noble AES-256-GCM' },
  { ours: 'age', peer: 'noble ChaCha20-Poly1305' },
  { ours: 'open age', peer: 'noble ChaCha20-Poly1305' },
] as const;
const isolateMebibytes = 32;

async function* measured(where: string, work: (kind: Kind) => Promise<unknown>): AsyncGenerator<Figure> {
  for (const kind of isolateKinds) {
    const results = await interleave({ ours: speed(isolateMebibytes, () => work(kind.ours)), peer: speed(isolateMebibytes, () => work(kind.peer)) }, 3);
    yield figure(`${kind.ours}, ${where}, ${isolateMebibytes} MiB`, results.ours, kind.peer, results.peer);
  }
}

async function bundleIsolate(format: 'esm' | 'iife'): Promise<string> {
  const { outputFiles } = await build({ entryPoints: [join(import.meta.dirname, 'isolate.ts')], bundle: true, format, target: 'es2024', write: false });
  return outputFiles[0]!.text;
}

async function* inWorkerd(): AsyncGenerator<Figure> {
  const miniflare = new Miniflare(convertV4MiniflareOptions({ modules: true, script: await bundleIsolate('esm'), compatibilityDate: '2026-11-01', port: 0, cf: false }));
  try {
    const url = await miniflare.ready;
    yield* measured('workerd', async (kind) => {
      const answer = await fetch(new URL(`/?mebibytes=${isolateMebibytes}&kind=${encodeURIComponent(kind)}`, url));
      if ((await answer.text()) !== 'done') throw new Error(`${kind} fails in workerd`);
    });
  } finally {
    await miniflare.dispose();
  }
}

async function* inChromium(): AsyncGenerator<Figure> {
  const executablePath = pathOf('chromium');
  if (executablePath === undefined) return;
  const script = await bundleIsolate('iife');
  const server = createServer((request, response) => {
    const isScript = request.url === '/isolate.js';
    response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html').end(isScript ? script : '<script src="/isolate.js"></script>');
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const browser = await chromium.launch({ executablePath, args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
  try {
    const page = await browser.newPage();
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the server has no port');
    await page.goto(`http://127.0.0.1:${address.port}/`);
    yield* measured('Chromium', (kind) => page.evaluate(`work(${JSON.stringify(kind)}, ${isolateMebibytes})`));
  } finally {
    await browser.close();
    server.close();
  }
}
