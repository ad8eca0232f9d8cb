/** Uploads by tus to tusd, over a line that breaks. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { faultyProxy, type ProxyFault } from '../../../../testkit/faulty-proxy.ts';
import { hasTusd, noTusd, spawnTusd } from '../../../../testkit/programs/tusd.ts';
import { tusUpload } from '../../../backends/pinata/tus-upload.ts';
import { fake } from '../runtimes.ts';

const { signal } = new AbortController();
const bytes = randomBytes(1_000_000);
const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');

const upload = (url: string, o: { body?: Uint8Array<ArrayBuffer>; length?: number } = {}) =>
  tusUpload(
    // tusd says where an upload is by what a proxy tells it.
    {
      id: 'tested',
      url,
      headers: { 'x-forwarded-host': new URL(url).host },
      fetch,
      pieceBytes: 300_000,
      responseMs: 3000,
      retryMs: 5,
    },
    { body: new Blob([o.body ?? bytes]).stream(), length: o.length ?? bytes.length, metadata: { filename: 'é' } },
    signal,
  );

function againstTusd(): void {
  let dir: string;
  let tusd: { endpoint: string; close(): Promise<void> };
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sealpin-tus-'));
    tusd = await spawnTusd(dir, ['-behind-proxy']);
  });
  afterAll(async () => {
    await tusd.close();
    await rm(dir, { recursive: true, force: true });
  });

  /** The hashes of what tusd holds. */
  const held = async () => {
    const files = (await readdir(dir)).filter((name) => /^[0-9a-f]{32}$/.test(name));
    return await Promise.all(files.map(async (name) => sha256(await readFile(join(dir, name)))));
  };

  test.each<[string, (method: string, count: number) => ProxyFault | undefined]>([
    ['holds', () => undefined],
    [
      'breaks in the middle of a request',
      (method, count) => (method === 'PATCH' && count === 2 ? { kind: 'break', afterBytes: 100_000 } : undefined),
    ],
    ['loses a response', (method, count) => (method === 'PATCH' && count === 2 ? { kind: 'swallow' } : undefined)],
    [
      'answers 503 twice',
      (method, count) =>
        method === 'PATCH' && (count === 2 || count === 3) ? { kind: 'answer', status: 503 } : undefined,
    ],
    [
      'answers 423, as a lock that is still held',
      (method, count) => (method === 'PATCH' && count === 2 ? { kind: 'answer', status: 423 } : undefined),
    ],
  ])('a line that %s', async (_, fault) => {
    const proxy = await faultyProxy(
      () => tusd.endpoint,
      ({ method }, before) => fault(method, before.filter((each) => each.method === method).length + 1),
    );
    await upload(`${proxy.url}/files/`);
    expect(await held()).toContain(sha256(bytes));
    for (const { headers } of proxy.passed) expect(headers['tus-resumable']).toBe('1.0.0');
  });

  test('a line that never works again is an error after a few attempts', async () => {
    const proxy = await faultyProxy(
      () => tusd.endpoint,
      ({ method }) => (method === 'PATCH' ? { kind: 'answer', status: 503 } : undefined),
    );
    await expect(upload(`${proxy.url}/files/`)).rejects.toMatchObject({ code: 'pinning_unavailable' });
    expect(proxy.passed.filter(({ method }) => method === 'PATCH')).toHaveLength(4);
  });

  test('a body that is shorter than announced is an error', async () => {
    await expect(upload(tusd.endpoint, { body: new Uint8Array(bytes.subarray(0, 900_000)) })).rejects.toMatchObject({
      code: 'pinning_failed',
    });
  });
}

test('credentials do not follow an upload to another server', async () => {
  const other = await fake(() => undefined);
  onTestFinished(other.close);
  const { url, close } = await fake((request, response) => {
    request.resume();
    response.writeHead(201, { location: `${other.url}/1` }).end();
  });
  onTestFinished(close);
  await expect(upload(url)).rejects.toMatchObject({ code: 'misconfigured' });
  expect(other.commands).toEqual([]);
});

test.each([
  ['an offset that goes back before the piece', '-1'],
  ['more than it was sent', '9999999'],
  ['no offset', undefined],
])('a server that tells %s', async (_, offset) => {
  const { url, close } = await fake((request, response) => {
    request.resume();
    const headers = offset === undefined ? {} : { 'upload-offset': offset };
    request.on('end', () =>
      response.writeHead(request.method === 'POST' ? 201 : 204, { location: '/1', ...headers }).end(),
    );
  });
  onTestFinished(close);
  await expect(upload(url)).rejects.toMatchObject({ code: 'pinning_failed' });
});

if (hasTusd()) describe('tusd', againstTusd);
else test.skip(noTusd);
