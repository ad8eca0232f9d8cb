/** Numbers that other programs write into headers of tar, and what is read of them. */
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openFolder } from '../../folder/pack.ts';
import { entriesIn } from '../../folder/part.ts';
import { byPassword, contain, env } from '../containers.ts';
import { contextIn, run, temporaryDirectory } from '../environment.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';

const before1970 = -152_668_800;

/** Makes archives of files with numbers in their headers, each followed by a file of its own. */
const script = `
import io, json, sys, tarfile
form, entries = json.loads(sys.argv[1])
out = tarfile.open(fileobj=sys.stdout.buffer, mode='w|', format=getattr(tarfile, form))
for index, numbers in enumerate(entries):
    for name, more in ((f'numbers {index}', numbers), (f'plain {index}', {})):
        entry = tarfile.TarInfo(name)
        entry.size = 700
        for key, value in more.items(): setattr(entry, key, value)
        out.addfile(entry, io.BytesIO(b'x' * entry.size))
out.close()
`;
import { ci } from '../../../testkit/long-run.ts';

type Numbers = { mtime?: number; uid?: number; gid?: number };

function archiveOf(format: string, entries: readonly Numbers[]): Buffer {
  return execFileSync('python3', ['-c', script, JSON.stringify([format, entries])], { maxBuffer: 2 ** 24 });
}

function inPieces(bytes: Buffer, pieceBytes: number): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      controller.enqueue(Uint8Array.from(bytes.subarray(at, (at += pieceBytes))));
      if (at >= bytes.length) controller.close();
    },
  });
}

/** The seconds of each entry, whose content is read. */
async function timesIn(archive: ReadableStream<Uint8Array>): Promise<Record<string, number>> {
  const times: Record<string, number> = {};
  for await (const { header, body } of entriesIn(archive)) {
    expect((await new Response(body).bytes()).length).toBe(700);
    times[header.name] = Number(header.mtime) / 1000;
  }
  return times;
}

withProgram('python3', { probe: ['--version'] }, () => {
  // Of 8 and of 12 bytes, of which the first has the sign.
  const owners = [-1, -2, -(2 ** 31), 2 ** 21, 2 ** 32 - 2, 2 ** 53 - 1, -(2 ** 53)];
  const times = [-1, before1970, -(2 ** 33), -(2 ** 40), 0, 8 ** 11 - 1, 8 ** 11, 2 ** 40];
  const entries: Numbers[] = [
    ...times.map((mtime) => ({ mtime })),
    ...owners.flatMap((id) => [{ uid: id }, { gid: id }, { uid: id, gid: id, mtime: before1970 }]),
  ];

  describe.each(['GNU_FORMAT', 'PAX_FORMAT'])('an archive of Python in %s', (format) => {
    const sizes = ci ? [7, 511, 512, 700, 65_536] : [511];
    test.each(sizes)('has the times that it was given, in pieces of %i bytes', async (bytes) => {
      const found = await timesIn(inPieces(archiveOf(format, entries), bytes));
      expect(found).toEqual(
        Object.fromEntries(
          entries.flatMap(({ mtime = 0 }, index) => [
            [`numbers ${index}`, mtime],
            [`plain ${index}`, 0],
          ]),
        ),
      );
    });
  });

  test('a header whose checksum is wrong stays wrong when a number in it is replaced', async () => {
    const archive = archiveOf('GNU_FORMAT', [{ mtime: before1970 }]);
    for (const [at, by] of [
      [0, 1],
      [108, 0x80],
      [147, 1],
    ] as const) {
      const damaged = Buffer.from(archive);
      damaged.writeUInt8(damaged.readUInt8(at) ^ by, at);
      await expect(timesIn(inPieces(damaged, 512)), String(at)).rejects.toThrow(/checksum/);
    }
  });

  test('a number in an archive does not change the chunk that it came in', async () => {
    const archive = Uint8Array.from(archiveOf('GNU_FORMAT', [{ mtime: before1970 }]));
    const same = Uint8Array.from(archive);
    await timesIn(new ReadableStream({ start: (to) => (to.enqueue(archive), to.close()) }));
    expect(Buffer.compare(archive, same)).toBe(0);
  });
});

const tar = (format: string) => (outer: string) => execFileSync('tar', ['-c', `--format=${format}`, '-C', outer, 'in']);
test.each<[string, (outer: string) => Buffer | Promise<Buffer>]>([
  ['gnu', tar('gnu')],
  ['oldgnu', tar('oldgnu')],
  ['posix', tar('posix')],
  [
    'a folder',
    async (outer) => {
      const { stream } = await openFolder('in', contextIn(outer), { include: [], exclude: [] });
      return Buffer.from(await new Response(stream).bytes());
    },
  ],
])('a file from before 1970 comes out of what was packed as %s', async (_, pack) => {
  const outer = await temporaryDirectory();
  await mkdir(join(outer, 'in'));
  await writeFile(join(outer, 'in/old'), 'x');
  await utimes(join(outer, 'in/old'), new Date(before1970 * 1000), new Date(before1970 * 1000));
  await writeFile(join(outer, 'c'), await contain(await pack(outer), 'sealpin', byPassword()));
  expect(await run(['decrypt', './c', '--extract', 'out'], outer, { env })).toMatchObject({ exit: 0 });
  const [old = ''] = (await readdir(join(outer, 'out'), { recursive: true })).filter((path) => path.endsWith('old'));
  expect((await stat(join(outer, 'out', old))).mtimeMs).toBe(before1970 * 1000);
});

test('a file of more than 8 GiB is read from what tar packed', async () => {
  const header = execFileSync('sh', ['-c', 'truncate -s 9G large && tar -c --format=gnu large | head -c 65536'], {
    cwd: await temporaryDirectory(),
  });
  for await (const { header: read, body } of entriesIn(inPieces(header, 1000))) {
    expect(read).toMatchObject({ name: 'large', size: 9 * 2 ** 30 });
    await body.cancel();
    break;
  }
});
