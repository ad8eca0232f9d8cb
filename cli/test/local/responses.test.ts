/** Responses of `sealpin start` as a client sees them on the wire. */
import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { control } from '../../local/control.ts';
import { localPaths, readState } from '../../local/state.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { ask, here, remove, startHere, store } from './harness.ts';
import type { RunningHere } from './harness.ts';

const origin = 'http://localhost:3000';

let service: RunningHere;
beforeAll(async () => {
  service = await startHere({ args: [`--cors-origin=${origin}`] });
});
afterAll(() => remove(service));

const bytes = new Uint8Array(3 * 2 ** 20).map((_, index) => (index * 7) & 0xff);

/** One request; the head and the body unchanged, until the service closes the connection. */
function exchange(path: string, version: '1.0' | '1.1', accept: string): Promise<{ head: string; body: Buffer }> {
  const { host, hostname, port } = new URL(service.url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    const parts: Buffer[] = [];
    socket.on('data', (data) => parts.push(data));
    socket.on('error', () => undefined); // a reset ends the answer, too
    socket.on('close', () => {
      const all = Buffer.concat(parts);
      const end = all.indexOf('\r\n\r\n');
      resolve({ head: all.subarray(0, end).toString('latin1'), body: all.subarray(end + 4) });
    });
    const lines = [`GET ${path} HTTP/${version}`, `Host: ${host}`, 'Connection: close', `Accept: ${accept}`];
    socket.write(`${lines.join('\r\n')}\r\nAuthorization: Bearer ${service.apiKey}\r\n\r\n`);
  });
}

function lengthIn(head: string): number | undefined {
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  return length === undefined ? undefined : Number(length);
}

describe.each(['1.0', '1.1'] as const)('over HTTP/%s', (version) => {
  test.each(['plain', 'encrypted'] as const)('every answer about a file in %s mode has its length', async (mode) => {
    const { fileId, cid } = await store(service, mode, bytes);
    const forms: [string, string][] = [
      [`/v1/storage/${fileId}`, 'application/json'],
      [`/v1/storage/${fileId}?data=false`, 'application/json'],
      [`/v1/storage/${fileId}`, 'application/octet-stream'],
      ...(mode === 'encrypted' ? [[`/v1/storage/${fileId}`, 'application/vnd.sealpin'] as [string, string]] : []),
      [`/ipfs/${cid}`, '*/*'],
      [`/ipfs/${cid}?format=raw`, '*/*'],
      ['/v1/storage', '*/*'],
      [`/v1/storage/${crypto.randomUUID()}`, '*/*'],
      ['/v1/health', '*/*'],
      ['/v1/openapi.json', '*/*'],
    ];
    for (const [path, accept] of forms) {
      const { head, body } = await exchange(path, version, accept);
      expect(lengthIn(head), `${path} ${accept}`).toBe(body.length);
      expect(head.toLowerCase()).not.toContain('transfer-encoding');
    }
  });

  test('an answer that breaks is shorter than announced', async () => {
    const own = randomBytes(bytes.length);
    const { fileId } = await store(service, 'plain', own);
    await damage(own.subarray(2.5 * 2 ** 20, 2.5 * 2 ** 20 + 64));
    const { head, body } = await exchange(`/v1/storage/${fileId}`, version, 'application/octet-stream');
    expect(head).toContain(' 200 ');
    expect(lengthIn(head)).toBe(bytes.length);
    expect(body.length).toBeLessThan(bytes.length);
  });
});

/** Overwrites these bytes where the embedded node keeps them. */
async function damage(needle: Buffer): Promise<void> {
  const entries = await readdir(localPaths(service.dataDir).ipfs, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name);
    const all = await readFile(path);
    const at = all.indexOf(needle);
    if (at >= 0) await writeFile(path, all.fill(0, at, at + needle.length));
  }
}

describe('a request that the guard refuses', () => {
  test('is answered like any other error, and logged', async () => {
    const answer = await ask(service, 'listFiles', {}, { headers: { origin: 'https://evil.example' } });
    const problem = (await answer.json()) as Record<string, unknown>;
    expect(answer.status).toBe(403);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(problem).toMatchObject({
      type: '/v1/openapi.json#/components/examples/forbidden',
      title: 'Not allowed',
      code: 'forbidden',
      hint: expect.stringContaining('--cors-origin') as string,
      requestId: answer.headers.get('x-request-id'),
    });
    await expect.poll(() => service.stderr()).toContain(String(problem['requestId']));
  });
});

describe('start --cors-origin', () => {
  test('lets pages of that origin call, in every way a browser does', async () => {
    const foreign = { origin, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' };
    const preflight = await fetch(`${service.url}/v1/storage/plain`, {
      method: 'OPTIONS',
      headers: { ...foreign, 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toEqual(origin);
    const answer = await ask(service, 'listFiles', {}, { headers: foreign });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('access-control-allow-origin')).toEqual(origin);
  });

  test('still refuses pages of other origins and foreign hosts', async () => {
    for (const other of ['http://localhost:3001', 'https://localhost:3000', 'null'])
      expect((await ask(service, 'listFiles', {}, { headers: { origin: other } })).status).toBe(403);
    expect((await ask(service, 'listFiles', {}, { headers: { 'sec-fetch-site': 'cross-site' } })).status).toBe(403);
  });

  test.each([
    'localhost:3000',
    'http://localhost:3000/',
    '*',
    'http://a.example,http://b.example',
    'file:///x',
    'null',
  ])('refuses %s, which is not an origin', async (text) => {
    const ran = await here(['start', '--port=0', `--cors-origin=${text}`, `--data-dir=${service.dataDir}`]);
    expect(ran).toMatchObject({ code: 2, stdout: '' });
    expect(ran.stderr).toContain('--cors-origin');
  });
});

test.each([
  ['of an upload', 'POST', ['Content-Type: application/octet-stream', 'Content-Length: 5000000'], 300_000],
  ['of an upload in chunks', 'POST', ['Content-Type: application/octet-stream', 'Transfer-Encoding: chunked'], 0],
  ['of an upload in JSON', 'POST', ['Content-Type: application/json', 'Content-Length: 5000000'], 300_000],
] as const)(
  'a connection that is reset in the middle %s counts as running no longer',
  async (_, method, more, sent) => {
    const { host, hostname, port } = new URL(service.url);
    const running = () => control(service, 'status').then((status) => status.running);
    const sockets = Array.from({ length: 10 }, () => connect(Number(port), hostname));
    for (const socket of sockets) {
      const lines = [`${method} /v1/storage/plain HTTP/1.1`, `Host: ${host}`, ...more];
      socket.write(`${lines.join('\r\n')}\r\nAuthorization: Bearer ${service.apiKey}\r\n\r\n`);
      socket.write(sent === 0 ? '3\r\nabc\r\n' : `{"data":"${'A'.repeat(sent)}`);
    }
    await expect.poll(running).toBe(10);
    for (const socket of sockets) socket.resetAndDestroy();
    await expect.poll(running).toBe(0);
  },
);

inCi('status says so of a runtime that hangs, and goes on once it runs again', async () => {
  const words = ['status', `--data-dir=${service.dataDir}`];
  const { workerd } = present(await readState(service.dataDir, 'run'));
  for (const { pid } of workerd) process.kill(pid, 'SIGSTOP');
  const hanging = here(words).finally(() => workerd.forEach(({ pid }) => process.kill(pid, 'SIGCONT')));
  expect(await hanging).toMatchObject({ code: 6, stdout: '' });
  expect((await hanging).stderr).toContain('the runtime of the service takes no requests');
  expect(await here(words)).toMatchObject({ code: 0 });
});
