/**
 * Commands that fail after part of their work is done: they print what is done, as they would have
 * in the end.
 */
import { mkdir } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { listenForControl } from '../../local/control.ts';
import { localPaths } from '../../local/state.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { hostile, json, someApiKey, storedFile } from '../hostile.ts';

const printed = ({ stdout }: Ran): unknown => JSON.parse(stdout);

test.each([
  { argv: ['delete'], member: 'receipts' },
  { argv: ['set', '--expires', 'never'], member: 'files' },
])('$argv.0 prints what it did to the first of several files', async ({ argv: [verb = '', ...flags], member }) => {
  const cid = 'bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy';
  const [one, two] = ['1', '2'].map((digit) => ({
    ...storedFile(cid, 7),
    fileId: `${digit}${storedFile('', 0).fileId.slice(1)}`,
  }));
  const { url } = await hostile({
    'GET /v1/storage/1': (_, response) => json(response, 200, one),
    'PATCH /v1/storage/1': (_, response) => json(response, 200, one),
    'DELETE /v1/storage/1': (_, response) => json(response, 200, { fileId: one?.fileId, key: 'none', pins: [] }),
    'GET /v1/storage?': (_, response) => json(response, 200, { files: [one, two] }),
    'GET /v1/health': (_, response) => json(response, 200, { status: 'ok', version: '0.1.0', maxUploadBytes: null }),
  });
  const home = await temporaryDirectory();
  const ran = await run([verb, cid, ...flags, '--json', '--service', url, '--data-dir', home], home, {
    env: { SEALPIN_API_KEY: someApiKey },
  });
  expect(ran).toMatchObject({ exit: 6 });
  expect(printed(ran)).toMatchObject({ [member]: [{ fileId: one?.fileId }] });
});

test('verify --local prints what it has read, and where to continue', async () => {
  const home = await temporaryDirectory();
  const { control, local: folder } = localPaths(home);
  await mkdir(folder, { recursive: true });
  const first = { blocks: 3, bytes: 30, bad: 0, first: [], next: '1-2' };
  const server = await listenForControl(control, {
    verify: async ({ position }: { position?: string }) => {
      if (position !== undefined) throw new Error('the disk is gone');
      return first;
    },
  } as never);
  const ran = await run(['verify', '--local', '--json', '--data-dir', home], home);
  await server.close();
  expect(ran.exit).toBe(6);
  expect(printed(ran)).toEqual({ blocks: 3, size: 30, bad: 0, first: [], next: '1-2' });
});
