import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BlockWriter } from '../../io/block-writer.ts';
import { temporaryDirectory } from '../environment.ts';

const MiB = 1024 * 1024;

async function writeAll(bytes: Uint8Array, into: BlockWriter, cut: number): Promise<void> {
  for (let start = 0; start < bytes.length; start += cut) {
    for (let rest = bytes.subarray(start, start + cut); rest.length > 0;) {
      rest = rest.subarray(into.fill(rest));
      if (into.full()) await into.flush();
    }
  }
  await into.flush();
  await into.drain();
}

test('what was filled in is in the file, whatever the cuts', async () => {
  const path = join(await temporaryDirectory(), 'file');
  const bytes = randomBytes(2.3 * MiB);
  const handle = await open(path, 'w');
  await writeAll(bytes, new BlockWriter(handle, MiB), 70_001);
  await handle.close();
  expect((await readFile(path)).equals(bytes)).toBe(true);
});

test('a file that ends soon takes no more memory than its bytes', async () => {
  const blocks = new BlockWriter(undefined, MiB);
  blocks.fill(randomBytes(4096));
  expect((await blocks.flush()).buffer.byteLength).toBe(4096);
});

test('a call that writes less than it was given continues where it ended', async () => {
  const path = join(await temporaryDirectory(), 'file');
  const bytes = randomBytes(300_000);
  const handle = await open(path, 'w');
  const short = {
    write: (buffer: Buffer, offset: number, length: number, position: number) =>
      handle.write(buffer, offset, Math.ceil(length / 2), position),
  };
  await writeAll(bytes, new BlockWriter(short as unknown as FileHandle, MiB), MiB);
  await handle.close();
  expect((await readFile(path)).equals(bytes)).toBe(true);
});

test('bytes that are written through come after those that were filled in, and before those that follow', async () => {
  const path = join(await temporaryDirectory(), 'file');
  const bytes = randomBytes(3 * MiB + 500);
  const handle = await open(path, 'w');
  const blocks = new BlockWriter(handle, MiB);
  blocks.fill(bytes.subarray(0, 100));
  const large = new Uint8Array(bytes.subarray(100, 2 * MiB));
  const larger = new Uint8Array(bytes.subarray(2 * MiB, 3 * MiB));
  // The memory is used for something else as soon as it may be.
  await blocks.writeThrough(large, () => large.fill(0));
  await blocks.writeThrough(larger, () => larger.fill(0));
  blocks.fill(bytes.subarray(3 * MiB));
  await blocks.flush();
  await blocks.drain();
  await handle.close();
  expect((await readFile(path)).equals(bytes)).toBe(true);
  expect([large, larger].flatMap((each) => each.filter((byte) => byte !== 0).length)).toEqual([0, 0]);
});

test('bytes that are written through are not copied, and not given back before they are written', async () => {
  const written: Uint8Array[] = [];
  let finish: () => void = () => undefined;
  const writing = new Promise<void>((resolve) => (finish = resolve));
  const handle = {
    async write(bytes: Uint8Array, _: number, length: number) {
      await writing;
      written.push(bytes);
      return { bytesWritten: length };
    },
  };
  const blocks = new BlockWriter(handle as unknown as FileHandle, MiB);
  const bytes = new Uint8Array(MiB);
  let isFree = false;
  await blocks.writeThrough(bytes, () => (isFree = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect(isFree).toBe(false);
  finish();
  await blocks.drain();
  expect(isFree).toBe(true);
  expect(written.every(({ buffer }) => buffer === bytes.buffer)).toBe(true);
});

/** A disk that takes everything, until something goes wrong. */
function disk(o: { write?: (position: number) => void; datasync?: () => void }): {
  handle: FileHandle;
  readonly synced: number;
} {
  let synced = 0;
  const handle = {
    async write(_: Buffer, __: number, length: number, position: number) {
      o.write?.(position);
      return { bytesWritten: length };
    },
    async datasync() {
      synced += 1;
      o.datasync?.();
    },
  };
  return {
    handle: handle as unknown as FileHandle,
    get synced() {
      return synced;
    },
  };
}

test('a long file is synced while it is written', async () => {
  const long = disk({});
  await writeAll(new Uint8Array(160 * MiB), new BlockWriter(long.handle, 32 * MiB), 32 * MiB);
  expect(long.synced).toBe(2);
});

test.for([
  {
    title: 'one of several calls of a block',
    fault: { write: (position: number) => fail(position === 3 * 128 * 1024) },
  },
  { title: 'syncing', fault: { datasync: () => fail(true) } },
])('a failure of $title is reported, and nothing is written after it', async ({ fault }) => {
  let last = 0;
  const { handle } = disk({
    ...fault,
    write: (position) => (fault.write?.(position), (last = Math.max(last, position))),
  });
  const blocks = new BlockWriter(handle, 32 * MiB);
  await expect(writeAll(new Uint8Array(256 * MiB), blocks, 32 * MiB)).rejects.toThrow('EIO');
  expect(last).toBeLessThan(192 * MiB);
  await expect(blocks.drain()).rejects.toThrow('EIO');
});

function fail(now: boolean): void {
  if (now) throw new Error('EIO');
}
