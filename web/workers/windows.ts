/** Reading a file piece by piece, for engines whose `fetch` has no back pressure. */
import type { OpenedFile } from '../../client/receiving.ts';
import { isSealpinError, type Code } from '../../shared/errors.ts';
import { chunksOf } from '../../shared/streams/read-all.ts';
import { sleep } from '../../shared/streams/timing.ts';

/**
 * Bytes of one request: Firefox reads a response into memory however slow its reader is (1,041 MiB
 * in 15 s).
 */
const windowBytes = 64 * 1024 * 1024;

/** The next request begins when so many bytes of a window are left: nothing waits for its first. */
const aheadBytes = 8 * 1024 * 1024;

/**
 * Failures that may pass: the connection, a service that is busy, and whatever answers in its
 * place: an error of what is in front of it, or the page on which a network asks to be paid.
 */
const passing: readonly Code[] = [
  'service_unreachable',
  'service_answer',
  'pinning_unavailable',
  'pinning_timeout',
  'rate_limited',
  'overloaded',
];

/**
 * Number of times that reading is tried again by itself without a new byte; the pauses add up to
 * about a minute.
 */
const maxRetries = 6;

/**
 * The bytes of a file, each authenticated. When the connection breaks, the file is opened again,
 * and reading resumes where it stopped.
 * @param size what the file must have in all; it ends normally after exactly so many bytes
 * @param o.stalled waits until it is worth while to try again, after a failure that lasts
 * @throws what `open` throws, and what reading the file throws
 */
export async function* readInWindows(
  open: () => Promise<OpenedFile>,
  size: number,
  { signal, stalled }: { readonly signal: AbortSignal; stalled(error: unknown): Promise<void> },
): AsyncGenerator<Uint8Array, void> {
  let file: OpenedFile | undefined;
  /** The window after the one that is read. */
  let ahead: Promise<ReadableStream<Uint8Array>> | undefined;
  let offset = 0;
  let retries = 0;
  let isOver = false;
  const endOf = (start: number): number => Math.min(size, start + windowBytes);
  const discardAhead = (): void => {
    ahead?.then((stream) => stream.cancel()).catch(() => undefined);
    ahead = undefined;
  };
  try {
    while (!isOver) {
      try {
        file ??= await open();
        const end = endOf(offset);
        const window = await (ahead ?? file.read({ start: offset, end }));
        ahead = undefined;
        for await (const chunk of chunksOf(window)) {
          offset += chunk.length;
          retries = 0;
          if (ahead === undefined && end < size && end - offset <= aheadBytes) {
            ahead = file.read({ start: end, end: endOf(end) });
            ahead.catch(() => undefined); // told when its turn comes
          }
          yield chunk;
        }
        isOver = offset >= size;
      } catch (error) {
        discardAhead();
        signal.throwIfAborted();
        if (!isSealpinError(error) || !passing.includes(error.code)) throw error;
        // What was opened remembers the failures of its sources, and gives them up after some.
        file = undefined;
        if (retries < maxRetries) await sleep(Math.min(error.retryAfterSeconds ?? 2 ** retries, 60) * 1000, signal);
        else await stalled(error);
        retries = retries < maxRetries ? retries + 1 : 0;
      }
    }
  } finally {
    discardAhead();
  }
}
