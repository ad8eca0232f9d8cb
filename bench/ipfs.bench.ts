/** CIDs next to the library's and to digests alone; the embedded node next to a real Kubo. */
import { hash, randomBytes } from 'node:crypto';
import { importByteStream } from 'ipfs-unixfs-importer';
import { interleave, peer, secondsOf, type Bench, type Figure, figureOf, MiB } from './figure.ts';
import { embeddedNode, multipartForm, kuboNode } from './node-fixture.ts';
import { cpuMs } from './process-stats.ts';
import { sendAndCount, sendAndRead, type MadeBody } from './worker-fixture.ts';
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
    const cost = (kind: string) => async () => {
      const begun = cpuMs(pid);
      await sendAndRead(url, 'POST', `/${kind}`, {}, bodyOf(mebibytes));
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

/** The leaf of each run that has this number. */
function leaf(index: number): Buffer {
  leafBlock.writeUInt32LE(index, 0);
  return Buffer.from(leafBlock);
}

/** Makes a body of so many MiB. @param frame what surrounds all of them, and what precedes each */
function bodyOf(
  mebibytes: number,
  { head, tail, before = [] }: { head?: Buffer; tail?: Buffer; before?: readonly Uint8Array[] } = {},
): MadeBody {
  function* pieces(): Generator<Uint8Array> {
    if (head) yield head;
    for (let i = 0; i < mebibytes; i += 1) {
      if (before[i]) yield before[i] as Uint8Array;
      yield leaf(i);
    }
    if (tail) yield tail;
  }
  const parts = [head, tail, ...before];
  return { length: parts.reduce((sum, part) => sum + (part?.length ?? 0), mebibytes * MiB), pieces: pieces() };
}

/** Makes the bytes that precede each leaf in a CAR. */
function carSections(mebibytes: number): Uint8Array[] {
  return Array.from({ length: mebibytes }, (_, index) =>
    carSection(cidOf('raw', hash('sha256', leaf(index), 'buffer')), MiB),
  );
}

/** Speeds of a node: a file added and read, and as many leaves imported. */
async function speeds({ url, token }: { url: string; token: string }, mebibytes: number, before: Uint8Array[]) {
  const headers = { authorization: `Bearer ${token}` };
  const ofForm = { ...headers, 'content-type': multipartForm.type };
  const { head, tail } = multipartForm;
  const command = (path: string): Promise<number> => sendAndCount(url, 'POST', `/api/v0/${path}`, headers);
  const adding = '/api/v0/add?cid-version=1&raw-leaves=true&chunker=size-1048576&max-file-links=1024';
  const another = Buffer.concat([head, Buffer.from(String(Math.random()))]);
  let added = '';
  const add = await mebibytesPerSecond(mebibytes, async () => {
    added = await sendAndRead(url, 'POST', adding, ofForm, bodyOf(mebibytes, { head: another, tail }));
  });
  const { Hash } = JSON.parse(added.trim().split('\n').at(-1) ?? '') as { Hash: string };
  const cat = await mebibytesPerSecond(mebibytes, () => command(`cat?arg=${Hash}`));
  await command(`pin/rm?arg=${Hash}`);
  const importing = '/api/v0/dag/import?pin-roots=false&stats=true';
  const car = { head: Buffer.concat([head, carHeader()]), tail, before };
  const imported = await mebibytesPerSecond(mebibytes, () =>
    sendAndRead(url, 'POST', importing, ofForm, bodyOf(mebibytes, car)),
  );
  await command('repo/gc');
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
