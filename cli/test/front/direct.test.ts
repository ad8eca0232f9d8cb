import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, request, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { buffer, json } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { cidBuilder, fileFromCar } from '../../../shared/ipfs/index.ts';
import { handOver, type Direct } from '../../local/front/handover.ts';
import { RpcError } from '../../local/node/rpc.ts';
import { readState, localPaths } from '../../local/state.ts';
import { temporaryDirectory } from '../environment.ts';
import { api, ask as askApi, here, remove, startHere, type RunningHere } from '../local/harness.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { flip, itemOf, present } from '../../../testkit/present.ts';

let service: RunningHere;
beforeAll(async () => {
  service = await startHere();
});
afterAll(() => remove(service));

const largeBytes = 3 * 2 ** 20 + 5;
const large = (): Buffer<ArrayBuffer> => randomBytes(largeBytes);

type Answer = { status: number | undefined; body: Record<string, unknown> };

/** A request on a connection of its own, whose first bytes decide where it goes. */
function ask(path: string, o: { method?: string; headers?: Record<string, string>; key?: string } = {}): ClientRequest {
  return request(service.url + path, {
    method: o.method ?? 'POST',
    agent: false,
    headers: { authorization: `Bearer ${o.key ?? service.apiKey}`, ...o.headers },
  });
}

function begin(o: { query?: string; headers?: Record<string, string>; key?: string } = {}): ClientRequest {
  const headers = { 'content-type': 'application/octet-stream', 'content-length': String(largeBytes), ...o.headers };
  return ask(`/v1/storage/plain${o.query ?? ''}`, { ...o, headers });
}

async function answered(sent: ClientRequest): Promise<Answer> {
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode, body: (await json(response)) as Record<string, unknown> };
}

function store(bytes: Uint8Array, o?: Parameters<typeof begin>[0]): Promise<Answer> {
  const sent = begin(o);
  const answer = answered(sent);
  sent.end(bytes);
  return answer;
}

/** Begins an upload and sends half of it, which the service is seen to take. */
async function half(bytes: Uint8Array, o?: Parameters<typeof begin>[0]): Promise<ClientRequest> {
  const before = await filesOnDisk();
  const sent = begin(o);
  sent.write(bytes.subarray(0, largeBytes / 2));
  await expect.poll(async () => (await filesOnDisk()).length).toBe(before.length + 1);
  return sent;
}

async function cidOf(bytes: Uint8Array): Promise<string> {
  const builder = cidBuilder();
  await builder.write(bytes);
  return (await builder.finish()).cid;
}

const filesOnDisk = (): Promise<string[]> => readdir(join(localPaths(service.dataDir).ipfs, 'data'));
const idsOf = async (cid: string): Promise<string[]> => {
  const { files } = await api(service).listFiles({ cid });
  return files.map(({ fileId }) => fileId);
};
const removeFile = (id: unknown) => askApi(service, 'deleteFile', { fileId: String(id) });

async function read(id: unknown): Promise<Buffer> {
  return await api(service).getFileContent({ fileId: String(id) });
}

const newKey = () => api(service).withKey(['write']);

// A test that fails must not make the others fail.
afterEach(async () => {
  const { files } = await api(service).listFiles();
  for (const { fileId } of files) await removeFile(fileId);
});

describe('a large upload', () => {
  test('goes to the disk as it is, past the runtime, and comes back the same', async () => {
    const bytes = large();
    const cid = await cidOf(bytes);
    const { status, body } = await store(bytes, { query: `?cid=${cid}` });
    expect({ status, body }).toMatchObject({
      status: 201,
      body: { cid, size: largeBytes, pins: [{ status: 'pinned' }] },
    });
    const [name, ...others] = await filesOnDisk();
    expect(others).toEqual([]);
    // What the runtime passes on arrives as a CAR.
    expect(await readFile(join(localPaths(service.dataDir).ipfs, 'data', present(name)))).toEqual(bytes);
    expect(await read(body['fileId'])).toEqual(bytes);
  });

  test('whose digest is another one is refused', async () => {
    const answer = await store(large(), { headers: { 'repr-digest': `sha-256=:${'A'.repeat(43)}=:` } });
    expect(answer).toMatchObject({ status: 422, body: { code: 'digest_mismatch' } });
  });

  test('with headers that only this process may send is stored without them', async () => {
    const answer = await store(large(), { headers: { 'sealpin-handover': 'x', 'sealpin-length': '7' } });
    expect(answer).toMatchObject({ status: 201, body: { size: largeBytes } });
  });

  test('with another CID than was announced is not stored', async () => {
    const bytes = large();
    const answer = await store(bytes, { query: `?cid=${await cidOf(large())}` });
    expect(answer).toMatchObject({ status: 422, body: { code: 'cid_mismatch' } });
    expect(await idsOf(await cidOf(bytes))).toEqual([]);
  });

  test('that is refused is refused before a byte is asked for', async () => {
    const key = await newKey();
    await askApi(service, 'revokeKey', { id: key.id });
    const sent = begin({ key: key.apiKey, headers: { expect: '100-continue' } });
    let isAsked = false;
    sent.on('continue', () => (isAsked = true)).flushHeaders();
    expect(await answered(sent)).toMatchObject({ status: 401 });
    expect(isAsked).toBe(false);
    sent.destroy();
  });

  test('whose key is revoked meanwhile is not stored', async () => {
    const bytes = large();
    const key = await newKey();
    const sent = await half(bytes, { key: key.apiKey });
    const answer = answered(sent);
    expect((await askApi(service, 'revokeKey', { id: key.id })).status).toBe(200);
    sent.end(bytes.subarray(largeBytes / 2));
    expect((await answer).status).toBe(401);
    expect(await idsOf(await cidOf(bytes))).toEqual([]);
  });

  test('whose client leaves halfway leaves nothing', async () => {
    const before = await filesOnDisk();
    const sent = await half(large());
    sent.on('error', () => undefined).destroy();
    await expect.poll(filesOnDisk).toEqual(before);
  });

  inCi('of bytes that are stored already is a file of its own', async () => {
    const bytes = large();
    const first = await store(bytes);
    const second = await store(bytes);
    await removeFile(first.body['fileId']);
    expect(await read(second.body['fileId'])).toEqual(bytes);
  });

  inCi('stays whole when the same bytes are deleted while it arrives', async () => {
    const bytes = large();
    const first = await store(bytes);
    const sent = await half(bytes);
    const answer = answered(sent);
    await removeFile(first.body['fileId']);
    sent.end(bytes.subarray(largeBytes / 2));
    const { status, body } = await answer;
    expect(status).toBe(201);
    expect(await read(body['fileId'])).toEqual(bytes);
  });
});

test('a file is read past the runtime, whole and in part, and small requests go on beside it', async () => {
  const bytes = large();
  const { body } = await store(bytes);
  const cid = String(body['cid']);
  const car = async (query: string): Promise<Buffer> => {
    const sent = ask(`/ipfs/${cid}?format=car&${query}`, { method: 'GET' }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    expect(response.headers).not.toHaveProperty('sealpin-place');
    expect(response.headers['content-type']).toBe('application/vnd.ipld.car; version=1; order=dfs; dups=y');
    return await buffer(response);
  };
  const whole = await car('dag-scope=entity');
  expect(await buffer(fileFromCar(cid, new Blob([new Uint8Array(whole)]).stream()))).toEqual(bytes);
  const direct = await car('dag-scope=entity&entity-bytes=1048576:1048576');
  // On a connection that did not begin so, the runtime answers.
  await (await fetch(`${service.url}/v1/health`)).arrayBuffer();
  const passed = await fetch(`${service.url}/ipfs/${cid}?format=car&dag-scope=entity&entity-bytes=1048576:1048576`);
  expect(direct.equals(Buffer.from(await passed.arrayBuffer()))).toBe(true);
  await removeFile(body['fileId']);
  const gone = ask(`/ipfs/${cid}?format=car`, { method: 'GET' }).end();
  expect(itemOf((await once(gone, 'response')) as [IncomingMessage], 0).statusCode).toBe(404);
});

inCi('the command line stores a large file, and reads it back', async () => {
  const directory = await temporaryDirectory();
  const [plain, back] = [join(directory, 'plain'), join(directory, 'back')];
  await writeFile(plain, randomBytes(33 * 2 ** 20));
  const flags = [`--data-dir=${service.dataDir}`];
  const secret = { SEALPIN_PASSWORD: 'correct horse battery staple' };
  const stored = await here(['encrypt', plain, ...flags], secret);
  expect(stored).toMatchObject({ code: 0 });
  expect((await filesOnDisk()).filter((name) => name.endsWith('.car'))).toEqual([]);
  expect(await here(['decrypt', stored.stdout.trim(), back, ...flags], secret)).toMatchObject({ code: 0 });
  expect((await readFile(back)).equals(await readFile(plain))).toBe(true);
});

test('a block that is damaged on the disk is not opened, and no file appears', async () => {
  const directory = await temporaryDirectory();
  const [plain, back] = [join(directory, 'plain'), join(directory, 'back')];
  await writeFile(plain, randomBytes(3 * 2 ** 20));
  const flags = [`--data-dir=${service.dataDir}`];
  const secret = { SEALPIN_PASSWORD: 'correct horse battery staple' };
  const before = new Set(await filesOnDisk());
  const stored = await here(['encrypt', plain, ...flags], secret);
  const name = present((await filesOnDisk()).find((each) => !before.has(each)));
  const path = join(localPaths(service.dataDir).ipfs, 'data', name);
  const bytes = await readFile(path);
  flip(bytes, 2 * 2 ** 20);
  await writeFile(path, bytes);
  expect(await here(['decrypt', stored.stdout.trim(), back, ...flags], secret)).toMatchObject({ code: 5 });
  expect(await readdir(directory)).toEqual(['plain']);
});

test('a connection that begins in pieces, or with nothing, is served', async () => {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1');
  for (const piece of [
    'GE',
    'T /ipf',
    's/bafkqaaa?format=raw HTTP/1.1\r\nHost: ',
    `${new URL(service.url).host}\r\n`,
  ]) {
    socket.write(piece);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  socket.write('Connection: close\r\n\r\n');
  expect((await buffer(socket)).toString('latin1')).toMatch(/^HTTP\/1\.1 200 /);
});

test('a runtime that is killed while bytes arrive stores nothing, and the next upload is stored', async () => {
  const bytes = large();
  const sent = await half(bytes);
  const failed = once(sent, 'response').then(
    ([response]) => (response as IncomingMessage).statusCode,
    () => 503,
  );
  const { workerd } = present(await readState(service.dataDir, 'run'));
  process.kill(itemOf(workerd, 0).pid, 'SIGKILL');
  expect(await failed).toBe(503);
  sent.destroy();
  await expect.poll(async () => (await store(bytes).catch(() => undefined))?.status).toBe(201);
  expect(await idsOf(await cidOf(bytes))).toHaveLength(1);
});

test('an upload that fails after its last byte is reported as failed, with the reason', async () => {
  const full = {
    async receive(pieces: AsyncIterable<Uint8Array>): Promise<never> {
      for await (const piece of pieces) expect(piece.length).toBeGreaterThan(0);
      throw new RpcError('no space left on device');
    },
  } as unknown as Direct;
  const runtime = createServer((asked, response) => void buffer(asked).then((report) => response.end(report)));
  const front = createServer((asked, response) => {
    const { port } = present(runtime.address()) as { port: number };
    const upstream = request({ port, method: 'POST', headers: { 'transfer-encoding': 'chunked' } });
    upstream.on('error', () => response.destroy()).on('response', (answer) => answer.pipe(response));
    void handOver(asked, upstream, full, () => undefined);
  });
  for (const server of [runtime, front]) {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => void server.close());
  }
  const { port } = present(front.address()) as { port: number };
  const sent = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body: large() });
  expect(await sent.json()).toEqual({ failed: expect.stringContaining('no space left on device') as string });
});
