/** The folder of a backup in `open.html`, as it is and with parts replaced. */
import { expect, test } from 'vitest';
import { encrypt, parseRecipients } from '../../../shared/crypto/index.ts';
import { backupVector as vector, changedFolder, damagedFiles } from '../../../testkit/backup-vector.ts';
import { long } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { lookAtChosen } from '../../opener/chosen-files.ts';

/** Opens a folder as a browser gives it. @returns the names, and what can be read, in hex */
async function opened(folder: Readonly<Record<string, Buffer>>): Promise<{ names: string[]; files: string[] }> {
  const chosen = await lookAtChosen(
    Object.entries(folder).map(([path, bytes]) =>
      Object.defineProperty(new File([new Uint8Array(bytes)], path.split('/').at(-1) ?? ''), 'webkitRelativePath', {
        value: `copy/${path}`,
      }),
    ),
  );
  const { files } = await chosen.open({ password: vector.password });
  const hexOf = async (file: (typeof files)[number]) =>
    Buffer.from(await new Response(await file.open()).arrayBuffer()).toString('hex');
  const read = await Promise.all(files.map((file) => hexOf(file).catch(() => [])));
  return { names: files.map(({ name }) => name), files: read.flat() };
}

const hex = Object.entries(vector.opens).map(([name, bytes]) => [name, bytes.toString('hex')] as const);

/** Changes that a reader must look for itself; blocks and containers are the core's. */
const own = /another/;
const refused = vector.refused.filter(({ name }) => long || own.test(name));

test.each([{ name: 'nothing', change: {}, lost: [] }, ...refused])(
  'a backup with $name opens but for what the vector names',
  async ({ change, lost }: { change: Record<string, string | null>; lost: readonly string[] }) => {
    const { files } = await opened(changedFolder(change)).catch(() => ({ files: [] }));
    const expected = hex.filter(([name]) => !lost.includes(name)).map(([, bytes]) => bytes);
    const known = new Set(hex.map(([, bytes]) => bytes));
    expect(files.filter((each) => known.has(each)).toSorted()).toEqual(expected.toSorted());
  },
);

test('a damaged backup gives no other bytes, and ends', async () => {
  const whole = await opened(vector.folder);
  for (const { name, change } of damagedFiles(vector.folder, 35, long ? 1000 : 3)) {
    const { files } = await opened(changedFolder(change)).catch(() => ({ files: [] }));
    expect(
      files.filter((each) => !whole.files.includes(each)),
      name,
    ).toEqual([]);
  }
});

test('a file whose name none can have is saved under its ID', async () => {
  const { publicKey } = JSON.parse(present(vector.folder['backup.json']).toString()) as { publicKey: string };
  const path = 'files/3f786077-030f-4535-a03e-3864e1b47250.json';
  const record = JSON.parse(present(vector.folder[path]).toString()) as object;
  const details = new Blob([JSON.stringify({ filename: null, contentType: 'text/plain', name: 'a\nb' })]);
  const { stream } = await encrypt(details.stream(), { format: 'sealpin', recipients: parseRecipients(publicKey) });
  const sealed = Buffer.from(await new Response(stream).arrayBuffer()).toString('base64');
  const changed = Buffer.from(JSON.stringify({ ...record, sealed })).toString('base64');
  const { names, files } = await opened(changedFolder({ [path]: changed }));
  expect(names).toContain('3f786077-030f-4535-a03e-3864e1b47250');
  expect(files).toContain(Buffer.from('a plain file\n').toString('hex'));
});
