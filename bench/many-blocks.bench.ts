/** The embedded node with many files and many blocks, next to a real Kubo: small files one by one, their removal, and a start. */
import { spawn, type ChildProcess } from 'node:child_process';
import { hash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { summarize, type Bench, type Figure } from './figure.ts';
import { kuboProgram, startKubo } from '../testkit/kubo.ts';
import { carHeader, carSection, cidOf } from '../shared/ipfs/index.ts';

const files = 5000;
const blocks = 100_000;

/** `npm run bench many-blocks`. */
export const bench: Bench = {
  name: 'many-blocks',
  measures: 'the embedded node next to Kubo: 5,000 small files, pin rm, a start with 100,000 blocks',
  run,
};

/** A node that can be started again with what it has. */
type Node = { start(): Promise<{ url: string; token: string }>; stop(): Promise<void>; remove(): Promise<void> };

type Measured = { added: number; removedMs: number; startSeconds: number };

async function* run(): AsyncGenerator<Figure> {
  const ours = await measured(await embedded());
  const theirs = kuboProgram() === undefined ? undefined : await measured(await kubo());
  const figure = (name: string, unit: string, value: (of: Measured) => number): Figure => ({
    figure: name,
    unit,
    value: value(ours),
    ...(theirs && { peer: { name: 'Kubo that syncs blocks', value: value(theirs) } }),
  });
  yield {
    ...figure(`${files} files of 4 KiB, added by 8 at a time`, 'a second', ({ added }) => added),
    target: { ratio: { atLeast: 1 } },
  };
  yield { ...figure('pin rm of one of them', 'ms', ({ removedMs }) => removedMs), target: { ratio: { atMost: 1 } } };
  yield {
    ...figure(`start with ${blocks} blocks`, 's', ({ startSeconds }) => startSeconds),
    target: { ratio: { atMost: 1 } },
  };
}

async function measured(node: Node): Promise<Measured> {
  try {
    let at = await node.start();
    const begun = performance.now();
    const cids: string[] = [];
    await inLanes(files, 8, async () => {
      const { Hash } = JSON.parse(await post(at, 'add?cid-version=1&raw-leaves=true', randomBytes(4096))) as {
        Hash: string;
      };
      cids.push(Hash);
    });
    const added = files / ((performance.now() - begun) / 1000);
    const removals: number[] = [];
    for (const cid of cids.slice(0, 50)) {
      const start = performance.now();
      await post(at, `pin/rm?arg=${cid}`);
      removals.push(performance.now() - start);
    }
    for (let done = 0; done < blocks; done += 10_000)
      await post(at, 'dag/import?pin-roots=false&stats=true', carOfSmallBlocks(10_000));
    await node.stop();
    const start = performance.now();
    at = await node.start();
    await post(at, 'version');
    return { added, removedMs: summarize(removals).median, startSeconds: (performance.now() - start) / 1000 };
  } finally {
    await node.remove();
  }
}

async function inLanes(count: number, lanes: number, work: () => Promise<void>): Promise<void> {
  let left = count;
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (left > 0) {
        left -= 1;
        await work();
      }
    }),
  );
}

function carOfSmallBlocks(count: number): Buffer {
  const sections = Array.from({ length: count }, () => {
    const block = randomBytes(64);
    return [carSection(cidOf('raw', hash('sha256', block, 'buffer')), block.length), block];
  });
  return Buffer.concat([carHeader(), ...sections.flat()]);
}

const agent = new Agent({ keepAlive: true });

/** Calls a command, with a file as its body; resolves with the text of the response. @throws when its status is not 200 */
function post({ url, token }: { url: string; token: string }, command: string, file?: Uint8Array): Promise<string> {
  const body =
    file &&
    Buffer.concat([
      Buffer.from('--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'),
      file,
      Buffer.from('\r\n--xyz--\r\n'),
    ]);
  const headers = {
    authorization: `Bearer ${token}`,
    ...(body && { 'content-type': 'multipart/form-data; boundary=xyz', 'content-length': body.length }),
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/api/v0/${command}`, { method: 'POST', agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(text));
      });
    });
    sent.on('error', reject).end(body);
  });
}

const program = `
  import { startNode } from ${JSON.stringify(new URL('../cli/local/node/server.ts', import.meta.url).pathname)};
  console.log((await startNode({ dir: process.argv[1], token: 't' })).url);
`;

async function embedded(): Promise<Node> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-bench-'));
  let child: ChildProcess | undefined;
  const stop = async (): Promise<void> => {
    if (child === undefined) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    child = undefined;
    await ended;
  };
  return {
    async start() {
      const started = spawn(process.execPath, ['--input-type=module', '-e', program, '--', dir], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      child = started;
      const [url] = (await once(createInterface(started.stdout), 'line')) as [string];
      return { url, token: 't' };
    },
    stop,
    async remove() {
      await stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function kubo(): Promise<Node> {
  const node = await startKubo({ syncs: true });
  let isNew = true;
  return {
    async start() {
      if (!isNew) await node.start();
      isNew = false;
      return node;
    },
    stop: () => node.stop(),
    remove: () => node.close(),
  };
}
