/**
 * Bytes that exist once, as an upload in parts needs them: a part can be sent again until the
 * service has confirmed it.
 */
import { SealpinError } from '../shared/errors.ts';
import type { UploadSource } from './resumable-upload.ts';

/**
 * Makes a stream the source of an upload. What the service has not confirmed is kept in memory,
 * which is one part at most. Reading fails with `service_answer` when the service takes back a
 * confirmation.
 * @param bytes the length of the stream
 * @returns the source; `end` waits for the end of the stream, which has to come after its last
 * byte, and `cancel` gives it up
 */
export function sentOnce(
  stream: ReadableStream<Uint8Array>,
  bytes: number,
): UploadSource & { end(): Promise<void>; cancel(reason: unknown): void } {
  const reader = stream.getReader();
  /** The first byte that is kept. */
  let first = 0;
  const kept: Uint8Array[] = [];

  /** Forgets what comes before an offset, which the service has confirmed. */
  function confirm(offset: number): void {
    if (offset < first)
      throw new SealpinError('service_answer', 'the service has lost bytes that it had confirmed', {
        hint: 'nothing was kept; send it again',
      });
    for (let chunk = kept[0]; chunk !== undefined && first < offset; chunk = kept[0]) {
      const confirmed = Math.min(chunk.length, offset - first);
      if (confirmed === chunk.length) kept.shift();
      else kept[0] = chunk.subarray(confirmed);
      first += confirmed;
    }
  }

  return {
    bytes,
    async end() {
      if (!(await reader.read()).done) throw new TypeError('the stream is longer than it was said to be');
    },
    cancel: (reason) => void reader.cancel(reason).catch(() => undefined),
    async *read(start, end) {
      confirm(start);
      for (let at = start, index = 0; at < end; index += 1) {
        if (index === kept.length) {
          const { done, value } = await reader.read();
          if (done) throw new TypeError('the stream is shorter than it was said to be');
          kept.push(value);
        }
        const chunk = kept[index]?.subarray(0, end - at) ?? new Uint8Array();
        at += chunk.length;
        // A copy: its sender may give the memory away.
        yield chunk.slice();
      }
    },
  };
}
