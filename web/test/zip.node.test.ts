/** Archives, as other programs read them. */
import { execFileSync } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { inCi, long } from '../../testkit/long-run.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { safeNames, zipBytes, zipped, type ZipEntry } from '../workers/zip.ts';

const entry = (name: string, ...chunks: readonly Uint8Array[]): ZipEntry => ({
  name,
  size: chunks.reduce((sum, { length }) => sum + length, 0),
  modified: new Date(2026, 10, 23, 14, 5, 6),
  async *read() {
    yield* chunks;
  },
});
const text = (value: string) => new TextEncoder().encode(value);

async function bytesOf(entries: readonly ZipEntry[]): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of zipped(entries)) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Files of which the numbers of an archive fit into 4 bytes. */
const small = [
  entry('Grüße 🌊.txt', text('one'), text(' and two')),
  entry('empty'),
  entry(
    'folder/below/deep.bin',
    new Uint8Array(300_000).map((_, index) => index),
  ),
];

withProgram('python3', { probe: ['--version'] }, () => {
  const read = (path: string): unknown =>
    JSON.parse(execFileSync('python3', ['-c', script, path], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }));
  const script = [
    'import json, sys, zipfile',
    'z = zipfile.ZipFile(sys.argv[1])',
    'bad = z.testzip()',
    'print(json.dumps([bad, [[i.filename, i.file_size, i.date_time, i.external_attr >> 16] for i in z.infolist()]]))',
  ].join('\n');

  test('an archive of small files is read by Python, has the announced length, and is stored', async () => {
    const path = join(await temporaryDirectory(), 'a.zip');
    const bytes = await bytesOf(small);
    expect(bytes.length).toBe(zipBytes(small));
    await writeFile(path, bytes);
    expect(read(path)).toEqual([null, small.map(({ name, size }) => [name, size, [2026, 11, 23, 14, 5, 6], 0o100644])]);
    expect(bytes.includes(Buffer.from('one and two'))).toBe(true);
  });

  inCi('65,535 files need the larger count', async () => {
    const path = join(await temporaryDirectory(), 'many.zip');
    const many = Array.from({ length: 65_535 }, (_, index) => entry(`${index}`));
    await writeFile(path, await bytesOf(many));
    const count = 'import sys, zipfile; print(len(zipfile.ZipFile(sys.argv[1]).infolist()))';
    expect(execFileSync('python3', ['-c', count, path], { encoding: 'utf8' }).trim()).toBe('65535');
  });

  test('sizes and offsets of more than 4 GiB are where Python looks for them', async () => {
    // A long piece of which nothing is read: neither written nor summed.
    const none = { buffer: new ArrayBuffer(), byteOffset: 0, byteLength: 0 };
    const zeros = { ...none, length: 2 ** 32 + 5 } as Uint8Array;
    const large = [entry('large', zeros), entry('after', text('after')), entry('large, too', zeros), entry('last')];
    const path = join(await temporaryDirectory(), 'sparse.zip');
    const file = await open(path, 'w');
    let at = 0;
    for await (const piece of zipped(large)) {
      if (piece !== zeros) await file.write(piece, 0, piece.length, at);
      at += piece.length;
    }
    await file.close();
    expect(at).toBe(zipBytes(large));
    const script = [
      'import json, sys, zipfile',
      'z = zipfile.ZipFile(sys.argv[1])',
      'texts = [z.read(name).decode() for name in ("after", "last")]',
      'print(json.dumps([[[i.filename, i.file_size] for i in z.infolist()], *texts]))',
      'z.open("large").read(1); z.open("large, too").read(1)',
    ].join('\n');
    expect(JSON.parse(execFileSync('python3', ['-c', script, path], { encoding: 'utf8' }))).toEqual([
      large.map(({ name, size }) => [name, size]),
      'after',
      '',
    ]);
  });

  test.runIf(long)('a file of more than 4 GiB, and one after it, are read by Python and unzip', async () => {
    const path = join(await temporaryDirectory(), 'large.zip');
    const piece = new Uint8Array(16 * 1024 * 1024);
    const large = [entry('large', ...Array.from({ length: 257 }, () => piece)), entry('after', text('after'))];
    const stream = Readable.from(zipped(large));
    await pipeline(stream, createWriteStream(path));
    const [bad, list] = read(path) as [unknown, unknown[][]];
    expect(bad).toBeNull();
    expect(list.map(([name, size]) => [name, size])).toEqual(large.map(({ name, size }) => [name, size]));
    execFileSync('unzip', ['-tq', path]);
  });
});

withProgram('unzip', { probe: ['-v'] }, () => {
  test('an archive is tested by unzip', async () => {
    const path = join(await temporaryDirectory(), 'a.zip');
    await writeFile(path, await bytesOf(small));
    expect(execFileSync('unzip', ['-t', path], { encoding: 'utf8' })).toContain('No errors detected');
  });
});

test('the sums and sizes behind each file, for who reads from the front, are those of the directory', async () => {
  const bytes = await bytesOf(small);
  let at = bytes.readUInt32LE(bytes.length - 6);
  for (const { size } of small) {
    const [crc, name, offset] = [bytes.readUInt32LE(at + 16), bytes.readUInt16LE(at + 28), bytes.readUInt32LE(at + 42)];
    const end = offset + 30 + bytes.readUInt16LE(offset + 26) + bytes.readUInt16LE(offset + 28) + size;
    expect([0, 4, 8, 12].map((each) => bytes.readUInt32LE(end + each))).toEqual([0x0807_4b50, crc, size, size]);
    expect(crc).toBe(crc32(bytes.subarray(end - size, end)));
    at += 46 + name + bytes.readUInt16LE(at + 30);
  }
});

test('the length is known before the bytes, also where numbers take 8 of them', () => {
  const sized = (size: number): ZipEntry => ({ ...entry('a'), size });
  const overhead = (size: number): number => zipBytes([sized(size)]) - size;
  expect(overhead(0xffff_fffe)).toBe(30 + 1 + 16 + 46 + 1 + 22 + 76);
  expect(overhead(0xffff_ffff)).toBe(50 + 1 + 24 + 66 + 1 + 22 + 76);
  expect(overhead(1000)).toBe(30 + 1 + 16 + 46 + 1 + 22);
});

test('a file that breaks off, or has another size, leaves no directory', async () => {
  const broken: ZipEntry = {
    ...entry('b', text('xx')),
    async *read() {
      yield text('x');
      throw new Error('damaged');
    },
  };
  for (const [last, why] of [
    [broken, 'damaged'],
    [{ ...entry('c', text('xx')), size: 3 }, 'another size'],
  ] as const) {
    const seen: Uint8Array[] = [];
    const write = async (): Promise<void> => {
      for await (const chunk of zipped([entry('a', text('a')), last])) seen.push(chunk);
    };
    await expect(write()).rejects.toThrow(why);
    expect(Buffer.concat(seen).includes('PK\u0001\u0002')).toBe(false);
  }
});

test('names are safe on every system, and none comes twice', () => {
  expect(
    safeNames([
      'a.txt',
      'A.txt',
      'a.txt',
      'CON',
      'aux.c',
      'x:y?.z',
      '..',
      'dot.',
      'f/../g',
      'f//g',
      'f/a.b/c',
      'f/a.b/c',
      '\u00e9.txt',
      'e\u0301.txt',
      'Straße',
      'STRASSE',
    ]),
  ).toEqual([
    'a.txt',
    'A (2).txt',
    'a (3).txt',
    '_CON',
    '_aux.c',
    'x_y_.z',
    '_',
    'dot_',
    'f/_/g',
    'f/_/g (2)',
    'f/a.b/c',
    'f/a.b/c (2)',
    '\u00e9.txt',
    'e\u0301 (2).txt',
    'Straße',
    'STRASSE (2)',
  ]);
});

test('names of any length stay different, and none is too long for a disk', () => {
  const bytes = (part: string): number => Buffer.byteLength(part);
  for (const letter of ['a', 'é', '水', '😀'])
    for (const end of ['', '.txt', `.${'z'.repeat(200)}`, '.', ' ', `.${letter.repeat(5)}`])
      for (const start of ['', 'CON.', 'folder/', 'aux.x/']) {
        const length = 255 - bytes(end) - bytes(start.replace(/.*\//, ''));
        const name = start + letter.repeat(length / bytes(letter)) + end;
        const safe = safeNames(Array.from({ length: 12 }, () => name));
        expect(new Set(safe).size, name).toBe(12);
        for (const part of safe.flatMap((each) => each.split('/'))) expect(bytes(part), part).toBeLessThanOrEqual(255);
        if (end === '.txt') for (const each of safe) expect(each.endsWith('.txt')).toBe(true);
        for (const each of safe) expect(each).not.toMatch(/[. ]$|\ufffd/);
      }
});
