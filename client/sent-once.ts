/**
 * Bytes that exist once, as an upload in parts needs them: a part can be sent again until the
 * service has confirmed it.
 */
import { SealpinError } from '../shared/errors.ts';
import { freshMemory, type Memory } from '../shared/streams/buffer-pool.ts';
import { byteReader } from '../shared/streams/reader.ts';
import type { UploadSource } from './resumable-upload.ts';

/**
 * Makes a stream the source of an upload. What the service has not confirmed is kept, a part in one
 * array: a Blob goes through one more process of Chromium, and is copied there. While a part is
 * sent, the next one is read: two are kept at most. Reading fails with `service_answer` when the
 * service takes back a confirmation.
 * @param bytes the length of the stream
 * @param memory gets that of the stream's chunks
 * @returns the source; `end` waits for the end of the stream, which has to come after its last
 * byte, and `cancel` gives it up
 */
export function sentOnce(
  stream: ReadableStream<Uint8Array>,
  bytes: number,
  memory: Memory = freshMemory,
): UploadSource & { end(): Promise<void>; cancel(reason: unknown): void } {
  const reader = byteReader(stream, memory);
  /** The first byte that is kept, and the end of them. */
  let first = 0;
  let last = 0;
  const kept: Uint8Array[] = [];
  let reading = Promise.resolve();

  /** Forgets what comes before an offset, which the service has confirmed. */
  function confirm(offset: number): void {
    if (offset < first)
      throw new SealpinError('service_answer', 'the service has lost bytes that it had confirmed', {
        hint: 'nothing was kept; send it again',
      });
    for (let piece = kept[0]; piece !== undefined && first < offset; piece = kept[0]) {
      const confirmed = Math.min(piece.length, offset - first);
      if (confirmed === piece.length) kept.shift();
      else kept[0] = piece.subarray(confirmed);
      first += confirmed;
    }
  }

  /** Reads up to an offset, one call after the other; after a failure, all fail. */
  function readTo(offset: number): Promise<void> {
    reading = reading.then(async () => {
      if (offset <= last) return;
      const piece = await reader.read(offset - last);
      if (piece.length < offset - last) throw new TypeError('the stream is shorter than it was said to be');
      kept.push(piece);
      last += piece.length;
    });
    return reading;
  }

  return {
    bytes,
    async end() {
      if ((await reader.read(1)).length > 0) throw new TypeError('the stream is longer than it was said to be');
    },
    cancel: (reason) => void reader.cancel(reason).catch(() => undefined),
    async *read(start, end) {
      confirm(start);
      await readTo(end);
      for (let at = start, index = 0; at < end; index += 1) {
        const piece = kept[index]?.subarray(0, end - at) ?? new Uint8Array();
        at += piece.length;
        yield piece;
      }
      // Its failure is that of the next part.
      readTo(Math.min(bytes, end + (end - start))).catch(() => undefined);
    },
  };
}
