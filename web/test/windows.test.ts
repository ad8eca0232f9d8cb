/**
 * Reading in windows: how often a file is opened, and what becomes of it when its connection
 * breaks.
 */
import { expect, test } from 'vitest';
import type { OpenedFile } from '../../client/receiving.ts';
import { streamOf } from '../../shared/crypto/bytes.ts';
import { SealpinError, type Code } from '../../shared/errors.ts';
import { readInWindows } from '../workers/windows.ts';

const MiB = 1024 * 1024;
const bytes = new Uint8Array(130 * MiB);
for (let at = 0; at < bytes.length; at += 65_536) bytes[at] = at >>> 16;

/**
 * A file whose reads are counted; `failures` are those of the first reads, each after so many
 * bytes.
 */
function source(failures: readonly Code[] = [], bytesBefore = 1) {
  const starts: number[] = [];
  let opened = 0;
  const open = async (): Promise<OpenedFile> => {
    opened += 1;
    return {
      size: bytes.length,
      async read({ start, end }) {
        if (end > bytes.length) throw new RangeError('the file is not that long');
        const failure = failures[starts.length];
        starts.push(start);
        if (failure === undefined) return streamOf(bytes.subarray(start, end));
        let left = bytesBefore;
        return new ReadableStream({
          pull(controller) {
            if (left === 0) throw new SealpinError(failure, 'it broke', { retryAfterSeconds: 0 });
            left -= 1;
            controller.enqueue(bytes.subarray(start, start + 1));
          },
        });
      },
    };
  };
  return { open, starts, opened: () => opened };
}

const { signal } = new AbortController();
/** Ends reading at a failure that lasts. */
const stalled = async (error: unknown): Promise<void> => {
  throw error;
};

async function read(from: ReturnType<typeof source>, wait = stalled): Promise<Uint8Array> {
  const out = new Uint8Array(bytes.length);
  let at = 0;
  for await (const chunk of readInWindows(from.open, bytes.length, { signal, stalled: wait })) {
    out.set(chunk, at);
    at += chunk.length;
  }
  return out.subarray(0, at);
}

test('a file is opened once for all of its windows', async () => {
  const file = source();
  expect(Buffer.compare(await read(file), bytes)).toBe(0);
  expect(file.starts).toEqual([0, 64 * MiB, 128 * MiB]);
  expect(file.opened()).toBe(1);
});

test('the next window is asked for before the one that is read ends, and cancelled when nobody reads on', async () => {
  const reads: { start: number; left: number; isCancelled: boolean }[] = [];
  let given = 0;
  const open = async (): Promise<OpenedFile> => ({
    size: bytes.length,
    async read({ start, end }) {
      const read = { start, left: start - given, isCancelled: false };
      reads.push(read);
      let at = start;
      return new ReadableStream(
        {
          pull(controller) {
            if (at === end) return controller.close();
            at = Math.min(end, at + MiB);
            controller.enqueue(bytes.subarray(at - MiB, at));
          },
          cancel: () => void (read.isCancelled = true),
        },
        { highWaterMark: 0 },
      );
    },
  });
  for await (const chunk of readInWindows(open, bytes.length, { signal, stalled }))
    if ((given += chunk.length) === 127 * MiB) break;
  await expect.poll(() => reads.at(-1)?.isCancelled).toBe(true);
  expect(reads).toEqual([
    { start: 0, left: 0, isCancelled: false },
    { start: 64 * MiB, left: 9 * MiB, isCancelled: true },
    { start: 128 * MiB, left: 9 * MiB, isCancelled: true },
  ]);
});

test('after a break it is opened again, and read on from where it stopped', async () => {
  const failures: Code[] = ['service_unreachable', 'pinning_timeout', 'service_answer', 'rate_limited', 'overloaded'];
  const file = source(failures);
  expect(Buffer.compare(await read(file), bytes)).toBe(0);
  expect(file.starts.slice(0, 6)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(file.opened()).toBe(6);
});

test('what will not pass ends it', async () => {
  const file = source(['content_mismatch']);
  await expect(read(file)).rejects.toMatchObject({ code: 'content_mismatch' });
  expect(file.opened()).toBe(1);
});

test('one that breaks again and again waits to be told to continue where no byte comes in between', async () => {
  const failures = Array.from({ length: 9 }, (): Code => 'service_unreachable');
  const opened: number[] = [];
  const stuck = source(failures, 0);
  await read(stuck, async () => void opened.push(stuck.opened()));
  expect(opened).toEqual([7]);
  expect(stuck.opened()).toBe(10);
  await expect(read(source(failures, 0))).rejects.toMatchObject({ code: 'service_unreachable' });
  const slow = source(failures);
  expect(Buffer.compare(await read(slow), bytes)).toBe(0);
  expect(slow.opened()).toBe(10);
});

test('an empty file is not whole before it was opened', async () => {
  const open = async (): Promise<OpenedFile> => {
    throw new SealpinError('overloaded', 'it is busy', { retryAfterSeconds: 0 });
  };
  await expect(readInWindows(open, 0, { signal, stalled }).next()).rejects.toMatchObject({ code: 'overloaded' });
});

test('an abort ends it, before the pause after a break and in it', async () => {
  for (const seconds of [0, 60]) {
    const stop = new AbortController();
    let opened = 0;
    const open = async (): Promise<OpenedFile> => {
      opened += 1;
      return {
        size: bytes.length,
        async read() {
          if (seconds === 0) stop.abort(new SealpinError('interrupted'));
          else setTimeout(() => stop.abort(new SealpinError('interrupted')), 10);
          throw new SealpinError('overloaded', 'it is busy', { retryAfterSeconds: seconds });
        },
      };
    };
    const reading = readInWindows(open, bytes.length, { signal: stop.signal, stalled }).next();
    await expect(reading).rejects.toMatchObject({ code: 'interrupted' });
    expect(opened).toBe(1);
  }
});
