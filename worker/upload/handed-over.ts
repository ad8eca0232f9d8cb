/**
 * Bytes that have gone to the backend past the Worker: the process in front of a local service has
 * received them, and reports what they are once the Worker asks.
 */
import { refusalBy } from '../backends/http-failures.ts';
import { SealpinError } from '../../shared/errors.ts';
import { partMs, treeOf } from '../../shared/ipfs/index.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { within } from '../../shared/streams/timing.ts';
import { recognize } from './leaf-source.ts';
import type { Part } from './part-writer.ts';
import type { SentFile } from './send-parts.ts';

type Failed = { failed: string };
type FileReport = { cid: string; bytes: number; head: string };
type PartReport = { bytes?: number; digests?: string; tail: string; head: string };

type HandedOverOptions = {
  /** ID of the backend. */
  service: string;
  /** Time for which nothing may arrive, in ms. */
  idleMs: number;
  signal: AbortSignal;
};

/**
 * Waits for the report of a file, which the backend holds and has not pinned.
 * @throws body_incomplete, body_timeout, disk_full, pinning_failed, the reason of the signal
 */
export async function handedFile(
  report: ReadableStream<Uint8Array>,
  o: HandedOverOptions & { onArrival(bytes: number): void },
): Promise<SentFile> {
  for await (const { cid, bytes, head } of reports<FileReport>(report, o)) {
    o.onArrival(bytes);
    return { cid, bytes, beginning: recognize(Uint8Array.fromHex(head)) };
  }
  throw new SealpinError('body_incomplete');
}

/**
 * Part of a body that arrived since the last time: a part, which the backend holds and has not
 * pinned, and all bytes behind the parts. `head`: the first bytes of the body.
 */
export type HandedBytes = { part?: Omit<Part, 'firstLeaf'>; tail: Uint8Array; head: Uint8Array };

/**
 * Waits for the reports of bytes that continue an upload.
 * @throws as `handedFile`, once all that has arrived is given
 */
export async function* handedParts(
  report: ReadableStream<Uint8Array>,
  o: HandedOverOptions,
): AsyncGenerator<HandedBytes> {
  // What has come is reported within the time of a part, also where its client then sends nothing.
  const idleMs = Math.max(o.idleMs, 2 * partMs);
  for await (const each of reports<PartReport | { isWhole: boolean }>(report, { ...o, idleMs })) {
    if ('isWhole' in each) {
      if (each.isWhole) return;
      break;
    }
    const { bytes, digests } = each;
    const [tail, head] = [Uint8Array.fromBase64(each.tail), Uint8Array.fromHex(each.head)];
    if (bytes === undefined || digests === undefined) yield { tail, head };
    else {
      const leaves = Uint8Array.fromHex(digests);
      yield { part: { cid: (await treeOf(leaves, bytes)).text, bytes, digests: leaves }, tail, head };
    }
  }
  throw new SealpinError('body_incomplete');
}

/** Reads reports, one a line; a process that has ended gives no more of them. */
async function* reports<T extends object>(
  report: ReadableStream<Uint8Array>,
  { service, idleMs, signal }: HandedOverOptions,
): AsyncGenerator<T> {
  const reader = report.getReader();
  const late = (): never => {
    throw new SealpinError('body_timeout');
  };
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), idleMs, late, signal);
      if (done) return;
      const piece = decoder.decode(value, { stream: true });
      text = piece.trim() === '' && text === '' ? '' : text + piece;
      if (!piece.includes('\n')) continue;
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      for (const line of lines) {
        const told = JSON.parse(line) as T | Failed;
        if ('failed' in told) throw refusalBy(service, told.failed);
        yield told;
      }
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof SealpinError ? error : new SealpinError('body_incomplete', undefined, { cause: error });
  } finally {
    await cancelQuietly(reader); // what came before is the one to report
  }
}
