/** The programs in docs/clients, at a service whose line breaks. */
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { installed, withProgram } from '../../../testkit/programs/programs.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf } from '../../../testkit/api-client.ts';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import { ci, long } from '../../../testkit/long-run.ts';

const folder = join(import.meta.dirname, '../../../docs/clients');

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

type Line = { url: string; seen: { method: string; key: string | undefined; status: number }[] };

/**
 * A proxy before the service. It breaks the connection of the first upload when the service has
 * stored the file, and answers the second one itself, with 503; the third one passes.
 */
async function startLine(): Promise<Line> {
  const seen: Line['seen'] = [];
  const server = await startLoopbackServer((request, response) => {
    void (async () => {
      const body = await buffer(request);
      const { method = '', url = '', headers } = request;
      const entry = { method, key: headers['idempotency-key'] as string | undefined, status: 503 };
      const uploads = seen.filter((each) => each.method === 'POST').length;
      seen.push(entry);
      if (method === 'POST' && uploads === 1) return response.writeHead(503, { 'Retry-After': '0' }).end('busy');
      const { host: _, connection: __, 'content-length': ___, ...rest } = headers;
      const init = { method, headers: rest as Record<string, string>, ...(body.length > 0 ? { body } : {}) };
      const answer = await fetch(`${service.url}${url}`, init);
      const bytes = Buffer.from(await answer.arrayBuffer());
      entry.status = answer.status;
      if (method === 'POST' && uploads === 0 && answer.ok) return request.socket.destroy();
      return response.writeHead(answer.status, { 'Content-Type': answer.headers.get('Content-Type') ?? '' }).end(bytes);
    })();
  });
  onTestFinished(() => server.close());
  return { url: server.url, seen };
}

/** Runs a client in a folder of its own, with a file to store. */
async function run(program: string, args: readonly string[], name: string, o: { url: string; apiKey: string }) {
  const cwd = await mkdtemp(join(tmpdir(), 'sealpin-client-'));
  onTestFinished(() => rm(cwd, { recursive: true, force: true }));
  await copyFile(join(folder, name), join(cwd, name));
  await writeFile(join(cwd, 'key.txt'), `Authorization: Bearer ${o.apiKey}\n`, { mode: 0o600 });
  await writeFile(join(cwd, 'a file (1).bin'), Buffer.from(Array.from({ length: 5000 }, (_, index) => index % 256)));
  const env = { ...process.env, SERVICE: o.url, KEY: o.apiKey };
  return await promisify(execFile)(program, [...args, name, 'a file (1).bin'], { cwd, env });
}

const clients = [
  ['python3', [], 'round-trip.py'],
  ...(ci
    ? ([
        ['bash', [], 'round-trip.sh'],
        ['node', [], 'round-trip.ts'],
      ] as const)
    : []),
  // It is compiled first, which takes longest.
  ...(long ? [['go', ['run'], 'round-trip.go'] as const] : []),
] as const;

describe.each(clients)('%s', (program, args, name) => {
  const probe = [program === 'go' ? 'version' : '--version'];
  // Debian's Go may be older than the client needs.
  withProgram(program, { probe, isOptional: program === 'go' }, () => {
    test(`${name} stores a file once, however often it must ask, reads it back and deletes it`, async () => {
      const { url, seen } = await startLine();
      const { apiKey } = await service.account();
      const { stdout } = await run(program, args, name, { url, apiKey });
      expect(JSON.parse(stdout)).toMatchObject({ key: 'destroyed' });
      expect(seen.map(({ method, status }) => [method, status])).toEqual([
        ['POST', 201],
        ['POST', 503],
        ['POST', 201],
        ['GET', 200],
        ['DELETE', 200],
      ]);
      expect(new Set(seen.slice(0, 3).map(({ key }) => key)).size).toBe(1);
      expect(seen[0]?.key).toMatch(/./);
      expect(await client(service.url, apiKey).listFiles()).toEqual({ files: [] });
    });

    test(`${name} does not repeat what stays refused`, async () => {
      const { url, seen } = await startLine();
      await expect(run(program, args, name, { url, apiKey: 'sp_wrong' })).rejects.toThrow(/401 .*unauthorized/s);
      expect(seen.map(({ status }) => status)).toEqual([401]);
    });
  });
});

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  test('sign-url.py signs URLs for one upload and one download, and sends nothing', async () => {
    const { apiKey } = await service.account();
    const sign = async (claims: object): Promise<string> => {
      const env = { ...process.env, SERVICE: service.url, KEY: apiKey };
      const args = [join(folder, 'sign-url.py'), JSON.stringify(claims)];
      return (await promisify(execFile)(installed('cryptography-python'), args, { env })).stdout.trim();
    };
    const upload = await sign({ method: 'POST', mode: 'plain', bytes: 100 });
    const init = { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body: 'from outside' };
    const { fileId } = await jsonOf<{ fileId: string }>(fetch(upload, init), 201);
    const download = await sign({ method: 'GET', file: fileId });
    for (let each = 0; each < 2; each += 1) expect(await (await fetch(download)).text()).toBe('from outside');
    const once = await sign({ method: 'GET', file: fileId, jti: 'once' });
    expect((await fetch(once)).status).toBe(200);
    expect((await fetch(once)).status).toBe(410);
  });
});
