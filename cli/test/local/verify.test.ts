/** `sealpin verify --all` and `--local`, and what is said of a file whose bytes are lost. */
import { randomBytes } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { localPaths } from '../../local/state.ts';
import { ask, here, remove, startHere, store, type RunningHere } from './harness.ts';
import { first, flip, itemOf, present } from '../../../testkit/present.ts';

let service: RunningHere;
beforeAll(async () => {
  service = await startHere();
});
afterAll(() => remove(service));

const verify = (...args: string[]) => here(['verify', ...args, `--data-dir=${service.dataDir}`]);
const parsed = (text: string): unknown => JSON.parse(text);

/** The data file of the embedded node that has these bytes. */
async function fileWith(bytes: Buffer): Promise<string> {
  const data = join(localPaths(service.dataDir).ipfs, 'data');
  for (const name of await readdir(data)) {
    const path = join(data, name);
    if ((await readFile(path)).includes(bytes.subarray(-64))) return path;
  }
  throw new Error('no file has them');
}

test('all that an account and the node have is verified, and what is damaged or missing is named', async () => {
  const contents = [20, 1_500_000, 3_000].map((length) => randomBytes(length));
  const files = [];
  for (const bytes of contents) files.push(await store(service, 'plain', new Uint8Array(bytes)));
  const [small, large, lost] = files;
  // The same bytes again are read once.
  await store(service, 'plain', new Uint8Array(first(contents)));
  const size = 1_503_020;
  expect(parsed((await verify('--all', '--json')).stdout)).toEqual({ files: 4, size, bad: [] });
  expect(await verify('--all')).toMatchObject({
    code: 0,
    stdout: '',
    stderr: 'sealpin: all blocks of 4 files are present and intact (1.4 MiB)\n',
  });
  const whole = parsed((await verify('--local', '--json')).stdout) as { blocks: number };
  expect(whole).toMatchObject({ bad: 0, first: [] });
  expect((await verify('--local')).stderr).toMatch(/^sealpin: \d+ blocks of the IPFS node are present and intact/);

  const path = await fileWith(itemOf(contents, 1));
  const bytes = await readFile(path);
  flip(bytes, bytes.indexOf(itemOf(contents, 1).subarray(-64)));
  await writeFile(path, bytes);
  await rm(await fileWith(itemOf(contents, 2)));
  const all = await verify('--all', '--json');
  expect(all.code).toBe(5);
  expect(parsed(all.stdout)).toEqual({
    files: 4,
    size: 20,
    bad: [
      expect.objectContaining({ fileId: present(large).fileId, blobId: present(large).cid }) as object,
      expect.objectContaining({
        fileId: present(lost).fileId,
        blobId: present(lost).cid,
        code: 'pinning_lost',
      }) as object,
    ],
  });
  const local = await verify('--local', '--json');
  expect(local.code).toBe(5);
  expect(parsed(local.stdout)).toMatchObject({
    bad: 2,
    blocks: whole.blocks - 2,
    first: expect.arrayContaining([
      expect.objectContaining({ cid: present(lost).cid, why: 'missing' }),
      expect.objectContaining({ why: 'damaged' }),
    ]) as object,
  });
  expect((await verify('--local')).stderr).toContain(`${present(lost).cid} is missing`);

  // By its ID, too, a file that is lost is not one that may be there the next time.
  for (const [file, exit] of [
    [large, 5],
    [lost, 3],
  ] as const) {
    const { code, stderr } = await verify(present(file).fileId);
    expect(code).toBe(exit);
    expect(stderr).not.toMatch(/try again|stopped in the middle|status 502/);
  }
  expect((await verify(present(small).fileId)).code).toBe(0);

  const repair = (...more: string[]) => here(['repair', ...more, `--data-dir=${service.dataDir}`]);
  // Its bytes are read at the backend.
  await ask(service, 'verifyFile', { fileId: present(large).fileId });
  const repaired = await repair();
  expect(repaired).toMatchObject({ code: 6, stdout: '' });
  for (const { cid, fileId } of [present(large), present(lost)])
    expect(repaired.stderr).toContain(`sealpin: warning: ${cid} (file ${fileId}): local has lost it`);
  expect(repaired.stderr).toContain('store the same bytes again\n');
  // What is stored takes the place of what is damaged.
  for (const bytes of contents) await store(service, 'plain', new Uint8Array(bytes));
  expect(parsed((await repair('--json')).stdout)).toEqual({ pins: 3, copying: 0, waiting: 0, bad: [] });
  expect(await verify('--all')).toMatchObject({ code: 0 });
});

test('one of an ID, --all and --local is verified', async () => {
  for (const args of [[], ['--all', '--local'], ['bafkreia', '--all'], ['--all', '--open'], ['--local', '--key=k']])
    expect(await verify(...args)).toMatchObject({ code: 2 });
});
