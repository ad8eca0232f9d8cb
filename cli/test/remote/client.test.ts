import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { SealpinError } from '../../../shared/errors.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { responseProblem } from '../../remote/client.ts';
import { encryptTo, env } from '../encryption.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { drain, health, hostile, json, storedFile } from '../hostile.ts';
import { itemOf } from '../../../testkit/present.ts';

describe('a service that is not what it should be', () => {
  test('S65: a redirect is an error, and the key does not follow it', async () => {
    const target = await hostile({});
    const service = await hostile({
      'GET /': (_request, response) => response.writeHead(307, { location: `${target.url}/v1/health` }).end(),
    });
    const ran = await encryptTo(service.url);
    expect(ran.exit).toBe(6);
    expect(ran.stderr).toContain('/v1/health (status 307)');
    expect(target.seen).toEqual([]);
  });

  test.each([
    {
      title: 'an HTML page with 200',
      status: 200,
      body: '<html>Welcome</html>',
      says: 'is not a Sealpin service',
    },
    {
      title: 'an HTML page with 500',
      status: 500,
      body: '<html>Oops</html>',
      says: 'failed with status 500, without a reason',
    },
    {
      title: 'JSON of another shape',
      status: 200,
      body: '{"status":"ok"}',
      says: 'is not a Sealpin service',
    },
    { title: 'an empty response', status: 200, body: '', says: 'is not a Sealpin service' },
  ])('$title is not a response of Sealpin', async ({ status, body, says }) => {
    const service = await hostile({ 'GET /v1/health': (_request, response) => response.writeHead(status).end(body) });
    const ran = await encryptTo(service.url);
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr).toContain(says);
  });

  test('S64: an answer without end is cut off', async () => {
    const service = await hostile({
      'GET /v1/health': (_request, response) => {
        Readable.from(
          (function* endless() {
            for (;;) yield ' '.repeat(65_536);
          })(),
        ).pipe(response);
      },
    });
    const ran = await encryptTo(service.url);
    expect(ran.exit).toBe(6);
    expect(ran.stderr).toContain('the response of the service is too large');
  });

  test.each([
    { title: 'never answers', handler: () => undefined },
    {
      title: 'stops in the middle of its answer',
      handler: (_: unknown, response: ServerResponse) =>
        void response.writeHead(200, { 'content-length': '100' }).write('{'),
    },
    {
      title: 'gives a byte now and then',
      handler: (_: unknown, response: ServerResponse) => {
        const timer = setInterval(() => response.write(' '), 20);
        response.on('close', () => clearInterval(timer));
      },
    },
  ])('S64: one that $title is given up', async ({ handler }) => {
    const service = await hostile({ 'GET /v1/health': handler });
    const ran = await encryptTo(service.url, { timeouts: { stallMs: 150, bytes: 1000, responseMs: 150 } });
    expect(ran.exit).toBe(6);
    expect(ran.stderr).toContain('is too slow: the request was cancelled');
  });

  test('its words are shown without control characters', async () => {
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': (_request, response) =>
        json(
          response,
          429,
          {
            type: 'about:blank',
            title: 'Too many',
            status: 429,
            code: 'rate_limited',
            detail: 'slow\u001B[2Jdown',
            hint: 'wait',
          },
          { 'retry-after': '7' },
        ),
    });
    const ran = await encryptTo(service.url);
    expect(ran).toMatchObject({
      exit: 6,
      stdout: '',
      stderr: 'sealpin: error: slow\\u{1b}[2Jdown\nsealpin: hint: wait (try again in 7 seconds)\n',
    });
  });

  test('a code that we do not know keeps its words', async () => {
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': (_request, response) =>
        json(response, 402, {
          type: 'about:blank',
          title: 'Payment Required',
          status: 402,
          code: 'quota_used',
          detail: 'your quota is used up',
        }),
    });
    expect(await encryptTo(service.url)).toMatchObject({
      exit: 6,
      stderr: expect.stringContaining('your quota is used up') as unknown,
    });
  });
});

describe('an upload', () => {
  test('announces its size and blob ID, sends no name and prints the blob ID alone', async () => {
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': async (request, response, seen) => {
        await drain(request, seen);
        json(response, 201, storedFile(await cidOfBytes(seen.body), seen.body.length));
      },
    });
    const ran = await encryptTo(service.url);
    const post = itemOf(service.seen, -1);
    const cid = await cidOfBytes(post.body);
    expect(ran).toMatchObject({ exit: 0, stdout: `${cid}\n`, stderr: '' });
    expect(post.url).toBe(`/v1/storage/plain?cid=${cid}`);
    expect(post.headers).toMatchObject({
      'content-length': String(post.body.length),
      'content-type': 'application/octet-stream',
    });
    expect(post.headers).not.toHaveProperty('content-disposition');
    expect(post.body.subarray(0, 11).toString()).toBe('sealpin/v1\n');
  });

  test('S79: larger than the service takes is refused before a byte is sent', async () => {
    const service = await hostile({ 'GET /v1/health': health(100) });
    const ran = await encryptTo(service.url, {}, 'x'.repeat(90));
    expect(ran).toMatchObject({ exit: 7, stdout: '' });
    expect(ran.stderr).toContain('this service accepts at most 100 B');
    expect(service.seen.map(({ method }) => method)).toEqual(['GET', 'GET']);
  });

  test('that is refused before its end is not sent to its end', async () => {
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': (_request, response) =>
        json(response, 413, {
          type: 'about:blank',
          title: 'Too large',
          status: 413,
          code: 'too_large',
          detail: 'too large for you',
        }),
    });
    let sent = 0;
    const stdin = Readable.from(
      (function* endless() {
        for (;;) {
          sent += 1;
          yield randomBytes(1024 * 1024);
        }
      })(),
    );
    const directory = await temporaryDirectory();
    const ran = await run(['encrypt', '-', '--data-dir', directory, '--service', service.url], directory, {
      env,
      stdin,
    });
    expect(ran).toMatchObject({ exit: 7, stdout: '' });
    expect(ran.stderr).toContain('too large for you');
    expect(sent).toBeLessThan(80);
  });

  test('S67: stored under another blob ID is an error, and the service is asked to delete it', async () => {
    const other = await cidOfBytes(Buffer.from('something else'));
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': async (request, response, seen) => {
        await drain(request, seen);
        json(response, 201, storedFile(other, seen.body.length));
      },
      'DELETE /v1/storage/3e9a1b1c': (_request, response) =>
        json(response, 200, { fileId: storedFile(other, 0).fileId, key: 'none', pins: [] }),
    });
    const ran = await encryptTo(service.url);
    expect(ran).toMatchObject({ exit: 5, stdout: '' });
    expect(ran.stderr).toContain(`the service stored it as ${other}, and it is `);
    expect(ran.stderr).toContain('it was deleted again');
    expect(service.seen.at(-1)).toMatchObject({ method: 'DELETE' });
    expect(await readdir(ran.directory)).not.toContain('history');
  });

  test('S67: and when deleting fails, too, it says what to do', async () => {
    const other = await cidOfBytes(Buffer.from('something else'));
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': async (request, response, seen) => {
        await drain(request, seen);
        json(response, 201, storedFile(other, seen.body.length));
      },
    });
    const ran = await encryptTo(service.url);
    expect(ran.stderr).toContain('deleting it failed, too\nsealpin: hint: delete it by hand: sealpin delete 3e9a1b1c');
  });

  test('S71: whose answer is lost is looked up by its blob ID', async () => {
    let body: Buffer = Buffer.alloc(0);
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': async (request, _response, seen) => {
        await drain(request, seen);
        ({ body } = seen);
        request.socket.destroy();
      },
      'GET /v1/storage': async (_request, response) =>
        json(response, 200, { files: [storedFile(await cidOfBytes(body), body.length)] }),
    });
    const ran = await encryptTo(service.url);
    expect(ran).toMatchObject({ exit: 0, stdout: `${await cidOfBytes(body)}\n` });
    expect(await readFile(join(ran.directory, 'history'), 'utf8')).toContain('3e9a1b1c');
    expect(service.seen.filter(({ method }) => method === 'POST')).toHaveLength(1);
  });

  test('S69: that breaks off midway is not sent again', async () => {
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': (request) => request.once('data', () => request.socket.destroy()),
    });
    const ran = await encryptTo(service.url, {}, 'x'.repeat(8 * 1024 * 1024));
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr).toContain('broke off the upload at ');
    expect(service.seen.map(({ method }) => method)).toEqual(['GET', 'GET', 'POST']);
  });

  test('S53: of a file that changes is broken off, and never completed', async () => {
    const directory = await temporaryDirectory();
    const path = join(directory, 'in');
    await writeFile(path, Buffer.alloc(40 * 1024 * 1024));
    let completed = false;
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': async (request, _response, seen) => {
        request.once('data', () => void writeFile(path, 'shorter'));
        await drain(request, seen).then(
          () => (completed = true),
          () => undefined,
        );
      },
    });
    const ran = await run(['encrypt', 'in', '--data-dir', directory, '--service', service.url], directory, { env });
    expect(ran).toMatchObject({ exit: 1, stdout: '' });
    expect(ran.stderr).toContain('in shrank while it was read');
    expect(completed).toBe(false);
  });

  test('S52: that is interrupted ends at once, with exit 130', async () => {
    const interruption = new AbortController();
    let closed = false;
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': (request) => {
        request.on('close', () => (closed = true));
        request.once('data', () => interruption.abort(new SealpinError('interrupted', 'interrupted by SIGINT')));
      },
    });
    const ran = await encryptTo(service.url, { signal: interruption.signal }, 'x'.repeat(16 * 1024 * 1024));
    expect(ran).toMatchObject({ exit: 130, stdout: '' });
    expect(ran.stderr).toMatch(/^sealpin: nothing was stored: .*\nsealpin: error: interrupted by SIGINT\n$/);
    await expect.poll(() => closed).toBe(true);
  });

  test('that cannot be written into the history still prints its blob ID', async () => {
    const service = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': async (request, response, seen) => {
        await drain(request, seen);
        json(response, 201, storedFile(await cidOfBytes(seen.body), seen.body.length));
      },
    });
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'history'));
    await writeFile(join(directory, 'in'), 'x');
    const ran = await run(['encrypt', 'in', '--data-dir', directory, '--service', service.url], directory, { env });
    expect(ran.exit).toBe(0);
    expect(ran.stdout).toMatch(/^bafkrei[a-z2-7]+\n$/);
    expect(ran.stderr).toContain('warning: the history was not written');
  });
});

test('a local service whose node is away is named itself, and no pinning service', () => {
  const text = JSON.stringify({
    type: 'about:blank',
    title: 'The pinning service cannot be reached',
    status: 503,
    code: 'pinning_unavailable',
  });
  const at = (local: boolean) =>
    responseProblem(
      { status: 503, text, headers: { 'retry-after': '5' } },
      { url: new URL('http://127.0.0.1:1'), apiKey: undefined, keyFrom: undefined, local },
    );
  expect(at(true)).toMatchObject({
    message: 'the local service is stopping, or its IPFS node cannot be reached',
    hint: 'see: sealpin status, sealpin start',
    retryAfterSeconds: 5,
  });
  expect(at(false).message).toBe('the pinning service cannot be reached');
});
