/** `restore` on the folder of docs/backups.md, as it is and with parts replaced. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { backupVector as vector, changedFolder, writeFiles } from '../../../testkit/backup-vector.ts';
import { ci, long } from '../../../testkit/long-run.ts';
import { accountIn, password, sealpin } from '../backup-accounts.ts';
import { temporaryDirectory } from '../environment.ts';
import { sharedLocalService } from '../local.ts';

const local = sharedLocalService();
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Restores a folder into a new account. @returns what it has of the files that open, in hex */
async function restored(folder: Readonly<Record<string, Uint8Array>>): Promise<{ exit: number; files: string[] }> {
  const [account, directory] = [await accountIn(local), await temporaryDirectory()];
  await mkdir(join(directory, 'copy/blobs'), { recursive: true });
  await writeFiles(join(directory, 'copy'), folder);
  const { exit } = await sealpin(account, ['restore', 'copy'], directory);
  const { files } = await account.files.list();
  const known = Object.values(vector.opens).map(hex);
  const bytes = await Promise.all(
    files.map(async ({ fileId }) => hex(await (await account.files.get(fileId)).bytes())),
  );
  return { exit, files: bytes.filter((each) => known.includes(each)).toSorted() };
}

test('restores every file of the vector', async () => {
  expect(vector.password).toBe(password);
  const { exit, files } = await restored(vector.folder);
  expect({ exit, files }).toEqual({ exit: 0, files: Object.values(vector.opens).map(hex).toSorted() });
});

/** One that is noticed by the blob, and in CI one by the record. */
const few = ci ? /another blob of plain mode|a record of another version/ : /another blob of plain mode/;
const refused = vector.refused.filter(({ name }) => long || few.test(name));

test.each(refused)('restores of a backup with $name all other files', async ({ change, lost }) => {
  const { exit, files } = await restored(changedFolder(change));
  expect(exit === 0).toBe(lost.length === 0);
  const kept = Object.entries(vector.opens).filter(([name]) => !lost.includes(name));
  expect(files).toEqual(kept.map(([, bytes]) => hex(bytes)).toSorted());
});
