/**
 * A file whose bytes have gone to the backend past the Worker: the process in front of a local
 * service has received them, and reports what they are once the Worker asks.
 */
import { refusalBy } from '../backends/http-failures.ts';
import { SealpinError } from '../../shared/errors.ts';
import { within } from '../../shared/streams/timing.ts';
import type { SentFile } from './send-parts.ts';

type Report = { cid: string; bytes: number; head: string } | { failed: string };

/**
 * Waits for the report of a file, which the backend holds and has not pinned.
 * @param o.service ID of the backend
 * @param o.idleMs how long nothing may arrive
 * @throws body_incomplete, body_timeout, disk_full, pinning_failed, the reason of the signal
 */
export async function handedFile(
  report: ReadableStream<Uint8Array>,
  { service, idleMs, signal }: { service: string; idleMs: number; signal: AbortSignal },
): Promise<SentFile & { head: Uint8Array }> {
  const reader = report.getReader();
  const late = (): never => {
    throw new SealpinError('body_timeout');
  };
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), idleMs, late, signal);
      if (done) break;
      text = (text + decoder.decode(value, { stream: true })).trimStart();
    }
  } catch (error) {
    await reader.cancel(error).catch(() => undefined); // the first error is the one to report
    signal.throwIfAborted();
    throw error instanceof SealpinError ? error : new SealpinError('body_incomplete', undefined, { cause: error });
  }
  // Without an end there is none: a process that has ended reports nothing.
  if (!text.endsWith('}')) throw new SealpinError('body_incomplete');
  const told = JSON.parse(text) as Report;
  if ('failed' in told) throw refusalBy(service, told.failed);
  return { cid: told.cid, bytes: told.bytes, head: Uint8Array.fromHex(told.head) };
}
