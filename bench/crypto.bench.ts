/** The container formats beside what else does the same: in Node, in workerd and in Chromium. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { build } from 'esbuild';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { chromium } from 'playwright-core';
import { interleave, type Bench, type Figure, type Sample } from './figure.ts';
import { nodeBackend } from '../cli/keys/node-backend.ts';
import { sealpinV1 } from '../shared/crypto/formats/sealpin-v1.ts';
import { passwordRecipient, type PasswordKdf } from '../shared/crypto/index.ts';
import { pathOf } from '../testkit/programs.ts';
import type { Kind } from './workers/crypto-isolate.ts';
import { totalMebibytes, type Task } from './crypto-task.ts';

const mebibyte = 2 ** 20;

export const bench: Bench = { name: 'crypto', run };

async function* run(): AsyncGenerator<Figure> {
  yield* inNode();
  yield* passwords();
  yield* inWorkerd();
  yield* inChromium();
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

async function* inNode(): AsyncGenerator<Figure> {
  for (const { format, cipher, chunkBytes, peer } of [
    { format: 'sealpin', cipher: 'aes-256-gcm', chunkBytes: 16_384, peer: 'openpgp' },
    { format: 'age', cipher: 'chacha20-poly1305', chunkBytes: 65_536, peer: 'typage' },
  ] as const) {
    const least = format === 'sealpin' ? { value: { atLeast: 700 }, ratio: { atLeast: 3 } } : { ratio: { atLeast: 6 } };
    for (const direction of ['encrypt', 'decrypt'] as const) {
      const runners = [format, peer, cipher].map((name) => runner({ name, direction, chunkBytes }));
      try {
        const [mine, theirs, alone] = runners.map(({ run }) => speed(totalMebibytes, run));
        const results = await interleave({ ours: mine!, peer: theirs!, alone: alone! }, 5);
        const name = `${format} container, Node, ${totalMebibytes} MiB, ${direction}`;
        yield figure(name, results.ours, peer, results.peer, least);
        yield figure(name, results.ours, `node:crypto alone, ${chunkBytes / 1024} KiB`, results.alone);
      } finally {
        await Promise.all(runners.map(({ end }) => end()));
      }
    }
    yield* opensslSpeed(cipher, chunkBytes);
  }
}

/** A thread with a heap of its own, so that nobody collects the garbage of another one. */
function runner(task: Task): { run(): Promise<void>; end(): Promise<number> } {
  const worker = new Worker(new URL('./crypto-thread.ts', import.meta.url), { workerData: task });
  return {
    async run() {
      worker.postMessage('run');
      const [failure] = (await once(worker, 'message')) as [string | undefined];
      if (failure !== undefined) throw new Error(`${task.name}: ${failure}`);
    },
    end: () => worker.terminate(),
  };
}

/** What the openssl program says of its own cipher, for scale. */
function* opensslSpeed(cipher: string, chunkBytes: number): Generator<Figure> {
  const { status, stdout } = spawnSync(
    'openssl',
    ['speed', '-mr', '-elapsed', '-seconds', '1', '-bytes', String(chunkBytes), '-evp', cipher],
    { encoding: 'utf8' },
  );
  const rate = /\+F:\d+:[^:]+:([\d.]+)/.exec(stdout ?? '')?.[1];
  if (status === 0 && rate !== undefined)
    yield {
      figure: `openssl speed ${cipher}, ${chunkBytes / 1024} KiB`,
      unit: 'MiB/s',
      value: Number(rate) / mebibyte,
    };
}

/** How long a password keeps everything else waiting. */
async function* passwords(): AsyncGenerator<Figure> {
  const kdfs: [string, PasswordKdf][] = [
    ['scrypt, logN 18', { name: 'scrypt' }],
    ['PBKDF2, 1,000,000 rounds', { name: 'pbkdf2-sha512' }],
  ];
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
      await passwordRecipient('correct horse battery staple', kdf).wrap(new Uint8Array(32), sealpinV1, nodeBackend);
    } finally {
      clearInterval(timer);
    }
    const took = performance.now() - begun;
    yield {
      figure: `longest stop while a password is derived: ${name}`,
      unit: 'ms',
      value: longest,
      peer: { name: 'the derivation', value: took },
      target: { value: { atMost: 100 } },
    };
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
    const results = await interleave(
      { ours: speed(isolateMebibytes, () => work(kind.ours)), peer: speed(isolateMebibytes, () => work(kind.peer)) },
      3,
    );
    yield figure(`${kind.ours}, ${where}, ${isolateMebibytes} MiB`, results.ours, kind.peer, results.peer);
  }
}

async function bundleIsolate(format: 'esm' | 'iife'): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, 'workers/crypto-isolate.ts')],
    bundle: true,
    format,
    target: 'es2024',
    write: false,
  });
  return outputFiles[0]!.text;
}

async function* inWorkerd(): AsyncGenerator<Figure> {
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: await bundleIsolate('esm'),
      compatibilityDate: '2026-11-01',
      port: 0,
      cf: false,
    }),
  );
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
    response
      .setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
      .end(isScript ? script : '<script src="/isolate.js"></script>');
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const browser = await chromium.launch({
    executablePath,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
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
