/** CIDs next to the library's and to the digests alone, in Node and in workerd; the embedded node next to a real Kubo. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { importByteStream } from 'ipfs-unixfs-importer';
import { interleave, type Bench, type Figure, type Sample } from './figure.ts';
import { cpuMs } from './process-stats.ts';
import { kuboProgram, startKubo } from '../testkit/kubo.ts';
import { startModule } from '../testkit/workerd.ts';
import { cidBuilder } from '../shared/ipfs/index.ts';

const mebibyte = 2 ** 20;
const block = randomBytes(mebibyte);

export const bench: Bench = {
  name: 'ipfs',
  measures: 'computing CIDs in Node and workerd; the embedded node next to Kubo',
  run,
};

async function* run(): AsyncGenerator<Figure> {
  yield* inNode();
  yield* inWorkerd();
  yield* nodes();
}

const named = (name: string, { median, spread }: Sample) => ({ name, value: median, spread });

async function timed(mebibytes: number, work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await work();
  return mebibytes / ((performance.now() - begun) / 1000);
}

async function* inNode(): AsyncGenerator<Figure> {
  const mebibytes = 128;
  const { ours, library } = await interleave({
    ours: () =>
      timed(mebibytes, async () => {
        const builder = cidBuilder();
        for (let i = 0; i < mebibytes; i += 1) await builder.write(block);
        await builder.finish();
      }),
    library: () =>
      timed(mebibytes, () =>
        importByteStream(
          (async function* () {
            for (let i = 0; i < mebibytes; i += 1) yield block;
          })(),
          { put: async (cid: unknown) => cid } as never,
          { profile: 'unixfs-v1-2025' },
        ),
      ),
  });
  yield {
    figure: 'CID, Node',
    unit: 'MiB/s',
    value: ours.median,
    spread: ours.spread,
    peer: named('ipfs-unixfs-importer', library),
  };
}

async function* inWorkerd(): AsyncGenerator<Figure> {
  const mebibytes = 128;
  const { url, pid, close } = await startModule('bench/workers/ipfs-isolate.ts');
  try {
    const port = Number(new URL(url).port);
    const cost = (kind: string) => async () => {
      const begun = cpuMs(pid);
      await transfer(port, `/${kind}`, {}, mebibytes);
      return (cpuMs(pid) - begun) / mebibytes;
    };
    const { sealpin, library, digests } = await interleave({
      sealpin: cost('sealpin'),
      library: cost('library'),
      digests: cost('digests'),
    });
    yield {
      figure: 'CID, workerd, CPU',
      unit: 'ms/MiB',
      value: sealpin.median,
      spread: sealpin.spread,
      peer: named('reading and SHA-256 alone', digests),
      target: { value: { atMost: 2 } },
    };
    yield {
      figure: 'CID by ipfs-unixfs-importer, workerd, CPU',
      unit: 'ms/MiB',
      value: library.median,
      spread: library.spread,
      peer: named('reading and SHA-256 alone', digests),
    };
  } finally {
    await close();
  }
}

const agent = new Agent({ keepAlive: true });

/** Sends so many MiB and reads the response; resolves with the text of a short one. */
function transfer(
  port: number,
  path: string,
  headers: Record<string, string>,
  mebibytes: number,
  frame: { head: Buffer; tail: Buffer } = { head: Buffer.alloc(0), tail: Buffer.alloc(0) },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const length = frame.head.length + mebibytes * mebibyte + frame.tail.length;
    const sent = request(
      { port, host: '127.0.0.1', path, method: 'POST', agent, headers: { ...headers, 'content-length': length } },
      (response) => {
        let text = '';
        response.on(
          'data',
          (chunk: Buffer) => (text = text.length < 1000 ? text + chunk.toString('latin1', 0, 1000) : text),
        );
        response
          .on('end', () => (response.statusCode === 200 ? resolve(text) : reject(new Error(text))))
          .on('error', reject);
      },
    );
    sent.on('error', reject);
    void (async () => {
      sent.write(frame.head);
      for (let i = 0; i < mebibytes; i += 1) {
        block.writeUInt32LE(i, 0);
        if (!sent.write(Buffer.from(block))) await once(sent, 'drain');
      }
      sent.end(frame.tail);
    })();
  });
}

const child = `
  import { startNode } from ${JSON.stringify(new URL('../cli/local/node/server.ts', import.meta.url).pathname)};
  console.log((await startNode({ dir: process.argv[1], token: 't' })).url);
`;

/** Files of 256 MiB, each different: added, read, removed. */
async function* nodes(): AsyncGenerator<Figure> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-bench-'));
  const program = spawn(process.execPath, ['--input-type=module', '-e', child, '--', dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const kubo = kuboProgram() === undefined ? undefined : await startKubo();
  try {
    const [url] = (await once(createInterface(program.stdout), 'line')) as [string];
    const embedded = { url, token: 't' };
    const speeds = async ({ url, token }: { url: string; token: string }) => {
      const port = Number(new URL(url).port);
      const headers = { authorization: `Bearer ${token}` };
      const mebibytes = 256;
      const head = Buffer.from(
        `--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n${Math.random()}`,
      );
      let added = '';
      const add = await timed(mebibytes, async () => {
        added = await transfer(
          port,
          '/api/v0/add?cid-version=1&raw-leaves=true&chunker=size-1048576&max-file-links=1024',
          { ...headers, 'content-type': 'multipart/form-data; boundary=xyz' },
          mebibytes,
          { head, tail: Buffer.from('\r\n--xyz--\r\n') },
        );
      });
      const { Hash } = JSON.parse(added.trim().split('\n').at(-1) ?? '') as { Hash: string };
      const cat = await timed(mebibytes, () => transfer(port, `/api/v0/cat?arg=${Hash}`, headers, 0));
      await transfer(port, `/api/v0/pin/rm?arg=${Hash}`, headers, 0);
      return { add, cat };
    };
    // One run gives both figures: the second task hands over what the first has measured.
    const cats = { ours: 0, theirs: 0 };
    const tasks = {
      async add() {
        const { add, cat } = await speeds(embedded);
        cats.ours = cat;
        return add;
      },
      cat: async () => cats.ours,
      async kuboAdd() {
        if (!kubo) return 0;
        const { add, cat } = await speeds(kubo);
        cats.theirs = cat;
        return add;
      },
      kuboCat: async () => cats.theirs,
    };
    const { add, cat, kuboAdd, kuboCat } = await interleave(tasks, 3);
    const peer = (sample: Sample) => (kubo ? { peer: named('Kubo', sample) } : {});
    yield {
      figure: 'embedded node, add of 256 MiB',
      unit: 'MiB/s',
      value: add.median,
      spread: add.spread,
      ...peer(kuboAdd),
      target: { value: { atLeast: 300 } },
    };
    yield {
      figure: 'embedded node, cat of 256 MiB',
      unit: 'MiB/s',
      value: cat.median,
      spread: cat.spread,
      ...peer(kuboCat),
      target: { value: { atLeast: 400 } },
    };
  } finally {
    program.kill('SIGKILL');
    await kubo?.close();
    await rm(dir, { recursive: true, force: true });
  }
}
