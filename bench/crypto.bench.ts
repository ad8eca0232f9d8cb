/** The container formats next to other implementations, in Node, workerd and Chromium. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { interleave, secondsOf, type Bench, type Figure, type Sample, figureOf, peer, MiB } from './figure.ts';
import { bundle } from '../cli/local/code/bundle.ts';
import { nodeProvider } from '../cli/keys/node-provider.ts';
import { sealpinV1 } from '../shared/crypto/formats/sealpin-v1.ts';
import { passwordRecipient, type PasswordKdf } from '../shared/crypto/index.ts';
import { launchChromium } from '../testkit/browsers/chromium.ts';
import { startLoopbackServer } from '../testkit/loopback-server.ts';
import { programPath } from '../testkit/programs/programs.ts';
import { startModule } from '../testkit/workerd.ts';
import type { WorkKind } from './workers/crypto-isolate.ts';

/** MiB of one run of a thread. */
const totalMebibytes = 256;

/** Work of a thread. `name`: one of our formats, a peer, or a bare cipher of node:crypto. */
export type Task = {
  name: 'sealpin' | 'age' | 'openpgp' | 'typage' | 'aes-256-gcm' | 'chacha20-poly1305';
  direction: 'encrypt' | 'decrypt';
  chunkBytes: number;
};

/** `npm run bench crypto`. */
export const bench: Bench = {
  name: 'crypto',
  measures: 'container formats in Node, workerd and Chromium; passwords',
  async *run() {
    yield* inNode();
    yield* passwords();
    yield* inWorkerd();
    yield* inChromium();
  },
};

/** A task that resolves with the MiB per second of some work. */
const speed = (mebibytes: number, work: () => unknown) => async (): Promise<number> =>
  mebibytes / (await secondsOf(work));

const figure = (name: string, ours: Sample, peerName: string, theirs: Sample, target?: Figure['target']): Figure =>
  figureOf(name, 'MiB/s', ours, { peer: peer(peerName, theirs), target });

async function* inNode(): AsyncGenerator<Figure> {
  for (const { format, cipher, chunkBytes, peer } of [
    { format: 'sealpin', cipher: 'aes-256-gcm', chunkBytes: 16_384, peer: 'openpgp' },
    { format: 'age', cipher: 'chacha20-poly1305', chunkBytes: 65_536, peer: 'typage' },
  ] as const) {
    const [ofPeer, ofCipher] =
      format === 'sealpin' ? [undefined, { ratio: { atLeast: 0.9 } }] : [{ ratio: { atLeast: 6 } }, undefined];
    for (const direction of ['encrypt', 'decrypt'] as const) {
      const [own, theirs, bare] = [
        runner({ name: format, direction, chunkBytes }),
        runner({ name: peer, direction, chunkBytes }),
        runner({ name: cipher, direction, chunkBytes }),
      ];
      try {
        const results = await interleave(
          {
            ours: speed(totalMebibytes, own.run),
            peer: speed(totalMebibytes, theirs.run),
            alone: speed(totalMebibytes, bare.run),
          },
          2,
        );
        const name = `${format} container, Node, ${totalMebibytes} MiB, ${direction}`;
        yield figure(name, results.ours, peer, results.peer, ofPeer);
        yield figure(name, results.ours, `node:crypto alone, ${chunkBytes / 1024} KiB`, results.alone, ofCipher);
      } finally {
        await Promise.all([own.end(), theirs.end(), bare.end()]);
      }
    }
    yield* opensslSpeed(cipher, chunkBytes);
  }
}

/** A thread with a heap of its own, so that none collects the garbage of another. */
function runner(task: Task): { run(): Promise<void>; end(): Promise<number> } {
  const worker = new Worker(new URL('./crypto-thread.ts', import.meta.url), {
    workerData: { ...task, totalMebibytes },
  });
  return {
    async run() {
      worker.postMessage('run');
      const [failure] = (await once(worker, 'message')) as [string | undefined];
      if (failure !== undefined) throw new Error(`${task.name}: ${failure}`);
    },
    end: () => worker.terminate(),
  };
}

/** Yields what the openssl program reports of its own cipher, for scale. */
function* opensslSpeed(cipher: string, chunkBytes: number): Generator<Figure> {
  const { status, stdout } = spawnSync(
    'openssl',
    ['speed', '-mr', '-elapsed', '-seconds', '1', '-bytes', String(chunkBytes), '-evp', cipher],
    { encoding: 'utf8' },
  );
  const rate = /\+F:\d+:[^:]+:([\d.]+)/.exec(stdout ?? '')?.[1];
  if (status === 0 && rate !== undefined)
    yield { figure: `openssl speed ${cipher}, ${chunkBytes / 1024} KiB`, unit: 'MiB/s', value: Number(rate) / MiB };
}

/** Measures how long deriving a password blocks everything else. */
async function* passwords(): AsyncGenerator<Figure> {
  const kdfs: [string, PasswordKdf][] = [
    ['scrypt, logN 18', { name: 'scrypt' }],
    ['PBKDF2, 1,000,000 rounds', { name: 'pbkdf2-sha512' }],
  ];
  for (const [name, kdf] of kdfs) {
    let longest = 0;
    let last = performance.now();
    const measure = (): void => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    };
    const timer = setInterval(measure, 5);
    const recipient = passwordRecipient('correct horse battery staple', kdf);
    const seconds = await secondsOf(() => recipient.wrap(new Uint8Array(32), sealpinV1, nodeProvider)).finally(() =>
      clearInterval(timer),
    );
    yield {
      figure: `longest block while a password is derived: ${name}`,
      unit: 'ms',
      value: longest,
      peer: { name: 'the derivation', value: 1000 * seconds },
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

async function* measured(where: string, work: (kind: WorkKind) => Promise<unknown>): AsyncGenerator<Figure> {
  for (const kind of isolateKinds) {
    const results = await interleave(
      { ours: speed(isolateMebibytes, () => work(kind.ours)), peer: speed(isolateMebibytes, () => work(kind.peer)) },
      2,
    );
    yield figure(`${kind.ours}, ${where}, ${isolateMebibytes} MiB`, results.ours, kind.peer, results.peer);
  }
}

const isolate = 'bench/workers/crypto-isolate.ts';

async function* inWorkerd(): AsyncGenerator<Figure> {
  const { url, close } = await startModule(isolate);
  try {
    yield* measured('workerd', async (kind) => {
      const response = await fetch(new URL(`/?mebibytes=${isolateMebibytes}&kind=${encodeURIComponent(kind)}`, url));
      if ((await response.text()) !== 'done') throw new Error(`${kind} fails in workerd`);
    });
  } finally {
    await close();
  }
}

async function* inChromium(): AsyncGenerator<Figure> {
  if (programPath('chromium') === undefined) return;
  const script = await bundle(isolate, { format: 'iife' });
  const server = await startLoopbackServer((request, response) => {
    const isScript = request.url === '/isolate.js';
    response
      .setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
      .end(isScript ? script : '<script src="/isolate.js"></script>');
  });
  const browser = await launchChromium({ isWhole: true });
  try {
    const page = await browser.newPage();
    await page.goto(server.url);
    yield* measured('Chromium', (kind) => page.evaluate(`work(${JSON.stringify(kind)}, ${isolateMebibytes})`));
  } finally {
    await browser.close();
    await server.close();
  }
}
