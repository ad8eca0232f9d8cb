/**
 * Tests of the destinations of bytes: what is left when writing ends before all of them are there.
 */
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { BufferPool } from '../../shared/streams/buffer-pool.ts';
import { deliveryMs, type PageSink } from '../protocol.ts';
import { copiesGone, writeTo } from '../workers/sinks.ts';

afterEach(() => vi.useRealTimers());

/**
 * A file as the browser has it, with what was done to it. `isThere`: whether its folder lists it.
 */
class FakeFile {
  readonly done: string[] = [];
  isThere = true;
  bytes = 0;

  readonly handle = {
    getFile: async () => ({ size: this.bytes }),
    createWritable: async () => ({
      write: async (chunk: Uint8Array) => void (this.bytes += chunk.length),
      close: async () => void this.done.push('closed'),
      abort: async () => void this.done.push('aborted'),
    }),
    createSyncAccessHandle: async () => ({
      write: (chunk: Uint8Array) => {
        this.bytes += chunk.length;
        return chunk.length;
      },
      flush: () => void this.done.push('flushed'),
      close: () => void this.done.push('closed'),
    }),
    remove: async () => void (this.isThere = false),
  };
}

/** The private files of an origin, with one file in them once it is made. */
function privateFiles(file: FakeFile): void {
  const directory = { getFileHandle: async () => file.handle, removeEntry: async () => void (file.isThere = false) };
  const storage = { getDirectory: async () => ({ getDirectoryHandle: async () => directory }) };
  const locks = { request: async (_: string, held: () => Promise<void>) => held() };
  vi.stubGlobal('navigator', { storage, locks });
  onTestFinished(() => void vi.unstubAllGlobals());
}

const places = ['handle', 'disk', 'memory'] as const;
const sinkOf = (place: (typeof places)[number], file: FakeFile): PageSink =>
  place === 'handle' ? { kind: 'handle', handle: file.handle as unknown as FileSystemFileHandle } : { kind: place };

/**
 * Writes three pieces, and gives what comes back.
 * @param before is called before each piece, and before the end
 */
async function written(
  place: (typeof places)[number],
  file: FakeFile,
  before: (piece: number, stop: AbortController) => void,
) {
  const stop = new AbortController();
  async function* bytes(): AsyncGenerator<Uint8Array> {
    for (let piece = 0; piece < 3; piece += 1) {
      before(piece, stop);
      yield new Uint8Array(1000);
    }
    before(3, stop);
  }
  privateFiles(file);
  const o = { size: 3000, signal: stop.signal, pool: new BufferPool() };
  return writeTo(sinkOf(place, file), bytes(), o);
}

const failure = new Error('it broke');
const ends = {
  fails: (): never => {
    throw failure;
  },
  'is cancelled': (stop: AbortController): void => stop.abort(failure),
};

for (const place of places)
  for (const [what, end] of Object.entries(ends))
    test.each([0, 1, 3])(
      `${place}: a file that ${what} before piece %i of 3 is not closed as whole, and nothing of it stays`,
      async (at) => {
        const file = new FakeFile();
        const writing = written(place, file, (piece, stop) => {
          if (piece === at) end(stop);
        });
        await expect(writing).rejects.toBe(failure);
        if (place === 'handle') expect(file.done).toEqual(['aborted']);
        expect(file.done).not.toContain('flushed');
        if (place !== 'memory') expect(file.isThere).toBe(false);
      },
    );

test('a file that was there before it was picked stays when writing fails', async () => {
  const file = new FakeFile();
  file.bytes = 5;
  await expect(written('handle', file, ends['fails'])).rejects.toBe(failure);
  expect({ done: file.done, isThere: file.isThere }).toEqual({ done: ['aborted'], isThere: true });
});

test('a private file stays until the browser has had the time to copy it, and no longer', async () => {
  vi.useFakeTimers();
  const file = new FakeFile();
  await written('disk', file, () => undefined);
  const gone = vi.fn();
  void copiesGone().then(gone);
  await vi.advanceTimersByTimeAsync(deliveryMs(3000) - 1);
  expect(file.isThere).toBe(true);
  expect(gone.mock.calls.length).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(file.isThere).toBe(false);
  expect(gone.mock.calls.length).toBe(1);
  await copiesGone();
});
