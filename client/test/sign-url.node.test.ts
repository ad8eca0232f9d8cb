/** Signed URLs of the SDK, at the service. */
import { beforeAll, expect, test } from 'vitest';
import { sharedService, type Service } from '../../testkit/service.ts';
import { connect, generateKeys, open, signUrl, type Connection } from '../index.ts';
import { thrownBy } from './bytes.ts';

let service: Service;
let apiKey: string;
let connection: Connection;
beforeAll(async () => {
  service = await sharedService();
  ({ apiKey } = await service.account());
  connection = connect({ service: service.url, apiKey });
});

test('a URL for an upload stores a file of at most so many bytes', async () => {
  const url = await signUrl({ service: service.url, apiKey, expiresIn: 60, store: 'encrypted', maxBytes: 5 });
  const headers = { 'Content-Disposition': 'inline; filename=a.txt', 'Content-Type': 'text/plain' };
  expect((await fetch(url, { method: 'POST', headers, body: 'longer' })).status).toBe(413);
  const stored = await fetch(url, { method: 'POST', headers, body: 'hello' });
  const { fileId } = (await stored.json()) as { fileId: string };
  expect(await (await connection.get(fileId)).text()).toBe('hello');
});

test('a URL for a download gives the file, once if it says so', async () => {
  const { fileId } = await connection.put('plain', { mode: 'plain', type: 'text/plain' });
  const often = await signUrl({ service: `${service.url}/`, apiKey, expiresIn: 60, fileId });
  for (let each = 0; each < 2; each += 1) expect(await (await fetch(often)).text()).toBe('plain');
  const once = await signUrl({ service: service.url, apiKey, expiresIn: 60, fileId, once: true });
  expect((await fetch(once)).status).toBe(200);
  expect((await fetch(once)).status).toBe(410);
});

test('a URL for an encrypted file gives a container that does not open by the URL', async () => {
  const { fileId } = await connection.put('secret', { name: 'a' });
  const container = await (await fetch(await signUrl({ service: service.url, apiKey, expiresIn: 60, fileId }))).blob();
  const { privateKey } = await generateKeys();
  expect(await thrownBy(() => open(container, { with: { keys: privateKey } }))).toMatchObject({
    code: 'decrypt_failed',
  });
});

test('a URL is not signed with what is no key, for no service, or for too long', async () => {
  const common = { service: service.url, apiKey, expiresIn: 60, fileId: crypto.randomUUID() };
  for (const [wrong, code] of [
    [{ apiKey: `${apiKey.slice(0, -1)}!` }, 'unauthorized'],
    [{ service: 'ftp://x' }, 'invalid_request'],
    [{ expiresIn: 7 * 86_400 + 1 }, 'invalid_request'],
    [{ expiresIn: 0 }, 'invalid_request'],
    [{ expiresIn: Number.NaN }, 'invalid_request'],
  ] as const)
    expect(await thrownBy(() => signUrl({ ...common, ...wrong }))).toMatchObject({ code });
});
