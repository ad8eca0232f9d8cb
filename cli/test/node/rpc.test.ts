import { randomBytes } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isSealpinError } from '../../../shared/errors.ts';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { add, ask, directory, multipart, node } from './node-harness.ts';
import { present } from '../../../testkit/present.ts';

const hello = new TextEncoder().encode('hello world');
const helloCid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
const profile = 'cid-version=1&raw-leaves=true&chunker=size-1048576&max-file-links=1024&hash=sha2-256&trickle=false';

describe('access control', () => {
  test('needs the token, in the words of Kubo', async () => {
    const { url } = await node();
    for (const authorization of ['', 'Bearer', 'Bearer wrong', 'Basic dG9rZW46', 'bearer token-of-the-tests ']) {
      const reply = await ask(url, 'version', { headers: { authorization } });
      expect(reply.status).toBe(403);
      expect(reply.headers['content-type']).toBe('text/plain; charset=utf-8');
      expect(reply.text).toBe(
        'Kubo RPC Access Denied: Please provide a valid authorization token ' +
          'as defined in the API.Authorizations configuration.\n',
      );
    }
    expect((await ask(url, 'version')).status).toBe(200);
  });

  test.each([
    ['a page of another origin', { origin: 'https://evil.example' }],
    ['a page of another port', { origin: 'http://127.0.0.1:1' }],
    ['a sandboxed page', { origin: 'null' }],
    ['a link from another page', { referer: 'https://evil.example/' }],
    ['a link from a page that begins alike', { referer: 'http://127.0.0.1.evil.example/' }],
    ['a browser without origin', { 'user-agent': 'Mozilla/5.0' }],
    ['a request from another site', { 'sec-fetch-site': 'cross-site' }],
    ['a name that points here', { host: 'evil.example' }],
    ['another port in Host', { host: '127.0.0.1:1' }],
    ['a header of Miniflare', { 'mf-original-url': 'http://x/' }],
  ])('S86: not %s', async (_, headers) => {
    const { url } = await node();
    const reply = await ask(url, 'version', { headers });
    expect({ status: reply.status, text: reply.text }).toEqual({ status: 403, text: '403 - Forbidden\n' });
  });

  test('S86: Electron and pages of its own may', async () => {
    const { url } = await node();
    for (const headers of [
      { 'user-agent': 'Mozilla/5.0 Electron/1' },
      { origin: url, 'user-agent': 'Mozilla/5.0' },
      { referer: `${url}/`, 'user-agent': 'Mozilla/5.0' },
    ]) {
      expect((await ask(url, 'version', { headers })).status).toBe(200);
    }
  });

  test('only by POST, and only what is there', async () => {
    const { url } = await node();
    for (const method of ['GET', 'PUT', 'DELETE'])
      expect(await ask(url, 'version', { method })).toMatchObject({ status: 405, text: '405 - Method Not Allowed\n' });
    expect(await ask(url, 'version', { method: 'OPTIONS' })).toMatchObject({
      status: 204,
      headers: { allow: 'OPTIONS, POST' },
    });
    expect(await ask(url, 'config/show')).toMatchObject({ status: 404, text: '404 page not found\n' });
    expect((await ask(url, '../../version')).status).toBe(404);
  });
});

describe('add', () => {
  test('answers one record with CID and size, and pins', async () => {
    const { url } = await node();
    const reply = await ask(url, `add?${profile}&pin=true&pin-name=sealpin`, multipart({ bytes: hello, name: 'x' }));
    expect(reply.records()).toEqual([{ Name: 'x', Hash: helloCid, Size: '11' }]);
    expect((await ask(url, `pin/ls?arg=${helloCid}&type=recursive&names=true`)).json()).toEqual({
      Keys: { [helloCid]: { Type: 'recursive', Name: 'sealpin' } },
    });
  });

  test('takes several files or none of them', async () => {
    const { url, dir } = await node();
    const reply = await ask(url, 'add', multipart({ bytes: hello, name: 'a' }, { bytes: new Uint8Array(), name: 'b' }));
    expect(reply.records().map((record) => record['Name'])).toEqual(['a', 'b']);
    const refused = await ask(
      url,
      'add',
      multipart({ bytes: randomBytes(10) }, { bytes: new Uint8Array(), type: 'application/x-directory' }),
    );
    expect(refused).toMatchObject({ status: 400 });
    expect(refused.json()).toEqual({ Message: 'this node stores files only', Code: 1, Type: 'error' });
    expect(await readdir(join(dir, 'data'))).toHaveLength(2);
  });

  test('keeps nothing of what was cut off before the closing boundary', async () => {
    const { url, dir } = await node();
    const { body, headers } = multipart({ bytes: randomBytes(3 * leafBytes) });
    for (const length of [0, 10, 100, leafBytes, body.length - 9]) {
      const reply = await ask(url, 'add', { headers, body: body.subarray(0, length) });
      expect(reply.status).toBe(400);
      expect(reply.json()['Message']).toBe('multipart: unexpected end of the body');
    }
    // The same, by a connection that breaks.
    const { port } = new URL(url);
    for (const length of [leafBytes, body.length - 9]) {
      const socket = createConnection(Number(port), '127.0.0.1');
      socket.write(
        `POST /api/v0/add HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer token-of-the-tests\r\n` +
          `Content-Type: ${headers['content-type']}\r\nContent-Length: ${body.length}\r\n\r\n`,
      );
      await new Promise((resolve) => socket.write(body.subarray(0, length), resolve));
      await new Promise((resolve) => setTimeout(resolve, 50));
      socket.resetAndDestroy();
    }
    await expect.poll(() => readdir(join(dir, 'data'))).toEqual([]);
    expect((await ask(url, 'pin/ls')).json()).toEqual({ Keys: {} });
  });

  test.each([
    'cid-version=0',
    'raw-leaves=false',
    'chunker=size-262144',
    'chunker=buzhash',
    'max-file-links=174',
    'hash=blake3',
    'trickle=true',
    'inline=true',
    'wrap-with-directory=true',
    'nocopy=true',
  ])('refuses %s: it would be another CID', async (option) => {
    const { url } = await node();
    const reply = await ask(url, `add?${option}`, multipart({ bytes: hello }));
    expect(reply.status).toBe(400);
    expect(reply.json()).toMatchObject({
      Message: expect.stringContaining('unixfs-v1-2025 only'),
      Code: 1,
      Type: 'error',
    });
  });

  test('refuses names that Kubo refuses, and bodies that are none', async () => {
    const { url } = await node();
    for (const query of [`pin-name=${'ä'.repeat(128)}`, 'pin=false&pin-name=x', 'pin=perhaps'])
      expect((await ask(url, `add?${query}`, multipart({ bytes: hello }))).status).toBe(400);
    expect((await ask(url, 'add', { body: hello })).json()).toEqual({
      Message: 'Content-Type is not multipart/form-data with a boundary',
      Code: 1,
      Type: 'error',
    });
    expect((await ask(url, 'add', multipart())).status).toBe(400);
  });

  test('computes only, when asked to', async () => {
    const { url, dir } = await node();
    expect(await add(url, hello, '?only-hash=true')).toBe(helloCid);
    expect(await readdir(join(dir, 'data'))).toEqual([]);
    expect((await ask(url, `block/stat?arg=${helloCid}`)).status).toBe(500);
  });

  test('S89: many at once do not disturb each other, and the same bytes are kept once', async () => {
    const { url, dir } = await node();
    const files = Array.from({ length: 12 }, (_, i) =>
      i % 3 === 0 ? Buffer.alloc(2 * leafBytes + 3, 1) : randomBytes(leafBytes + i),
    );
    const cids = await Promise.all(files.map((bytes) => add(url, bytes)));
    expect(new Set(cids).size).toBe(9);
    expect(await readdir(join(dir, 'data'))).toHaveLength(9);
    for (const [i, cid] of cids.entries())
      expect((await ask(url, `cat?arg=${cid}`)).text === present(files[i]).toString('latin1')).toBe(true);
  });
});

describe('reading', () => {
  test('cat gives any part of a file, also through /ipfs/, and of each part of it', async () => {
    const { url } = await node();
    const bytes = randomBytes(2 * leafBytes + 10);
    const cid = await add(url, bytes);
    const text = bytes.toString('latin1');
    for (const [query, expected] of [
      ['', text],
      ['&offset=0&length=5', text.slice(0, 5)],
      [`&offset=${leafBytes - 1}&length=2`, text.slice(leafBytes - 1, leafBytes + 1)],
      [`&offset=${2 * leafBytes + 9}`, text.slice(-1)],
      ['&length=0', ''],
      ['&offset=99999999', ''],
      ['&offset=5&length=99999999', text.slice(5)],
    ] as const) {
      for (const arg of [cid, `/ipfs/${cid}`]) {
        const reply = await ask(url, `cat?arg=${arg}${query}`);
        expect(reply.text === expected, `${arg} ${query}`).toBe(true);
        expect(reply.headers).toMatchObject({
          'content-type': 'text/plain',
          'x-content-length': String(expected.length),
          'content-length': String(expected.length),
          'x-stream-output': '1',
        });
      }
    }
    const leaf = await ask(url, `add?only-hash=true`, multipart({ bytes: bytes.subarray(leafBytes, 2 * leafBytes) }));
    const second = await ask(url, `cat?arg=${String(leaf.json()['Hash'])}&offset=1&length=3`);
    expect(second.text).toBe(text.slice(leafBytes + 1, leafBytes + 4));
  });

  test('block/get and block/stat give nodes and leaves', async () => {
    const { url } = await node();
    const cid = await add(url, randomBytes(leafBytes + 10));
    const root = await ask(url, `block/get?arg=${cid}`);
    expect(root.headers['content-type']).toBe('application/vnd.ipld.raw');
    expect((await ask(url, `block/stat?arg=${cid}`)).json()).toEqual({ Key: cid, Size: root.text.length });
    await add(url, hello);
    expect((await ask(url, `block/get?arg=${helloCid}`)).text).toBe('hello world');
    expect((await ask(url, `block/stat?arg=${helloCid}`)).json()).toEqual({ Key: helloCid, Size: 11 });
  });

  test('what is not there is reported as by an offline Kubo', async () => {
    const { url } = await node();
    for (const command of ['cat', 'block/get', 'block/stat', 'pin/add']) {
      const reply = await ask(url, `${command}?arg=${helloCid}`);
      expect(reply.status).toBe(500);
      expect(reply.headers['content-type']).toBe('application/json');
      expect(reply.json()).toMatchObject({
        Message: expect.stringMatching(
          new RegExp(`block was not found locally \\(offline\\): ipld: could not find ${helloCid}$`),
        ),
        Code: 0,
        Type: 'error',
      });
    }
  });

  test('arguments that are none are refused', async () => {
    const { url } = await node();
    for (const query of [
      '',
      '?arg=',
      '?arg=QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH',
      `?arg=${helloCid}/../x`,
      `?arg=${helloCid}&arg=${helloCid}`,
    ]) {
      expect([400, 500]).toContain((await ask(url, `cat${query}`)).status);
    }
    await add(url, hello);
    for (const query of ['offset=-1', 'length=x', 'offset=1e3', 'offset=99999999999999999999'])
      expect((await ask(url, `cat?arg=${helloCid}&${query}`)).status).toBe(400);
  });

  test('a file that vanished from the disk is an error, not an empty answer', async () => {
    const { url, dir } = await node();
    const cid = await add(url, randomBytes(1000));
    const [name] = await readdir(join(dir, 'data'));
    await writeFile(join(dir, 'data', present(name)), 'short');
    for (const command of ['block/get', 'cat'])
      expect((await ask(url, `${command}?arg=${cid}`)).json()).toMatchObject({
        Message: 'the data file on disk is too short',
      });
  });
});

describe('pins', () => {
  test('pin/rm removes the pin and the bytes at once, and a second time says so in the words of Kubo', async () => {
    const { url, dir } = await node();
    await add(url, hello);
    expect((await ask(url, `pin/rm?arg=${helloCid}`)).json()).toEqual({ Pins: [helloCid] });
    expect(await readdir(join(dir, 'data'))).toEqual([]);
    const again = await ask(url, `pin/rm?arg=${helloCid}`);
    expect(again.status).toBe(500);
    expect(again.json()).toEqual({ Message: 'not pinned or pinned indirectly', Code: 0, Type: 'error' });
  });

  test('pin/ls lists recursive and indirect pins, by CID, type and as a stream', async () => {
    const { url } = await node();
    const bytes = randomBytes(leafBytes + 10);
    const cid = await add(url, bytes);
    const leaf = await add(url, bytes.subarray(0, leafBytes), '?only-hash=true');
    expect((await ask(url, 'pin/ls?type=recursive')).json()).toEqual({
      Keys: { [cid]: { Type: 'recursive', Name: '' } },
    });
    expect((await ask(url, `pin/ls?arg=${leaf}`)).json()).toEqual({
      Keys: { [leaf]: { Type: `indirect through ${cid}`, Name: '' } },
    });
    expect(Object.keys(present((await ask(url, 'pin/ls?type=indirect')).json().Keys))).toHaveLength(2);
    expect(Object.keys(present((await ask(url, 'pin/ls')).json().Keys))).toHaveLength(3);
    expect((await ask(url, 'pin/ls?type=recursive&stream=true')).records()).toEqual([
      { Cid: cid, Type: 'recursive', Name: '' },
    ]);
    expect((await ask(url, `pin/ls?arg=${leaf}&type=recursive`)).json()).toMatchObject({
      Message: `path '/ipfs/${leaf}' is not pinned`,
      Code: 0,
    });
    expect((await ask(url, 'pin/ls?type=some')).status).toBe(400);
    expect((await ask(url, `pin/rm?arg=${leaf}`)).json()).toMatchObject({ Message: 'not pinned or pinned indirectly' });
  });

  test('a file that was added without a pin is kept for an hour', async () => {
    let now = 1_000_000;
    const running = await node({ now: () => now });
    await add(running.url, hello, '?pin=false');
    now += 3_599_000;
    await running.close();
    const second = await node({ dir: running.dir, now: () => now });
    expect((await ask(second.url, `cat?arg=${helloCid}`)).text).toBe('hello world');
    await second.close();
    now += 2_000;
    const third = await node({ dir: running.dir, now: () => now });
    expect((await ask(third.url, `cat?arg=${helloCid}`)).status).toBe(500);
    expect(await readdir(join(running.dir, 'data'))).toEqual([]);
  });

  test('a pin within that hour keeps it, and its removal ends it at once', async () => {
    let now = 1_000_000;
    const { url } = await node({ now: () => now });
    await add(url, hello, '?pin=false');
    expect((await ask(url, `pin/add?arg=${helloCid}&name=n`)).json()).toEqual({ Pins: [helloCid] });
    now += 7_200_000;
    await ask(url, 'repo/gc');
    expect((await ask(url, `cat?arg=${helloCid}`)).text).toBe('hello world');
    await ask(url, `pin/rm?arg=${helloCid}`);
    expect((await ask(url, `cat?arg=${helloCid}`)).status).toBe(500);
  });

  test('repo/gc removes what is not pinned and names the blocks', async () => {
    const { url } = await node();
    await add(url, hello, '?pin=false');
    const kept = await add(url, randomBytes(10));
    expect((await ask(url, 'repo/gc')).records()).toEqual([{ Key: { '/': helloCid } }]);
    expect((await ask(url, `block/stat?arg=${kept}`)).status).toBe(200);
  });
});

describe('the node itself', () => {
  test('gives its id and version', async () => {
    const { url } = await node();
    expect((await ask(url, 'version')).json()).toMatchObject({ Version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    expect((await ask(url, 'id')).json()).toMatchObject({ ID: expect.stringMatching(/^Qm\w{44}$/), Addresses: [] });
  });

  test('keeps everything over a stop and a start', async () => {
    const first = await node();
    const bytes = randomBytes(2 * leafBytes);
    const cid = await add(first.url, bytes);
    await first.close();
    const second = await node({ dir: first.dir });
    expect((await ask(second.url, `cat?arg=${cid}`)).text === bytes.toString('latin1')).toBe(true);
    expect(present((await ask(second.url, 'pin/ls?type=recursive')).json().Keys)).toHaveProperty(cid);
  });

  test('does not share its directory nor its port', async () => {
    const first = await node();
    await expect(node({ dir: first.dir })).rejects.toThrow(/locked/);
    await expect(node({ port: Number(new URL(first.url).port) })).rejects.toSatisfy((error) =>
      isSealpinError(error, 'port_in_use'),
    );
  });

  test('does not open what a newer one wrote', async () => {
    const dir = await directory();
    const { DatabaseSync } = await import('node:sqlite');
    const db = new DatabaseSync(join(dir, 'node.db'));
    db.exec('PRAGMA user_version = 3');
    db.close();
    await expect(node({ dir })).rejects.toThrow('newer sealpin');
  });

  test('S89: a stop ends what is running and leaves nothing of it', async () => {
    const running = await node();
    const { body, headers } = multipart({ bytes: randomBytes(leafBytes) });
    const { port } = new URL(running.url);
    const socket = createConnection(Number(port), '127.0.0.1').on('error', () => undefined);
    socket.write(
      `POST /api/v0/add HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer token-of-the-tests\r\n` +
        `Content-Type: ${headers['content-type']}\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    socket.write(body.subarray(0, 500_000));
    await expect.poll(() => readdir(join(running.dir, 'data'))).toHaveLength(1);
    await running.close();
    expect(await readdir(join(running.dir, 'data'))).toEqual([]);
  });
});

test('a refused upload gets its response on the connection, which stays open', async () => {
  const { url } = await node();
  const bytes = randomBytes(8 * leafBytes);
  const { body, headers } = multipart({ bytes: new Uint8Array(10), type: 'application/x-directory' }, { bytes });
  const { Agent, request } = await import('node:http');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  for (let i = 0; i < 4; i += 1) {
    const status = await new Promise((resolve, reject) => {
      const sent = request(
        `${url}/api/v0/add`,
        { method: 'POST', agent, headers: { ...headers, authorization: 'Bearer token-of-the-tests' } },
        (response) => response.resume().on('end', () => resolve(response.statusCode)),
      );
      sent.on('error', reject).end(body);
    });
    expect(status).toBe(400);
  }
});
