/** Files at each kind of backend, through the service: throughput, and memory of uploads. */
import { randomBytes } from 'node:crypto';
import { interleave, peer, secondsOf, type Bench, type Figure, figureOf, MiB } from './figure.ts';
import { embeddedNode, kuboNode } from './node-fixture.ts';
import { sendAndCount, sendAndRead } from './worker-fixture.ts';
import { hasVersitygw, startVersitygw } from '../testkit/object-stores/versitygw.ts';
import { kuboProgram } from '../testkit/programs/kubo.ts';
import { startService, type Service } from '../testkit/service.ts';

/** `npm run bench stores`. */
export const bench: Bench = {
  name: 'stores',
  measures: 'files at Kubo, at the embedded node, in R2 of Miniflare and at versitygw, through the service',
  run: throughput,
};

const body = randomBytes(90 * MiB);

/** A service with one backend. */
export type AtBackend = { service: Service; close(): Promise<void> };

/** A service whose files are at versitygw, a process of its own. */
export async function atVersitygw(): Promise<AtBackend> {
  const gateway = await startVersitygw();
  const { url, bucket, region, keyId, secret } = gateway;
  const entry = { id: 's3', type: 's3', url, bucket, region, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
  const vars = { BACKENDS: JSON.stringify([entry]), S3_KEY: keyId, S3_SECRET: secret };
  return await withBackend(vars, () => gateway.close());
}

async function withBackend(vars: Record<string, string>, after: () => Promise<void>): Promise<AtBackend> {
  const service = await startService({ vars });
  return { service, close: () => service.close().then(after) };
}

async function atNode(node: Awaited<ReturnType<typeof kuboNode>>): Promise<AtBackend> {
  const { url, token } = await node.start();
  const entry = { id: 'node', type: 'kubo', url, tokenSecret: 'KUBO_TOKEN' };
  return await withBackend({ BACKENDS: JSON.stringify([entry]), KUBO_TOKEN: token }, () => node.remove());
}

async function* throughput(): AsyncGenerator<Figure> {
  const inR2 = [{ id: 'r2', type: 'r2', binding: 'BUCKET' }];
  const started = {
    embedded: await atNode(await embeddedNode()),
    r2: await withBackend({ BACKENDS: JSON.stringify(inR2) }, async () => undefined),
    ...(kuboProgram() !== undefined && { kubo: await atNode(await kuboNode()) }),
    ...(hasVersitygw() && { versitygw: await atVersitygw() }),
  };
  const all: Partial<Record<Kind, AtBackend>> = started;
  try {
    const tasks: Partial<Record<Kind, () => ReturnType<typeof speeds>>> = {};
    for (const [kind, { service }] of Object.entries(all) as [Kind, AtBackend][]) {
      const { apiKey } = await service.account();
      tasks[kind] = () => speeds(service, { Authorization: `Bearer ${apiKey}` });
    }
    const samples = await interleave(tasks, 3);
    const { kubo, ...others } = samples;
    for (const what of ['stored', 'read'] as const)
      for (const [kind, own] of Object.entries(others))
        yield figureOf(`${names[kind as Kind]}, 90 MiB ${what}`, 'MiB/s', own[what], {
          peer: kubo && peer('Kubo', kubo[what]),
        });
  } finally {
    for (const { close } of Object.values(all)) await close();
  }
}

type Kind = keyof typeof names;
const names = { embedded: 'embedded node', r2: 'R2 in Miniflare', kubo: 'Kubo', versitygw: 'versitygw' };

/** Stores, reads and deletes a file that is like none before, in MiB/s. */
async function speeds({ url }: Service, headers: Record<string, string>): Promise<{ stored: number; read: number }> {
  // Another byte in each leaf.
  for (let at = 0; at < body.length; at += MiB) randomBytes(8).copy(body, at);
  const rate = async (work: () => Promise<unknown>): Promise<number> => body.length / MiB / (await secondsOf(work));
  const type = { ...headers, 'Content-Type': 'image/png' };
  let answer = '';
  const stored = await rate(async () => (answer = await sendAndRead(url, 'POST', '/v1/storage/plain', type, body)));
  const path = `/v1/storage/${(JSON.parse(answer) as { fileId: string }).fileId}`;
  let bytes = 0;
  const read = await rate(async () => (bytes = await sendAndCount(url, 'GET', `${path}/content`, headers)));
  if (bytes !== body.length) throw new Error(`${path}: ${bytes} bytes`);
  await sendAndRead(url, 'DELETE', path, headers);
  return { stored, read };
}
