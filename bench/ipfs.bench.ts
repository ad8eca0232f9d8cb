/** CIDs next to the library's and to digests alone; the embedded node next to a real Kubo. */
import { hash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { importByteStream } from 'ipfs-unixfs-importer';
import { interleave, peer, secondsOf, type Bench, type Figure, figureOf, MiB } from './figure.ts';
import { embeddedNode, multipartForm, kuboNode } from './node-fixture.ts';
import { cpuMs } from './process-stats.ts';
import { kuboProgram } from '../testkit/programs/kubo.ts';
import { startModule } from '../testkit/workerd.ts';
import { carHeader, carSection, cidBuilder, cidOf } from '../shared/ipfs/index.ts';

const leafBlock = randomBytes(MiB);

/** `npm run bench ipfs`. */
export const bench: Bench = {
  name: 'ipfs',
  measures: 'computing CIDs in Node and workerd; the embedded node next to Kubo',
  async *run() {
    yield* inNode();
    yield* inWorkerd();
    yield* nodes();
  },
};

async function mebibytesPerSecond(mebibytes: number, work: () => Promise<unknown>): Promise<number> {
  return mebibytes / (await secondsOf(work));
}

async function* inNode(): AsyncGenerator<Figure> {
  const mebibytes = 128;
  const { ours, library } = await interleave({
    ours: () =>
      mebibytesPerSecond(mebibytes, async () => {
        const builder = cidBuilder();
        for (let i = 0; i < mebibytes; i += 1) await builder.write(leafBlock);
        await builder.finish();
      }),
    library: () =>
      mebibytesPerSecond(mebibytes, () =>
        importByteStream(
          (async function* () {
            for (let i = 0; i < mebibytes; i += 1) yield leafBlock;
          })(),
          { put: async (cid: unknown) => cid } as never,
          { profile: 'unixfs-v1-2025' },
        ),
      ),
  });
  yield figureOf('CID, Node', 'MiB/s', ours, { peer: peer('ipfs-unixfs-importer', library) });
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
    const alone = peer('reading and SHA-256 alone', digests);
    yield figureOf('CID, workerd, CPU', 'ms/MiB', sealpin, { peer: alone, target: { value: { atMost: 2 } } });
    yield figureOf('CID by ipfs-unixfs-importer, workerd, CPU', 'ms/MiB', library, { peer: alone });
  } finally {
    await close();
  }
}

const agent = new Agent({ keepAlive: true });

/** The leaf of each run that has this number. */
function leaf(index: number): Buffer {
  leafBlock.writeUInt32LE(index, 0);
  return Buffer.from(leafBlock);
}

type Frame = { head: Buffer; tail: Buffer; before?: readonly Uint8Array[] };

/**
 * Sends so many MiB; resolves with the text of a short response.
 * @param frame.before what precedes each MiB
 */
function transfer(
  port: number,
  path: string,
  headers: Record<string, string>,
  mebibytes: number,
  { head, tail, before = [] }: Frame = { head: Buffer.alloc(0), tail: Buffer.alloc(0) },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const between = before.reduce((sum, bytes) => sum + bytes.length, 0);
    const length = head.length + between + mebibytes * MiB + tail.length;
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
      sent.write(head);
      for (let i = 0; i < mebibytes; i += 1) {
        const prefix = before[i];
        if (prefix) sent.write(prefix);
        if (!sent.write(leaf(i))) await once(sent, 'drain');
      }
      sent.end(tail);
    })();
  });
}

/** Makes the bytes that precede each leaf in a CAR. */
function carSections(mebibytes: number): Uint8Array[] {
  return Array.from({ length: mebibytes }, (_, index) =>
    carSection(cidOf('raw', hash('sha256', leaf(index), 'buffer')), MiB),
  );
}

/** Speeds of a node: a file added and read, and as many leaves imported. */
async function speeds({ url, token }: { url: string; token: string }, mebibytes: number, before: Uint8Array[]) {
  const port = Number(new URL(url).port);
  const headers = { authorization: `Bearer ${token}` };
  const head = Buffer.concat([multipartForm.head, Buffer.from(String(Math.random()))]);
  let added = '';
  const add = await mebibytesPerSecond(mebibytes, async () => {
    added = await transfer(
      port,
      '/api/v0/add?cid-version=1&raw-leaves=true&chunker=size-1048576&max-file-links=1024',
      { ...headers, 'content-type': multipartForm.type },
      mebibytes,
      { head, tail: multipartForm.tail },
    );
  });
  const { Hash } = JSON.parse(added.trim().split('\n').at(-1) ?? '') as { Hash: string };
  const cat = await mebibytesPerSecond(mebibytes, () => transfer(port, `/api/v0/cat?arg=${Hash}`, headers, 0));
  await transfer(port, `/api/v0/pin/rm?arg=${Hash}`, headers, 0);
  const car = Buffer.concat([multipartForm.head, carHeader()]);
  const imported = await mebibytesPerSecond(mebibytes, () =>
    transfer(
      port,
      '/api/v0/dag/import?pin-roots=false&stats=true',
      { ...headers, 'content-type': multipartForm.type },
      mebibytes,
      { head: car, tail: multipartForm.tail, before },
    ),
  );
  await transfer(port, '/api/v0/repo/gc', headers, 0);
  return { add, cat, imported };
}

/** Files of 256 MiB, each different: added, read, removed; and as many leaves imported. */
async function* nodes(): AsyncGenerator<Figure> {
  const node = await embeddedNode();
  const peerNode = kuboProgram() === undefined ? undefined : await kuboNode();
  try {
    const embedded = await node.start();
    const kubo = await peerNode?.start();
    const mebibytes = 256;
    const before = carSections(mebibytes);
    const { ours, theirs } = await interleave(
      {
        ours: () => speeds(embedded, mebibytes, before),
        ...(kubo && { theirs: () => speeds(kubo, mebibytes, before) }),
      },
      3,
    );
    for (const [what, key, atLeast] of [
      ['add', 'add', 300],
      ['dag/import', 'imported', 300],
      ['cat', 'cat', 400],
    ] as const)
      yield figureOf(`embedded node, ${what} of 256 MiB`, 'MiB/s', ours[key], {
        peer: theirs && peer('Kubo', theirs[key]),
        target: { value: { atLeast } },
      });
  } finally {
    await node.remove();
    await peerNode?.remove();
  }
}
