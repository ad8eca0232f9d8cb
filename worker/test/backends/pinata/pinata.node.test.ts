/**
 * The adapter for Pinata before a server that its OpenAPI documents make up; with a key in the
 * environment, before Pinata itself.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { cidBuilder, type BlockSource } from '../../../../shared/ipfs/index.ts';
import { SealpinError } from '../../../../shared/errors.ts';
import { hasTusd, noTusd } from '../../../../testkit/programs/tusd.ts';
import type { SourceFile } from '../../../backends/contract.ts';
import { pinata, type PinataOptions } from '../../../backends/pinata/pinata.ts';
import documents from '../documented/pinata.json' with { type: 'json' };
import { startPinata, type PinataServer } from '../documented/pinata-server.ts';
import { fake } from '../runtimes.ts';
import { hostedContract, type HonestService } from '../hosted-suite.ts';
import { configuredBackends } from '../../../backends/backend-types.ts';
import { SourceError } from '../../../backends/source-error.ts';
import { first, present } from '../../../../testkit/present.ts';
import { long } from '../../../../testkit/long-run.ts';

const { signal } = new AbortController();

/** A file in memory. */
async function offer(bytes: Buffer): Promise<SourceFile> {
  const blocks = new Map<string, Uint8Array>();
  let at = 0;
  const builder = cidBuilder({
    onLeaf: (cid, length) => void blocks.set(cid, new Uint8Array(bytes.subarray(at, (at += length)))),
    onNode: (cid, block) => void blocks.set(cid, block),
  });
  await builder.write(new Uint8Array(bytes));
  const { cid } = await builder.finish();
  const source: BlockSource = {
    id: 'memory',
    async block(wanted) {
      const block = blocks.get(wanted);
      if (block === undefined) throw new SealpinError('pinning_lost', wanted);
      return block.slice();
    },
  };
  return { cid, sources: [source], onMismatch: () => undefined };
}

const optionsOf = ({ url, uploads, token }: PinataServer): PinataOptions => ({
  id: 'tested',
  url,
  uploads,
  pinName: 'sealpin:tested',
  fetch,
  seenMs: 10,
  pieceBytes: 600_000,
  headers: { authorization: `Bearer ${token}` },
});

async function honest(): Promise<HonestService> {
  const server = await startPinata();
  return {
    as: (pinName) => pinata({ ...optionsOf(server), pinName }),
    offer,
    names: async (cid) =>
      server.files.filter(({ name }) => name.endsWith(cid)).map(({ name }) => name.replace(`:${cid}`, '')),
    async close() {
      await server.close();
      expect(server.problems).toEqual([]);
    },
  };
}

function beyondTheContract(): void {
  let server: PinataServer;
  beforeAll(async () => {
    server = await startPinata();
  });
  afterAll(() => server.close());

  test('a CAR of which something else was made is deleted, and the pin has failed', async () => {
    const file = await offer(randomBytes(1000));
    server.cidOf = () => 'bafkqaaa';
    onTestFinished(() => void (server.cidOf = (root) => root));
    const hosted = pinata(optionsOf(server));
    await expect
      .poll(() => hosted.hold(file, signal).catch((error: SealpinError) => error.message))
      .toBe(`tested: it made bafkqaaa of a CAR of ${file.cid}`);
    expect(server.files).toEqual([]);
  });

  test('one that is still without CID is pending, is not sent again, and is deleted with the file', async () => {
    const file = await offer(randomBytes(1000));
    server.cidOf = () => undefined;
    onTestFinished(() => void (server.cidOf = (root) => root));
    const hosted = pinata(optionsOf(server));
    for (let asked = 0; asked < 6; asked += 1) expect(await hosted.hold(file, signal)).toBe('pending');
    expect(await hosted.stat(file.cid, signal)).toBe('pending');
    expect(server.files).toHaveLength(1);
    expect(await hosted.unpin(file.cid, signal)).toBe('removed');
    expect(server.files).toEqual([]);
  });

  test('files of one name are all deleted, also where the list has several pages and forgets late', async () => {
    const file = await offer(randomBytes(1000));
    let left = Array.from({ length: 25 }, (_, n) => ({
      id: `f${n}`,
      name: `sealpin:tested:${file.cid}`,
      cid: file.cid,
    }));
    const { url, close } = await fake((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://pinata');
      const id = pathname.split('/').at(-1);
      if (request.method === 'DELETE') setTimeout(() => (left = left.filter((each) => each.id !== id)), 30);
      const files = searchParams.has('cidPending') ? [] : left.slice(0, 10);
      response.end(JSON.stringify({ data: { files, next_page_token: 'next' } }));
    });
    onTestFinished(close);
    const hosted = pinata({ ...optionsOf(server), url, seenMs: 100 });
    expect(await hosted.unpin(file.cid, signal)).toBe('removed');
    expect(left).toEqual([]);
    expect(await hosted.unpin(file.cid, signal)).toBe('absent');
  });

  test('a wrong token is a wrong configuration', async () => {
    const hosted = pinata({ ...optionsOf(server), headers: { authorization: 'Bearer wrong' } });
    await expect(hosted.ping(signal)).rejects.toMatchObject({ code: 'misconfigured' });
    await expect(hosted.hold(await offer(randomBytes(9)), signal)).rejects.toMatchObject({ code: 'misconfigured' });
  });

  test.each([0, 3])('a source that fails after %i blocks is its own fault, and leaves no file behind', async (most) => {
    const file = await offer(randomBytes(3_000_000));
    const [memory] = file.sources;
    let blocks = 0;
    const source: BlockSource = {
      id: 'a',
      async block(cid, stop) {
        blocks += 1;
        if (blocks > most) throw new SealpinError('pinning_unavailable', 'gone');
        return await present(memory).block(cid, stop);
      },
    };
    const held = pinata(optionsOf(server)).hold({ ...file, sources: [source] }, signal);
    const thrown: unknown = await held.catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(SourceError);
    expect(thrown).toMatchObject({ code: 'pinning_unavailable', message: expect.stringContaining('gone') as string });
    expect(server.files.filter(({ name }) => name.endsWith(file.cid))).toEqual([]);
  });
}

test.each<[string, number, string, string]>([
  ['no plan', 402, '', 'disk_full'],
  ['too often', 429, '', 'pinning_unavailable'],
  ['a page', 200, '<html>', 'pinning_failed'],
  ['a list of another shape', 200, '{"data":{"files":{}}}', 'pinning_failed'],
  ['a file without id', 200, '{"data":{"files":[{"cid":"bafkqaaa"}]}}', 'pinning_failed'],
  ['another API', 404, '', 'misconfigured'],
])('an API that answers %s', async (_, status, body, code) => {
  const { url, close } = await fake((_request, response) => void response.writeHead(status).end(body));
  onTestFinished(close);
  const hosted = pinata({ id: 'tested', url, uploads: url, pinName: 'p', fetch, headers: {} });
  await expect(hosted.stat('bafkqaaa', signal)).rejects.toMatchObject({ code });
});

test('the addresses are those of the documents', async () => {
  const asked: string[] = [];
  const fetcher = (async (address: string) => {
    asked.push(new URL(address).origin + new URL(address).pathname);
    return Response.json({ data: { files: [] } });
  }) as unknown as typeof fetch;
  const [, service] = configuredBackends(
    JSON.stringify([
      { id: 'a', type: 'kubo', url: 'https://kubo.example.com' },
      { id: 'p', type: 'pinata', tokenSecret: 'T' },
    ]),
    'BACKENDS',
    { secretOf: () => 'jwt', bindingOf: () => undefined, serviceId: 'x', fetch: fetcher },
  );
  await present(service).ping(signal);
  expect(asked).toEqual([`${first(documents.api.servers).url}/files/public`]);
});

if (!hasTusd()) test.skip(noTusd);
else {
  describe('a server of the documents', () => hostedContract(honest));
  describe('a server of the documents', beyondTheContract);
}

const { PINATA_JWT } = process.env;
if (PINATA_JWT === undefined || PINATA_JWT === '') test.skip('Pinata itself: PINATA_JWT is not set');
else {
  test('Pinata itself takes a file, shows it, and deletes it', { timeout: 600_000 }, async () => {
    const headers = { authorization: `Bearer ${PINATA_JWT}` };
    const [url, uploads] = [first(documents.api.servers).url, first(documents.uploads.servers).url];
    const pinName = `sealpin:test-${Date.now()}`;
    const hosted = pinata({ id: 'pinata', url, uploads, pinName, fetch, headers });
    const file = await offer(randomBytes(long ? 120_000_000 : 1_500_000));
    await expect.poll(() => hosted.hold(file, signal), { timeout: 500_000, interval: 5000 }).toBe('held');
    expect(await hosted.unpin(file.cid, signal)).toBe('removed');
  });
}
