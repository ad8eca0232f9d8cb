/** The embedded node with many files and blocks, next to a real Kubo. */
import { hash, randomBytes } from 'node:crypto';
import { inLanes, secondsOf, summarize, type Bench, type Figure, type Bound } from './figure.ts';
import { embeddedNode, multipartForm, kuboNode, type MeasuredNode } from './node-fixture.ts';
import { kuboProgram } from '../testkit/programs/kubo.ts';
import { carHeader, carSection, cidOf } from '../shared/ipfs/index.ts';
import { sendAndRead } from './worker-fixture.ts';

const fileCount = 5000;
const blocks = 100_000;

/** `npm run bench many-blocks`. */
export const bench: Bench = {
  name: 'many-blocks',
  measures: 'the embedded node next to Kubo: 5,000 small files, pin rm, a start with 100,000 blocks',
  async *run() {
    const ours = await measured(await embeddedNode());
    const theirs = kuboProgram() === undefined ? undefined : await measured(await kuboNode({ syncs: true }));
    const figure = (name: string, unit: string, of: keyof Measured, ratio: Bound): Figure => ({
      figure: name,
      unit,
      value: ours[of],
      peer: theirs && { name: 'Kubo that syncs blocks', value: theirs[of] },
      target: { ratio },
    });
    yield figure(`${fileCount} files of 4 KiB, added by 8 at a time`, 'a second', 'added', { atLeast: 1 });
    yield figure('pin rm of one of them', 'ms', 'removedMs', { atMost: 1 });
    yield figure(`start with ${blocks} blocks`, 's', 'startSeconds', { atMost: 1 });
  },
};

type Measured = { added: number; removedMs: number; startSeconds: number };

async function measured(node: MeasuredNode): Promise<Measured> {
  try {
    const at = await node.start();
    const cids: string[] = [];
    const adding = () =>
      inLanes(fileCount, 8, async () => {
        const { Hash } = JSON.parse(await post(at, 'add?cid-version=1&raw-leaves=true', randomBytes(4096))) as {
          Hash: string;
        };
        cids.push(Hash);
      });
    const added = fileCount / (await secondsOf(adding));
    const removals: number[] = [];
    for (const cid of cids.slice(0, 50)) removals.push(1000 * (await secondsOf(() => post(at, `pin/rm?arg=${cid}`))));
    for (let done = 0; done < blocks; done += 10_000)
      await post(at, 'dag/import?pin-roots=false&stats=true', carOfSmallBlocks(10_000));
    await node.stop();
    const startSeconds = await secondsOf(async () => post(await node.start(), 'version'));
    return { added, removedMs: summarize(removals).median, startSeconds };
  } finally {
    await node.remove();
  }
}

function carOfSmallBlocks(count: number): Buffer {
  const sections = Array.from({ length: count }, () => {
    const block = randomBytes(64);
    return [carSection(cidOf('raw', hash('sha256', block, 'buffer')), block.length), block];
  });
  return Buffer.concat([carHeader(), ...sections.flat()]);
}

/** Calls a command, with a file as its body; resolves with the text of the response. */
function post({ url, token }: { url: string; token: string }, command: string, file?: Uint8Array): Promise<string> {
  const body = file && Buffer.concat([multipartForm.head, file, multipartForm.tail]);
  const headers = { authorization: `Bearer ${token}`, ...(body && { 'content-type': multipartForm.type }) };
  return sendAndRead(url, 'POST', `/api/v0/${command}`, headers, body);
}
