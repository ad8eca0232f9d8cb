/** The listener of `sealpin start --origin`, with a real Worker behind it. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inCi } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { readState, localPaths } from '../../local/state.ts';
import { here, refusal, remove, startHere, store } from '../local/harness.ts';
import { control } from '../../local/control.ts';
import {
  adminTokenOf,
  ask,
  host,
  newAccount,
  origin,
  sendRaw,
  startPublic,
  storing,
  type PublicService,
} from './public-service.ts';

let service: PublicService;
let apiKey: string;
beforeAll(async () => {
  service = await startPublic({ env: { CORS_ORIGINS: 'https://app.example', RECOVERY_DAYS: '30' } });
  apiKey = await newAccount(service);
});
afterAll(() => remove(service));

const fileOf = (body: string) => JSON.parse(body) as { fileId: string; cid: string; size: number };

describe('a public service', () => {
  test('has no account of its own, and keeps no API key', async () => {
    const secrets = await readFile(localPaths(service.dataDir).secrets, 'utf8');
    expect(Object.keys(JSON.parse(secrets) as object).toSorted()).toEqual([
      'adminToken',
      'metricsToken',
      'rpcToken',
      'serviceId',
      'v',
    ]);
    expect(service.url).toBe(origin);
  });

  test('stores and reads, in one request and by HEAD', async () => {
    const bytes = randomBytes(3_000_000);
    const stored = await ask(service, '/v1/storage/encrypted', {
      method: 'POST',
      headers: storing(apiKey),
      body: bytes,
    });
    expect(stored.status).toBe(201);
    const { fileId } = fileOf(stored.body);
    const authorization = `Bearer ${apiKey}`;
    const sent = request({
      port: service.port,
      path: `/v1/storage/${fileId}`,
      headers: { host, authorization, accept: 'application/octet-stream' },
    });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    expect((await buffer(response)).equals(bytes)).toBe(true);
    const head = await ask(service, `/v1/storage/${fileId}`, {
      method: 'HEAD',
      headers: { authorization, accept: 'application/octet-stream' },
    });
    expect(head).toMatchObject({ status: 200, body: '', headers: { 'content-length': '3000000' } });
  });

  test('names no file to who would write one in place', async () => {
    const sent = request({
      port: service.port,
      path: '/v1/storage/plain',
      method: 'POST',
      headers: {
        ...storing(apiKey),
        host,
        expect: '100-continue',
        'content-length': 2 ** 20,
        'sealpin-in-place': 2 ** 25,
      },
    });
    const told: unknown[] = [];
    sent.on('information', ({ headers }) => told.push(headers)).flushHeaders();
    await once(sent, 'continue');
    sent.end(Buffer.alloc(2 ** 20));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    expect(fileOf((await buffer(response)).toString()).size).toBe(2 ** 20);
    expect(told).toEqual([{}]);
  });

  test('admits the pages of CORS_ORIGINS, and says which settings it does not take from its environment', async () => {
    const allowed = async (page: string) =>
      (await ask(service, '/v1/account', { headers: { authorization: `Bearer ${apiKey}`, origin: page } })).headers[
        'access-control-allow-origin'
      ];
    expect(await allowed('https://app.example')).toBe('https://app.example');
    expect(await allowed('https://evil.example')).toBeUndefined();
    expect(service.warnings).toEqual([expect.stringContaining('not taken from the environment: RECOVERY_DAYS (see')]);
  });

  test('knows its own origin: an account that admits pages of no other one admits those of the service', async () => {
    const own = JSON.parse(
      (await ask(service, '/v1/account', { headers: { authorization: `Bearer ${apiKey}` } })).body,
    ) as {
      account: { id: string };
    };
    const changing = async (origins: string[] | null) =>
      await ask(service, `/v1/operator/accounts/${own.account.id}`, {
        method: 'PATCH',
        headers: { authorization: `Bearer ${service.adminToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ origins }),
      });
    const changed = await changing(['https://other.example']);
    const from = async (page: string) =>
      (await ask(service, '/v1/account', { headers: { authorization: `Bearer ${apiKey}`, origin: page } })).status;
    expect(changed.status).toBe(200);
    expect(await from(origin)).toBe(200);
    for (const page of ['https://evil.example', `http://${host}`]) expect(await from(page)).toBe(403);
    expect((await ask(service, '/s')).status).toBe(200);
  });

  test('asks for a body that its client announces, and answers at once where it wants none', async () => {
    const body = randomBytes(100_000);
    const expecting = (path: string, headers: Record<string, string>) =>
      request({
        port: service.port,
        method: 'POST',
        path,
        headers: { host, expect: '100-continue', 'content-length': '100000', ...headers },
      });
    const wanted = expecting('/v1/storage/plain', storing(apiKey));
    wanted.flushHeaders();
    await once(wanted, 'continue');
    wanted.end(body);
    const [stored] = (await once(wanted, 'response')) as [IncomingMessage];
    expect(stored.statusCode).toBe(201);
    expect(fileOf(await text(stored)).size).toBe(100_000);
    const unwanted = expecting('/v1/storage/plain', { ...storing(apiKey), authorization: 'Bearer none' });
    let isAsked = false;
    unwanted.once('continue', () => (isAsked = true));
    unwanted.flushHeaders();
    const [refused] = (await once(unwanted, 'response')) as [IncomingMessage];
    expect(refused).toMatchObject({ statusCode: 401, headers: { connection: 'close' } });
    expect(isAsked).toBe(false);
    refused.resume();
    await once(refused, 'end');
  });

  test('keeps its connections, also after a body that it did not read', async () => {
    const socket = connect(service.port, '127.0.0.1');
    const answers: string[] = [];
    socket.setEncoding('latin1').on('data', (piece: string) => answers.push(piece));
    const body = 'x'.repeat(300_000);
    socket.write(`POST /v1/storage/plain HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    socket.write(`GET /v1/health?live HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    await once(socket, 'close');
    expect(answers.join('').match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401', 'HTTP/1.1 200']);
  });

  test('ends the request of a client that leaves, in either direction', async () => {
    const idle = async (): Promise<boolean> => (await control(service, 'status')).running === 0;
    const running = async (is: boolean): Promise<void> => {
      while ((await idle()) === is) await sleep(20);
    };
    const sent = request({
      port: service.port,
      method: 'POST',
      path: '/v1/storage/plain',
      headers: { host, ...storing(apiKey), 'content-length': '50000000' },
    });
    sent.once('error', () => undefined);
    sent.write(Buffer.alloc(1_000_000));
    await running(true);
    sent.destroy();
    await running(false);
    const { body } = await ask(service, '/v1/storage/plain', {
      method: 'POST',
      headers: storing(apiKey),
      body: Buffer.alloc(30_000_000),
    });
    const read = request({
      port: service.port,
      path: `/v1/storage/${fileOf(body).fileId}`,
      headers: { host, authorization: `Bearer ${apiKey}`, accept: 'application/octet-stream' },
    });
    read.end();
    const [response] = (await once(read, 'response')) as [IncomingMessage];
    await once(response, 'readable');
    await running(true);
    response.destroy();
    await running(false);
  });

  inCi('counts requests by the address that the proxy names, and by no other word of a client', async () => {
    const statuses = async (headers: (turn: number) => Record<string, string>): Promise<(number | undefined)[]> => {
      const found = [];
      for (let turn = 0; turn < 130; turn += 1)
        found.push((await ask(service, '/v1/shares/none', { headers: headers(turn) })).status);
      return found;
    };
    const forging = (turn: number) => ({
      'cf-connecting-ip': `192.0.2.${turn}`,
      'x-real-ip': `192.0.2.${turn}`,
      'x-forwarded-for': `192.0.2.${turn}, 203.0.113.9`,
    });
    expect(await statuses(forging)).toContain(429);
    expect(await statuses((turn) => ({ 'x-forwarded-for': `198.51.100.${turn}` }))).not.toContain(429);
  });

  test('is backed up with more accounts than one address may ask for in a minute', async () => {
    const limited = await startPublic({ env: { ADDRESS_LIMIT_POLICY: '1/60' } });
    // The end of a minute admits one more request.
    const isLimited = (address: string) =>
      expect.poll(() => newAccount(limited, address).catch(String)).toContain('429');
    try {
      for (const address of ['192.0.2.1', '192.0.2.2']) await newAccount(limited, address);
      await isLimited('192.0.2.1');
      const folder = join(limited.dataDir, 'backup');
      const args = ['service', 'backup', folder, '--without-secrets', `--data-dir=${limited.dataDir}`];
      const ran = await here(args);
      expect(ran, ran.stderr).toMatchObject({ code: 0 });
      await isLimited('192.0.2.2');
    } finally {
      await remove(limited);
    }
  });

  test('is not reached past its listener: the runtime has a socket of this user, and wants proof', async () => {
    const run = present(await readState(service.dataDir, 'run'));
    const { pid } = present(run.workerd[0]);
    const links = (await readdir(`/proc/${pid}/fd`)).map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => ''));
    const inodes = new Set((await Promise.all(links)).map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? ''));
    const rows = (await readFile('/proc/net/tcp', 'utf8')).split('\n').map((line) => line.trim().split(/\s+/));
    const ports = rows
      .filter((row) => row[3] === '0A' && inodes.has(row[9] ?? '-'))
      .map((row) => Number.parseInt(present(row[1]).split(':')[1] ?? '', 16));
    expect(ports).not.toContain(service.port);
    for (const port of ports) {
      const answer = await sendRaw(
        port,
        `GET /v1/health HTTP/1.1\r\nHost: ${host}\r\nCF-Connecting-IP: 192.0.2.1\r\nConnection: close\r\n\r\n`,
      );
      expect(answer, String(port)).not.toContain('"version"');
    }
  });

  inCi('serves on after its runtime crashed, and after its code was replaced', async () => {
    const { pid } = present(present(await readState(service.dataDir, 'run')).workerd[0]);
    process.kill(pid, 'SIGKILL');
    // A connection that the old runtime still took breaks; the next one waits for the new one.
    const next = async (): Promise<number | undefined> => (await ask(service, '/v1/health?live')).status;
    let status = await next().catch(() => undefined);
    while (status !== 200) status = await next().catch(() => undefined);
    await control(service, 'rebuild');
    expect(await next()).toBe(200);
  });
});

describe('what a client sends to confuse two readers', () => {
  const get = (lines: string, target = '/v1/health?live') =>
    `GET ${target} HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`;
  const post = (lines: string, body: string) =>
    `POST /v1/storage/plain HTTP/1.1\r\nHost: ${host}\r\n${lines}\r\n${body}`;
  const second = `GET /v1/health?live HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
  test.each([
    ['two lengths that differ', post('Content-Length: 5\r\nContent-Length: 6\r\n', `hello${second}`)],
    ['a length and chunks', post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${second}`)],
    ['chunks and a length', post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', `0\r\n\r\n${second}`)],
    ['a coding that is not the last', post('Transfer-Encoding: chunked, identity\r\n', `0\r\n\r\n${second}`)],
    ['a coding before the chunks', post('Transfer-Encoding: gzip, chunked\r\nConnection: close\r\n', '0\r\n\r\n')],
    ['a coding that is spelled otherwise', post('Transfer-Encoding: xchunked\r\n', `0\r\n\r\n${second}`)],
    ['a coding twice', post('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', `0\r\n\r\n${second}`)],
    ['a space before the colon', post('Content-Length : 5\r\n', `hello${second}`)],
    ['a folded line', post('X-A: b\r\n Content-Length: 5\r\n', `hello${second}`)],
    ['a folded coding', post('Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n', `0\r\n\r\n${second}`)],
    ['a length with a sign', post('Content-Length: +5\r\n', `hello${second}`)],
    ['a chunk that is no number', post('Transfer-Encoding: chunked\r\n', `g\r\n\r\n${second}`)],
    ['a chunk without its end', post('Transfer-Encoding: chunked\r\n', `1\r\nab0\r\n\r\n${second}`)],
    ['a line that ends in LF alone', `GET / HTTP/1.1\nHost: ${host}\n\n${second}`],
    ['a carriage return in a value', get(`Host: ${host}\r\nX-A: a\rb\r\n`)],
    ['a NUL in a value', get(`Host: ${host}\r\nX-A: a\0b\r\n`)],
    ['two hosts', get(`Host: ${host}\r\nHost: evil.example\r\n`)],
    ['no host', get('')],
    ['a foreign host', get('Host: evil.example\r\n')],
    ['the form of loopback', get('Host: 127.0.0.1:7420\r\n')],
    ['a whole URL of another host', get(`Host: ${host}\r\n`, 'http://evil.example/v1/health?live')],
    ['a whole URL of its own', get(`Host: ${host}\r\n`, `https://${host}/v1/health?live`)],
    ['a tunnel', `CONNECT evil.example:443 HTTP/1.1\r\nHost: ${host}\r\n\r\n${second}`],
    ['an unknown method', `SMUGGLE / HTTP/1.1\r\nHost: ${host}\r\n\r\n${second}`],
  ])('is refused: %s', async (_, bytes) => {
    const answer = await sendRaw(service.port, bytes);
    expect(answer).not.toContain('200 OK');
    expect(answer.match(/HTTP\/1\.1 \d+/g) ?? []).not.toContain('HTTP/1.1 201');
    expect((answer.match(/HTTP\/1\.1 4(?:00|21)/g) ?? []).length).toBeLessThanOrEqual(1);
  });

  test('a header by which this process speaks to the Worker opens nothing', async () => {
    const headers = {
      'sealpin-control': service.adminToken,
      sealpin_front: 'x',
      'mf-original-url': 'http://127.0.0.1/',
      'x-forwarded-host': 'evil.example',
      'x-forwarded-proto': 'http',
    };
    const answer = await ask(service, '/v1/health?live', { headers });
    expect(answer).toMatchObject({ status: 200, body: expect.stringContaining('"status":"ok"') });
  });

  test('a request for places on the disk gets the blocks', async () => {
    const bytes = randomBytes(2 ** 20 + 1);
    const { body } = await ask(service, '/v1/storage/plain', {
      method: 'POST',
      headers: storing(apiKey),
      body: bytes,
    });
    const answer = await ask(service, `/ipfs/${fileOf(body).cid}?format=car`, { headers: { 'sealpin-places': '1' } });
    expect(answer).toMatchObject({ status: 200, headers: { 'content-type': expect.stringContaining('ipld.car') } });
  });
});

describe('a peer that is not the proxy', () => {
  test('gets no answer, and is in the log once', async () => {
    const strict = await startPublic({ args: ['--proxy=127.0.0.9'] });
    try {
      for (let turn = 0; turn < 3; turn += 1)
        expect(await sendRaw(strict.port, `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`).catch(() => '')).toBe('');
      expect(strict.stderr().match(/127\.0\.0\.1 is not a proxy of this service/g)).toHaveLength(1);
      const socket = connect({ port: strict.port, host: '127.0.0.1', localAddress: '127.0.0.9' });
      const answer = text(socket);
      socket.write(`GET /v1/health?live HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      expect(await answer).toContain('200 OK');
    } finally {
      await remove(strict);
    }
  });
});

describe('a data directory', () => {
  inCi('from loopback becomes a public one, keeps its files, and says once that its links end', async () => {
    const local = await startHere();
    const data = new Uint8Array(randomBytes(1000));
    const { fileId } = await store(local, 'encrypted', data);
    await local.end();
    const moved = await startPublic({ dataDir: local.dataDir });
    expect(moved.stderr()).toContain('links to http://127.0.0.1 have ended');
    const headers = { authorization: `Bearer ${local.apiKey}`, accept: 'application/octet-stream' };
    const read = await ask(moved, `/v1/storage/${fileId}`, { headers });
    expect(read).toMatchObject({ status: 200, headers: { 'content-length': String(data.length) } });
    const old = await ask(moved, '/s', { headers: { host: new URL(local.url).host } });
    expect(old.status).toBe(421);
    await moved.end();
    const again = await startPublic({ dataDir: local.dataDir });
    expect(again.stderr()).not.toContain('have ended');
    expect(await refusal({ dataDir: local.dataDir, args: [`--origin=${origin}`] })).toContain('already running');
    await again.end();
    const other = await startPublic({ dataDir: local.dataDir, args: ['--origin=https://other.example.com'] });
    expect(other.stderr()).toContain('links to https://files.example.com have ended');
    await other.end();
    // A unit file that loses its flag must not end the links.
    const lost = await refusal({ dataDir: local.dataDir });
    expect(lost).toContain('has the service of https://other.example.com, whose links would end here');
    expect(lost).toContain('--origin none');
    const back = await startHere({ dataDir: local.dataDir, args: ['--origin=none'] });
    expect(back.stderr()).toContain('links to https://other.example.com have ended');
    expect((await fetch(`${back.url}/v1/health?live`)).status).toBe(200);
    await back.end();
    await remove(await startHere({ dataDir: local.dataDir }));
  });

  test('of a service that is started by its operator has the same token at each start', async () => {
    expect(await adminTokenOf(service.dataDir)).toBe(service.adminToken);
  });
});

test.each([
  [['--origin=http://files.example.com'], 'is not an https: address'],
  [['--origin=https://files.example.com/'], 'is not an origin'],
  [['--origin=https://files.example.com/a'], 'is not an origin'],
  [['--origin=https://ann@files.example.com'], 'is not an origin'],
  [['--origin=files.example.com'], 'is not an origin'],
  [['--origin=https://files.example.com', '--proxy=caddy'], 'is neither an address nor a CIDR block'],
  [['--proxy=127.0.0.1'], '--proxy needs --origin'],
  [['--origin=none', '--proxy=127.0.0.1'], '--proxy needs --origin'],
])('%j is refused', async (args, says) => {
  expect(await refusal({ args })).toContain(says);
});
