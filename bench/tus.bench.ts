/** Uploads in several requests (tus) next to those in one; a client beside one that is slow. */
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { interleave, peer, secondsOf, summarize, type Bench, type Figure, figureOf, MiB } from './figure.ts';
import { embeddedNode } from './node-fixture.ts';
import { sendAndRead, sendFor, type MadeBody } from './worker-fixture.ts';
import { kuboProgram, startKubo } from '../testkit/programs/kubo.ts';
import { rpcToken, startService, type Service } from '../testkit/service.ts';

/** Of the file, and of each request of tus. */
const uploadBytes = 512 * MiB;
const requestBytes = 64 * MiB;

export const bench: Bench = {
  name: 'tus',
  measures: 'uploads of 512 MiB in several requests to those in one; another client beside a slow one',
  async *run() {
    yield* resumed();
    if (kuboProgram() !== undefined) yield* besideSlow();
  },
};

/** 512 MiB in requests of 64 MiB, and in one, with the node in a process of its own. */
async function* resumed(): AsyncGenerator<Figure> {
  const node = await embeddedNode();
  const { url, token } = await node.start();
  const service = await startService({
    node: { url, close: () => node.stop() },
    vars: { MAX_UPLOAD_BYTES: String(uploadBytes), KUBO_TOKEN: token },
  });
  try {
    const { apiKey } = await service.account();
    const headers = { Authorization: `Bearer ${apiKey}` };
    for (const mode of ['plain', 'encrypted']) {
      const timed = (store: (headers: Record<string, string>, mode: string) => Promise<string>) => async () => {
        let fileId = '';
        const seconds = await secondsOf(async () => (fileId = await store(headers, mode)));
        await sendAndRead(service.url, 'DELETE', `/v1/storage/${fileId}`, headers);
        return uploadBytes / MiB / seconds;
      };
      const { tus, post } = await interleave(
        { tus: timed((...o) => inRequests(service, ...o)), post: timed((...o) => inOne(service, ...o)) },
        2,
      );
      const about = { peer: peer('one POST', post), target: { ratio: { atLeast: 0.9 } } };
      yield figureOf(`tus, 512 MiB ${mode} in requests of 64 MiB`, 'MiB/s', tus, about);
    }
  } finally {
    await service.close();
    await node.remove();
  }
}

async function inOne(service: Service, headers: Record<string, string>, mode: string): Promise<string> {
  const about = { ...headers, 'Content-Disposition': 'attachment; filename=x', 'Content-Type': 'image/png' };
  const answer = await sendAndRead(service.url, 'POST', `/v1/storage/${mode}`, about, bodyOf(uploadBytes));
  return (JSON.parse(answer) as { fileId: string }).fileId;
}

async function inRequests({ url }: Service, headers: Record<string, string>, mode: string): Promise<string> {
  const tus = { ...headers, 'Tus-Resumable': '1.0.0' };
  const metadata = { 'Upload-Length': String(uploadBytes), 'Upload-Metadata': 'filename eA==,filetype aW1hZ2UvcG5n' };
  const { location = '' } = (await sendFor(url, 'POST', `/v1/uploads/${mode}`, { ...tus, ...metadata })).headers;
  let fileId: unknown;
  for (let offset = 0; offset < uploadBytes; offset += requestBytes) {
    const part = { ...tus, 'Upload-Offset': String(offset), 'Content-Type': 'application/offset+octet-stream' };
    ({ 'sealpin-file': fileId } = (await sendFor(url, 'PATCH', location, part, bodyOf(requestBytes))).headers);
  }
  // A file over 1 GiB is stored after the last response.
  for (let state = ''; state !== 'done'; await new Promise((resolve) => setTimeout(resolve, 20)))
    ({ state } = JSON.parse(await sendAndRead(url, 'GET', location, headers)) as { state: string });
  return String(fileId);
}

const block = randomBytes(MiB);
let leaves = 0;

/** Makes a body of so many bytes, in which no MiB is like another. */
function bodyOf(length: number): MadeBody {
  function* pieces(): Generator<Buffer> {
    for (let at = 0; at < length; at += MiB) {
      block.writeUInt32LE((leaves += 1), 0);
      yield Buffer.from(block);
    }
  }
  return { length, pieces: pieces() };
}

/** How long a client waits while another sends 20 kB a second and Kubo collects garbage. */
async function* besideSlow(): AsyncGenerator<Figure> {
  const kubo = await startKubo({ token: rpcToken });
  const service = await startService({ node: kubo });
  try {
    const { apiKey } = await service.account();
    const headers = { Authorization: `Bearer ${apiKey}` };
    const collect = async (): Promise<string> => {
      const response = await fetch(`${kubo.url}/api/v0/repo/gc`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${rpcToken}` },
      });
      return await response.text();
    };
    const times: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      const slow = trickle(service, headers);
      // Until a part is open at Kubo.
      await new Promise((resolve) => setTimeout(resolve, 1500));
      const collected = collect();
      const few = { method: 'POST', headers, body: `a${round}b` };
      times.push(1000 * (await secondsOf(() => fetch(`${service.url}/v1/storage/plain`, few))));
      await collected;
      slow.end();
    }
    const { high: value, spread } = summarize(times);
    const figure = '3 bytes beside a slow client and a collection, the slowest of 5';
    yield { figure, unit: 'ms', value, spread, target: { value: { atMost: 1000 } } };
  } finally {
    await service.close();
    await kubo.close();
  }
}

/** A client that sends a leaf and a half, and then 20 kB a second. */
function trickle({ url }: Service, headers: Record<string, string>): { end(): void } {
  const sent = request(`${url}/v1/storage/plain`, {
    method: 'POST',
    headers: { ...headers, 'Content-Length': 9 * MiB },
  });
  sent.on('error', () => undefined);
  sent.write(randomBytes(1.5 * MiB));
  const timer = setInterval(() => sent.write(randomBytes(2000)), 100);
  return {
    end() {
      clearInterval(timer);
      sent.destroy();
    },
  };
}
