/** Small JSON files: what is written can be read again. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import * as v from 'valibot';
import { contextIn, temporaryDirectory } from '../environment.ts';
import { changeKept } from '../../io/kept-json.ts';
import { entryPath, layoutOf, writeAbout, writeRecord, BackupEntry, Restored } from '../../backup/layout.ts';
import { serviceFolder, writeManifest, type Manifest } from '../../backup/service/service-folder.ts';

const manifest = (path: string): Manifest => ({
  v: 1,
  sealpin: '0.1.0',
  takenAt: '2026-01-01T00:00:00.000Z',
  serviceId: 'a',
  files: [{ path, part: 'a'.repeat(64), bytes: 1 }],
  blocks: [],
});

test('a record that could not be read again is not written, and the one before stays', async () => {
  const directory = await temporaryDirectory();
  const context = contextIn(directory);
  const service = serviceFolder('.', context);
  const account = layoutOf('.', context);
  const about = { v: 1, service: 's', account: 'a', publicKey: 'p' } as const;
  const kept = { name: 'notes', shape: v.object({ note: v.pipe(v.string(), v.maxLength(3)) }), none: { note: '' } };
  await changeKept(kept, context, () => ({ note: 'old' }));
  await writeManifest(service, manifest('state/kv/a'), context);
  await writeAbout(account, about, context);
  const contents = async (): Promise<string[]> =>
    Promise.all(
      ['notes/notes.json', 'service.json', 'backup.json'].map((path) => readFile(join(directory, path), 'utf8')),
    );
  const before = await contents();
  const entry = { v: 1, fileId: 'none', cid: 'none', mode: 'plain', bytes: 1, createdAt: '' } as const;
  const writings: (() => Promise<void>)[] = [
    () => changeKept(kept, context, () => ({ note: 'longer' })),
    () =>
      changeKept({ ...kept, shape: v.object({ note: v.string() }) }, context, () => ({ note: 'x'.repeat(2 ** 24) })),
    ...['.a', 'state/kv/.a.tmp', '../a', '/a', ''].map((path) => () => writeManifest(service, manifest(path), context)),
    () => writeAbout(account, { ...about, files: ['none'] }, context),
    () => writeRecord(entryPath(account, 'none'), BackupEntry, entry, context),
    () => writeRecord(join(directory, 'restored'), Restored, { v: 1, fileId: 'none' }, context),
  ];
  for (const write of writings)
    await expect(write()).rejects.toMatchObject({ code: 'internal', message: /could not be read again/ });
  expect(await contents()).toEqual(before);
  expect((await readdir(directory)).toSorted()).toEqual(['backup.json', 'notes', 'service.json']);
});
