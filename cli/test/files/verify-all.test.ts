/**
 * `sealpin verify --all` beside a service that fails in the middle: it says what, and where to
 * continue.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { SealpinError } from '../../../shared/errors.ts';
import { carHeader, carSection, cidOf, sha256 } from '../../../shared/ipfs/index.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { itemOf } from '../../../testkit/present.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { hostile, json, someApiKey, storedFile, type Hostile } from '../hostile.ts';

type Respond = (response: ServerResponse, car: Buffer) => unknown;

const carType = { 'content-type': 'application/vnd.ipld.car; version=1' };
const pageItems = 100;
const give: Respond = (response, car) => response.writeHead(200, carType).end(car);
/** The response breaks off in the middle of a block. */
const cut: Respond = (response, car) => {
  response.writeHead(200, carType).write(car.subarray(0, -1), () => response.destroy());
};
const problem =
  (status: number, code: string, headers: Record<string, string> = {}): Respond =>
  (response) =>
    json(response, status, { type: 'about:blank', title: code, status, code }, headers);

const fileIdOf = (index: number): string => `${String(index).padStart(8, '0')}-3c44-4f5a-9c52-0a3c4e9f2b11`;

/** A service with an account of so many small files. @param o.read what it does to a read of one */
async function serviceWith(
  count: number,
  o: {
    read?: (index: number) => Respond;
    list?: (cursor: string) => Respond | undefined;
    verification?: (fileId: string) => object;
    /** What it gives with the key. */
    content?: (index: number) => Respond;
  } = {},
): Promise<Hostile> {
  const cars: Buffer[] = [];
  const contents: Buffer[] = [];
  const indexes = new Map<string, number>();
  for (let index = 0; index < count; index += 1) {
    const bytes = new TextEncoder().encode(`file ${index}`);
    const cid = cidOf('raw', await sha256(bytes));
    indexes.set(cid.text, index);
    contents.push(Buffer.from(bytes));
    cars.push(Buffer.concat([carHeader(cid), carSection(cid, bytes.length), bytes]));
  }
  const cids = [...indexes.keys()];
  return await hostile({
    'GET /v1/storage/': ({ url = '' }: IncomingMessage, response) => {
      const index = Number(url.split('/')[3]?.slice(0, 8));
      return (o.content?.(index) ?? problem(404, 'not_found'))(response, itemOf(contents, index));
    },
    'GET /v1/storage': ({ url = '' }: IncomingMessage, response) => {
      const { searchParams } = new URL(url, 'http://localhost');
      const cursor = searchParams.get('cursor') ?? '0';
      const refused = o.list?.(cursor);
      if (refused !== undefined) return refused(response, Buffer.alloc(0));
      const start = Number.parseInt(cursor, 36);
      const end = Math.min(count, start + Number(searchParams.get('limit') ?? pageItems));
      const files = cids.slice(start, end).map((cid, at) => ({ ...storedFile(cid, 10), fileId: fileIdOf(start + at) }));
      return json(response, 200, { files, ...(end < count && { cursor: `${end.toString(36)}-e1090bfa` }) });
    },
    'POST /v1/storage/': ({ url = '' }: IncomingMessage, response) =>
      o.verification === undefined
        ? response.writeHead(404).end()
        : json(response, 200, o.verification(url.split('/')[3] ?? '')),
    'GET /ipfs/': ({ url = '' }: IncomingMessage, response) => {
      const index = indexes.get(url.slice('/ipfs/'.length).split('?')[0] ?? '') ?? -1;
      return (o.read?.(index) ?? give)(response, itemOf(cars, index));
    },
  });
}

type Verified = { files: number; told?: number; bad: { fileId: string; code: string }[]; next?: string };

async function verify({ url }: Hostile, args: readonly string[] = [], signal?: AbortSignal): Promise<Ran> {
  const env = { SEALPIN_API_KEY: someApiKey };
  return await run(['verify', '--all', '--service', url, ...args], await temporaryDirectory(), {
    env,
    ...(signal && { signal }),
  });
}
const said = ({ stdout }: Ran): Verified => JSON.parse(stdout) as Verified;

test('a file whose bytes break off again and again is named, and the others are read', async () => {
  const service = await serviceWith(4, { read: (index) => (index === 1 ? cut : give) });
  const ran = await verify(service);
  expect(ran).toMatchObject({ exit: 6, stdout: '' });
  expect(ran.stderr).toMatch(new RegExp(`^sealpin: warning: ${fileIdOf(1)} \\(bafkrei\\w+\\): .+$`, 'm'));
  expect(ran.stderr).toMatch(/^sealpin: 1 of 4 files cannot be read whole$/m);
  const { files, bad } = said(await verify(service, ['--json']));
  expect({ files, bad: bad.map(({ fileId }) => fileId) }).toEqual({ files: 4, bad: [fileIdOf(1)] });
});

test('a file that breaks off once, and a service that asks for fewer requests, cost a wait', async () => {
  const asked = new Map<number, number>();
  const limited = problem(429, 'rate_limited', { 'retry-after': '0' });
  const service = await serviceWith(6, {
    read(index) {
      const count = (asked.get(index) ?? 0) + 1;
      asked.set(index, count);
      if (index === 1 && count === 1) return cut;
      return index === 2 && count <= 3 ? limited : give;
    },
  });
  expect(await verify(service)).toMatchObject({
    exit: 0,
    stderr: 'sealpin: all blocks of 6 files are present and intact (36 B)\n',
  });
});

inCi('where the service goes away, the run says where to continue, and the rest is verified there', async () => {
  const state = { isThere: true, falls: true };
  const away: Respond = (response) => response.destroy();
  const service = await serviceWith(250, {
    read(index) {
      if (index === 230 && state.falls) state.isThere = false;
      if (index === 20) return problem(404, 'not_found');
      return state.isThere ? give : away;
    },
    list: () => (state.isThere ? undefined : away),
  });
  const stopped = await verify(service);
  expect(stopped).toMatchObject({ exit: 6, stdout: '' });
  expect(stopped.stderr).toContain(`sealpin: warning: ${fileIdOf(20)} (`);
  expect(stopped.stderr).toContain(
    'sealpin: 230 files were read; the rest: sealpin verify --all --after 5k-e1090bfa\n',
  );
  expect(stopped.stderr).not.toContain(fileIdOf(230));
  Object.assign(state, { isThere: true });
  const inJson = await verify(service, ['--json']);
  expect(inJson.exit).toBe(6);
  expect(said(inJson)).toMatchObject({
    files: 230,
    bad: [{ fileId: fileIdOf(20), code: 'not_found' }],
    next: '5k-e1090bfa',
  });
  Object.assign(state, { isThere: true, falls: false });
  expect(said(await verify(service, ['--after', '5k-e1090bfa', '--json']))).toEqual({ files: 50, size: 400, bad: [] });
});

test('a position that no run has named is misuse, in words of the command, and not to be repeated', async () => {
  const refusal = problem(400, 'invalid_request');
  const service = await serviceWith(1, { list: (cursor) => (cursor === '0' ? undefined : refusal) });
  const local = ['verify', '--local', '--after', '5k-e1090bfa'];
  for (const ran of [await verify(service, ['--after', 'zzz']), await run(local, await temporaryDirectory())]) {
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toMatch(/error: --after is no position that verify --(?:all|local) has named$/m);
    expect(ran.stderr).not.toMatch(/the rest|cursor/);
  }
});

test('where no file can be read, a few are asked for, and not all', async () => {
  const service = await serviceWith(250, { read: () => problem(503, 'pinning_unavailable', { 'retry-after': '0' }) });
  const ran = await verify(service);
  expect(ran.exit).toBe(6);
  expect(ran.stderr).toContain('sealpin: error: 5 files in a row could not be read\n');
  expect(service.seen.filter(({ url }) => url.startsWith('/ipfs/')).length).toBeLessThan(40);
});

inCi('an interruption says where to continue', async () => {
  const stop = new AbortController();
  const service = await serviceWith(250, {
    read: (index) => (response, car) => {
      if (index === 120) stop.abort(new SealpinError('interrupted', 'interrupted by SIGINT'));
      give(response, car);
    },
  });
  const ran = await verify(service, [], stop.signal);
  expect(ran.exit).toBe(130);
  expect(ran.stderr).toContain('sealpin: 120 files were read; the rest: sealpin verify --all --after 2s-e1090bfa\n');
  expect(said(await verify(service, ['--after', '2s-e1090bfa', '--json']))).toEqual({
    files: 150,
    size: 1200,
    bad: [],
  });
});

test('of a service that gives no blobs the files are read with the key, and compared here', async () => {
  const asked = new Map<string, number>();
  const whole: Respond = (response, bytes) => response.writeHead(200, { 'content-length': bytes.length }).end(bytes);
  const other: Respond = (response, bytes) => whole(response, Buffer.alloc(bytes.length));
  const service = await serviceWith(5, {
    read: () => problem(404, 'not_found'),
    content: (index) =>
      [whole, problem(502, 'content_mismatch'), other, other, problem(404, 'not_found')][index] ?? whole,
    verification(fileId) {
      asked.set(fileId, (asked.get(fileId) ?? 0) + 1);
      const pin = (status: string) => ({ service: 'node', status });
      if (fileId === fileIdOf(3)) return { fileId, done: true, pins: [pin('lost')] };
      return { fileId, done: asked.get(fileId) !== 1, pins: [pin('pinned')] };
    },
  });
  const ran = await verify(service);
  expect(ran).toMatchObject({ exit: 5, stdout: '' });
  for (const index of [1, 3, 4]) expect(ran.stderr).toContain(`sealpin: warning: ${fileIdOf(index)} (`);
  expect(ran.stderr).toContain('sealpin: 3 of 5 files cannot be read whole\n');
  // What has other bytes may have another layout, which only the service knows.
  expect(ran.stderr).toContain('sealpin: 1 file only the service itself has compared: ');
  expect([...asked]).toEqual([
    [fileIdOf(2), 2],
    [fileIdOf(3), 1],
  ]);
  expect(said(await verify(service, ['--json']))).toMatchObject({ files: 5, size: 6, told: 1 });
});
