/** Bytes that the listener of a local service reads itself, and connections that it follows. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, readlink, writeFile } from 'node:fs/promises';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { NewlyStoredFile } from '../../../shared/api.ts';
import { carReader } from '../../../shared/ipfs/index.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { first, flip, itemOf, present } from '../../../testkit/present.ts';
import { readState, localPaths } from '../../local/state.ts';
import { api, ask, remove, startHere, type RunningHere } from '../local/harness.ts';

let service: RunningHere;
beforeAll(async () => {
  service = await startHere();
});
afterAll(() => remove(service));

const MiB = 2 ** 20;
/** More than the buffers of the sockets between. */
const largeBytes = 24 * MiB + 5;
const dataDir = (): string => join(localPaths(service.dataDir).ipfs, 'data');

type Stored = { bytes: Buffer; fileId: string; cid: string; content: string; gateway: string; file: string };

async function stored(bytes = randomBytes(largeBytes)): Promise<Stored> {
  const before = new Set(await readdir(dataDir()));
  const headers = { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/octet-stream' };
  const response = await fetch(`${service.url}/v1/storage/plain`, { method: 'POST', headers, body: bytes });
  const { fileId, cid } = (await response.json()) as NewlyStoredFile;
  const name = present((await readdir(dataDir())).find((each) => !before.has(each)));
  const paths = { content: `/v1/storage/${fileId}/content`, gateway: `/ipfs/${cid}`, file: join(dataDir(), name) };
  return { bytes, fileId, cid, ...paths };
}

async function get(path: string, headers: Record<string, string> = {}, agent?: Agent): Promise<IncomingMessage> {
  const authorization = `Bearer ${service.apiKey}`;
  const sent = request(service.url + path, { headers: { authorization, ...headers }, agent: agent ?? false }).end();
  return first((await once(sent, 'response')) as [IncomingMessage]);
}

const ways = ['content', 'gateway'] as const;

/** Data files of the node that this process has open. */
async function openFiles(): Promise<number> {
  const links = (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ''));
  return (await Promise.all(links)).filter((path) => path.startsWith(`${dataDir()}/`)).length;
}

test.each(ci ? ways : ways.slice(0, 1))('a download by its %s outlives the runtime', async (way) => {
  const file = await stored();
  const response = await get(file[way]);
  expect(response.statusCode).toBe(200);
  expect(response.headers).toMatchObject({ 'content-length': String(largeBytes), 'content-encoding': 'identity' });
  expect(response.headers).not.toHaveProperty('sealpin-place');
  const { workerd } = present(await readState(service.dataDir, 'run'));
  process.kill(itemOf(workerd, 0).pid, 'SIGKILL');
  expect((await buffer(response)).equals(file.bytes)).toBe(true);
  await expect.poll(async () => (await get('/v1/health').catch(() => undefined))?.statusCode).toBe(200);
});

inCi('a part of a file begins and ends within blocks', async () => {
  const { bytes, content } = await stored();
  for (const [from, to] of [
    [MiB - 3, 2 * MiB + 7],
    [0, 0],
    [largeBytes - 1, largeBytes - 1],
  ] as const) {
    const response = await get(content, { range: `bytes=${from}-${to}` });
    expect(response.statusCode).toBe(206);
    expect(response.headers['content-range']).toBe(`bytes ${from}-${to}/${largeBytes}`);
    expect((await buffer(response)).equals(bytes.subarray(from, to + 1))).toBe(true);
  }
});

/** Headers of a request, by the entity tag; the status, and the bytes that it gets, as a slice. */
const asking: Record<string, [headers: (etag: string) => Record<string, string>, status: number, ...slice: number[]]> =
  {
    'the last bytes': [() => ({ range: 'bytes=-7' }), 206, -7],
    'what is behind the end': [() => ({ range: `bytes=${MiB - 1}-${9 * MiB}` }), 206, MiB - 1],
    'several ranges': [() => ({ range: 'bytes=0-1,5-6' }), 200, 0],
    'a range of these very bytes': [(etag) => ({ range: 'bytes=1-8', 'if-range': etag }), 206, 1, 9],
    'a range of other bytes': [() => ({ range: 'bytes=1-8', 'if-range': '"other"' }), 200, 0],
    'a range in another unit': [() => ({ range: 'blocks=1-8' }), 200, 0],
    'what it has already': [(etag) => ({ range: 'bytes=1-8', 'if-none-match': etag }), 304, 0, 0],
  };
test.each(Object.entries(asking))('a request for %s gets as much of a file', async (_, [headers, status, ...slice]) => {
  const file = await stored(randomBytes(2 * MiB + 5));
  for (const path of [file.content, file.gateway]) {
    const whole = await get(path);
    await buffer(whole);
    const response = await get(path, headers(present(whole.headers.etag)));
    expect(response.statusCode).toBe(status);
    expect((await buffer(response)).equals(file.bytes.subarray(...slice))).toBe(true);
  }
});

test.each([
  ['the whole file', '', 0, 3],
  ['the bytes that are asked for', `&entity-bytes=${MiB + 3}:${MiB + 9}`, 1, 2],
])('a CAR has the blocks of %s', async (_, query, from, to) => {
  const { bytes, gateway } = await stored(randomBytes(2 * MiB + 5));
  const response = await get(`${gateway}?format=car${query}`);
  const car = carReader(Readable.toWeb(response) as ReadableStream<Uint8Array>);
  await car.header();
  const blocks: Uint8Array[] = [];
  for (let next = await car.next(); next !== undefined; next = await car.next()) blocks.push(next.bytes.slice());
  // The root comes first.
  expect(Buffer.concat(blocks.slice(1)).equals(bytes.subarray(from * MiB, to * MiB))).toBe(true);
});

inCi('a client that stops reading holds the file, and leaves nothing open', async () => {
  const { content } = await stored();
  const response = await get(content);
  await expect.poll(openFiles).toBe(1);
  response.destroy();
  await expect.poll(openFiles).toBe(0);
});

test('a file that is deleted while it is read breaks off', async () => {
  const { fileId, content } = await stored();
  const response = await get(content);
  expect((await ask(service, 'deleteFile', { fileId })).status).toBe(200);
  await expect(buffer(response)).rejects.toThrow('aborted');
  expect((await get(content)).statusCode).toBe(404);
});

test.each(ci ? ways : ways.slice(1))('a damaged block of a %s is not sent, nor anything behind it', async (way) => {
  const file = await stored();
  const damaged = await readFile(file.file);
  flip(damaged, 20 * MiB + 1);
  await writeFile(file.file, damaged);
  const response = await get(file[way]);
  const pieces: Buffer[] = [];
  response.on('data', (piece: Buffer) => pieces.push(piece));
  await expect(once(response, 'end')).rejects.toThrow('aborted');
  expect(Buffer.concat(pieces).equals(file.bytes.subarray(0, 20 * MiB))).toBe(true);
  // It is checked, without a request that asks for it.
  await expect
    .poll(async () => JSON.parse(String(await buffer(await get(`/v1/storage/${file.fileId}?data=false`)))) as object)
    .toMatchObject({ pins: [{ status: 'lost' }] });
  const behind = await get(file[way], { range: `bytes=${20 * MiB}-` });
  expect(behind.statusCode).toBe(502);
  expect(JSON.parse(String(await buffer(behind)))).toMatchObject({ code: 'content_mismatch' });
});

/** Writes to a new connection, and reads it to its end. */
async function exchanged(write: (socket: Socket) => Promise<void> | void): Promise<string> {
  const { port } = new URL(service.url);
  const socket = connect(Number(port), '127.0.0.1');
  const answer = buffer(socket);
  await write(socket);
  return (await answer).toString('latin1');
}
const head = (line: string, ...more: string[]): string =>
  [
    `${line} HTTP/1.1`,
    `Host: ${new URL(service.url).host}`,
    `Authorization: Bearer ${service.apiKey}`,
    ...more,
    '',
    '',
  ].join('\r\n');
const statusesIn = (text: string): string[] => text.match(/HTTP\/1\.1 [0-9]{3}/g) ?? [];

test('requests on one connection are answered in their order, also where they do not wait', async () => {
  const { gateway, content, bytes } = await stored(randomBytes(5));
  const asked = [
    head('GET /v1/health'),
    head(`GET ${content}`),
    head('GET /v1/health'),
    head(`GET ${gateway}`, 'Connection: close'),
  ];
  const text = await exchanged((socket) => void socket.write(asked.join('')));
  expect(statusesIn(text)).toHaveLength(4);
  expect(text.endsWith(bytes.toString('latin1'))).toBe(true);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (const path of ['/v1/health', content, '/v1/health', gateway, '/v1/storage', content]) {
    const response = await get(path, {}, agent);
    expect(response.statusCode).toBe(200);
    await buffer(response);
  }
  agent.destroy();
});

test.each([
  [
    'a length',
    (body: string) => head('POST /v1/storage/plain', `Content-Length: ${body.length}`, 'Connection: close') + body,
  ],
  [
    'chunks',
    (body: string) =>
      head('POST /v1/storage/plain', 'Transfer-Encoding: chunked', 'Connection: close') +
      `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
  ],
])('a body with %s that looks like a request is a body', async (_, sent) => {
  const body = head('GET /ipfs/bafkqaaa?format=raw');
  const text = sent(body);
  const answer = await exchanged(async (socket) => {
    const at = text.indexOf(body);
    socket.write(text.slice(0, at));
    await new Promise((resolve) => setTimeout(resolve, 20));
    socket.write(text.slice(at));
  });
  expect(statusesIn(answer)).toEqual(['HTTP/1.1 201']);
  const { fileId } = JSON.parse(answer.slice(answer.indexOf('{'))) as NewlyStoredFile;
  expect(String(await api(service).getFileContent({ fileId }))).toBe(body);
});

test.each([
  ['two lengths', 'Content-Length: 5\r\nContent-Length: 5'],
  ['lines of their own kind', 'Content-Length: 5\nX: y'],
  ['no end', 'X: y'.repeat(20_000)],
])('a head with %s is left to the runtime', async (_, lines) => {
  const answer = await exchanged(
    (socket) => void socket.end(`${head('POST /v1/storage/plain', lines).slice(0, -4)}\r\n\r\nhello`),
  );
  expect(statusesIn(answer)).toHaveLength(1);
});
