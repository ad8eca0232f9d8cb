/** Tests of the service that a command talks to, and the API key that it sends there. */
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseServiceUrl } from '../../remote/service-choice.ts';
import { encryptTo, env } from '../encryption.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { account, health, hostile, json, someApiKey } from '../hostile.ts';

describe('which service', () => {
  test('none: says how to start one, exit 1', async () => {
    const ran = await encryptTo(undefined);
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr.replace(/--data-dir '.*' /, '')).toBe(
      'sealpin: error: no service is configured, and no local service is running\n' +
        'sealpin: hint: to encrypt into a file, without a service: --output <file>; ' +
        'to store it: sealpin login <url>, or, on this computer only: sealpin start --detach\n',
    );
  });

  test('nothing listens there: one clear error', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    server.close();
    await once(server, 'close');
    const ran = await encryptTo(`http://127.0.0.1:${port}`);
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr).toContain(`sealpin: error: 127.0.0.1:${port} cannot be reached: connection refused\n`);
  });

  test('the flag before the environment before the configuration', async () => {
    const [flag, environment, configured] = await Promise.all([hostile({}), hostile({}), hostile({})]);
    const directory = await temporaryDirectory();
    await writeFile(
      join(directory, 'config.json'),
      JSON.stringify({ v: 1, service: configured.url, apiKey: someApiKey }),
      { mode: 0o600 },
    );
    const list = (argv: string[], more: Record<string, string> = {}) =>
      run(['list', '--data-dir', directory, ...argv], directory, { env: more });
    await list(['--service', flag.url], { ...env, SEALPIN_SERVICE: environment.url });
    expect(flag.seen.length).toBe(1);
    expect(environment.seen.length).toBe(0);
    expect(configured.seen.length).toBe(0);
    await list([], { ...env, SEALPIN_SERVICE: environment.url });
    expect(flag.seen.length).toBe(1);
    expect(environment.seen.length).toBe(1);
    expect(configured.seen.length).toBe(0);
    await list([]);
    expect(flag.seen.length).toBe(1);
    expect(environment.seen.length).toBe(1);
    expect(configured.seen.length).toBe(1);
    expect(configured.seen[0]?.headers.authorization).toBe(`Bearer ${someApiKey}`);
  });

  test.each([
    { text: 'sealpin.example.com', says: 'is not a URL' },
    { text: 'ftp://sealpin.example.com', says: 'is not an https: URL' },
    { text: 'https://user:canary@sealpin.example.com', says: 'contains a user or a password' },
    { text: 'https://sealpin.example.com/?key=canary', says: 'contains a query or a fragment' },
  ])('$text is refused as an address, and not repeated', ({ text, says }) => {
    expect(() => parseServiceUrl(text, '--service')).toThrow(`--service ${says}`);
    expect(() => parseServiceUrl(text, '--service')).not.toThrow('canary');
  });
});

describe('S61: the API key', () => {
  test.each([{ service: 'https://mine.example' }, {}])(
    'that is stored for one service (%j) is not sent to another one',
    async (configured) => {
      const other = await hostile({});
      const directory = await temporaryDirectory();
      await writeFile(join(directory, 'config.json'), JSON.stringify({ v: 1, ...configured, apiKey: someApiKey }), {
        mode: 0o600,
      });
      const ran = await run(['list', '--data-dir', directory, '--service', other.url], directory);
      expect(ran).toMatchObject({ exit: 2, stdout: '' });
      expect(ran.stderr).toContain('there is no API key for 127.0.0.1');
      expect(other.seen).toEqual([]);
    },
  );

  test('never goes over http: except to loopback', async () => {
    const ran = await encryptTo('http://192.0.2.1');
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain(
      'sealpin: error: the API key would be sent to 192.0.2.1 unencrypted\nsealpin: hint: use https:\n',
    );
  });

  test.each([['list'], ['key', 'list'], ['account', 'list']])(
    'where there is none, an address over http: is refused before one is asked for: %s %s',
    async (...argv) => {
      const ran = await run([...argv, '--service', 'http://192.0.2.1'], await temporaryDirectory());
      expect(ran).toMatchObject({ exit: 2, stdout: '' });
      expect(ran.stderr).toContain('192.0.2.1 unencrypted\nsealpin: hint: use https:\n');
    },
  );

  test.each(['sp_short', `sp_${'0'.repeat(70)}\n`])(
    'that is malformed (%j) is refused here, and not repeated',
    async (key) => {
      const ran = await encryptTo('http://127.0.0.1:1', { env: { ...env, SEALPIN_API_KEY: key } });
      expect(ran).toMatchObject({ exit: 4, stdout: '' });
      expect(ran.stderr).toContain('SEALPIN_API_KEY is not an API key');
      expect(ran.stderr).not.toContain(key);
    },
  );

  test('that is refused by the service: one clear error, exit 1', async () => {
    const service = await hostile({
      'GET /v1/health': health(),
      'GET /v1/account': (_request, response) =>
        json(response, 401, {
          type: 'about:blank',
          title: 'no',
          status: 401,
          code: 'unauthorized',
          detail: 'the API key is revoked',
          hint: 'send Authorization',
        }),
    });
    const ran = await encryptTo(service.url);
    expect(ran).toMatchObject({ exit: 4, stdout: '' });
    expect(ran.stderr).toBe('sealpin: error: the API key is revoked\nsealpin: hint: check SEALPIN_API_KEY\n');
    expect(service.seen.map(({ url }) => url)).toEqual(['/v1/health', '/v1/account']);
  });

  test('that may not write is reported before a byte is sent', async () => {
    const service = await hostile({ 'GET /v1/health': health(), 'GET /v1/account': account(['read', 'delete']) });
    const ran = await encryptTo(service.url);
    expect(ran).toMatchObject({ exit: 4, stdout: '' });
    expect(ran.stderr).toBe(
      'sealpin: error: the API key may not store files\nsealpin: hint: use a key with the scope write\n',
    );
    expect(service.seen.map(({ method }) => method)).toEqual(['GET', 'GET']);
  });
});
