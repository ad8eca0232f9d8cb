/** Requests whose connection is closed before the answer. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { faultyProxy } from '../../../testkit/faulty-proxy.ts';
import { sendRequest } from '../../io/http.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { hostile } from '../hostile.ts';
import { sharedLocalService } from '../local.ts';

const local = sharedLocalService();

test('every command gets through where the first answer to each read is lost', async () => {
  const desk = await temporaryDirectory();
  const names = Array.from({ length: 12 }, (_, index) => `${index}.txt`);
  for (const name of names) await writeFile(join(desk, name), name);
  await mkdir(join(desk, 'got'));
  const keyOf = ({ method, path, headers }: { method: string; path: string; headers: IncomingMessage['headers'] }) =>
    [method, path, headers['accept']].join();
  const { url, passed } = await faultyProxy(
    () => local.url,
    (request, before) => {
      const isFirst = !before.some((other) => keyOf(other) === keyOf(request));
      return request.method === 'GET' && isFirst ? { kind: 'swallow' } : undefined;
    },
  );
  const env = { SEALPIN_SERVICE: `${url}/`, SEALPIN_API_KEY: local.apiKey, SEALPIN_PASSWORD: 'violet-anchor-tundra' };
  const printed = async (...argv: string[]): Promise<string> => {
    const ran = await run([...argv, '--quiet', '--data-dir', 'home'], desk, { env });
    expect(ran.exit, `${argv.join(' ')}: ${ran.stderr}`).toBe(0);
    return ran.stdout.trim();
  };
  const link = await printed('send', ...names);
  await printed('receive', link, 'got');
  for (const name of names) expect(await readFile(join(desk, 'got', name), 'utf8')).toBe(name);
  const blob = await printed('encrypt', '0.txt');
  await printed('decrypt', blob, 'out');
  await printed('verify', blob);
  expect(await printed('list')).toContain(blob);
  await printed('delete', blob, '--yes');
  expect(passed.filter(({ method }) => method === 'GET').length).toBeGreaterThan(2 * names.length);
});

const ends = {
  'at once': (request: IncomingMessage) => request.socket.destroy(),
  'with a reset': (request: IncomingMessage) => request.socket.resetAndDestroy(),
  'in order': (request: IncomingMessage) => request.socket.end(),
} as const;

test.each(Object.keys(ends) as (keyof typeof ends)[])(
  'a read is sent twice where the connection is closed %s, and nothing else is',
  async (how) => {
    const { url, seen } = await hostile({ '': (request) => ends[how](request) });
    const timeouts = { stallMs: 5000, bytes: 1, responseMs: 5000 };
    for (const method of ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'] as const) {
      seen.length = 0;
      const sent = sendRequest(new URL(url), { method, signal: new AbortController().signal, timeouts });
      await expect(sent).rejects.toMatchObject({ code: 'service_unreachable', reason: 'unanswered' });
      expect({ method, times: seen.length }).toEqual({ method, times: ['GET', 'HEAD'].includes(method) ? 2 : 1 });
    }
  },
);
