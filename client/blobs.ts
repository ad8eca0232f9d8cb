/** Blobs on IPFS: their IDs, and fetching them from sources that are not trusted. */
import type { RandomAccess } from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { gateway, hashingStream, openFile, type IpfsFile } from '../shared/ipfs/index.ts';
import type { BufferPool } from '../shared/streams/buffer-pool.ts';
import { withStop } from '../shared/streams/timing.ts';
import type { Fetch } from './service-http.ts';
import { gatewayProblem } from './service-problem.ts';
import { abortable, contentOf, openSource, type Content, type Source } from './web-bytes.ts';

/**
 * A part of a file: bytes `start` (0 when undefined) up to `end` (exclusive; the end of the file
 * when undefined).
 */
export type Range = { readonly start?: number | undefined; readonly end?: number | undefined };

/**
 * Computes the blob ID of bytes: the CID that a service stores them under (profile
 * `unixfs-v1-2025`).
 * @throws what the source fails with, and the signal's reason
 * @example
 * const cid = await cidOf('hello\n');
 */
export async function cidOf(source: Source, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<string> {
  const { stream, result } = hashingStream(abortable(openSource(source).stream, signal));
  const reader = stream.getReader();
  while (!(await reader.read()).done);
  return (await result).cid;
}

/**
 * Fetches a blob, or a part of it, from services and gateways. None is trusted: each block is
 * compared with the CID before a byte of it goes out. When one fails, the next one continues at
 * that block.
 * @param o.from the URLs of services or of trustless gateways, in order of preference
 * @param o.signal ends it, with its reason
 * @param o.fetch instead of the global `fetch`
 * @throws SealpinError `invalid_cid`, `not_found`, `pinning_lost`, `content_denied`,
 * `range_not_satisfiable`, `content_mismatch`, `service_unreachable`, `service_answer`,
 * `rate_limited`, `pinning_unavailable`, `pinning_timeout` when a source stalls; reading fails with
 * the same
 * @example
 * const blob = await fetchBlob(cid, { from: 'https://sealpin.example/', start: 0, end: 1024 });
 * const bytes = await blob.bytes();
 */
export async function fetchBlob(
  cid: string,
  o: Range & { from: string | readonly string[]; signal?: AbortSignal | undefined; fetch?: Fetch | undefined },
): Promise<Content> {
  const { stop, signal } = withStop(o.signal);
  const file = await openBlob(cid, o.from, signal, o);
  try {
    const { start, end } = rangeIn(file.size, o);
    return contentOf(file.read(start, end), end - start);
  } catch (error) {
    stop(error);
    throw error;
  }
}

/**
 * Opens a blob at services or gateways; fails as `fetchBlob`. Its root is fetched, and the
 * connection is kept for what follows it.
 * @param o.pool of the memory of what is read, as `openFile`
 */
export function openBlob(
  cid: string,
  from: string | readonly string[],
  signal: AbortSignal | undefined,
  { pool, fetch: fetchFrom }: { readonly fetch?: Fetch | undefined; readonly pool?: BufferPool | undefined } = {},
): Promise<IpfsFile> {
  const ask = fetchFrom && ((url: string, init: RequestInit) => fetchFrom(new URL(url), init));
  const sources = [from].flat().map((url) => gateway({ url, fetch: ask, readProblem: gatewayProblem }));
  if (sources.length === 0) throw new TypeError('from must name at least one service or gateway');
  return openFile(cid, sources, { signal, pool });
}

/** A blob, as crypto reads parts of it. */
export function accessTo(file: IpfsFile): RandomAccess {
  return { bytes: file.size, read: async (offset, length) => file.read(offset, offset + length) };
}

/**
 * The bytes that a range stands for in a file of `size` bytes.
 * @throws SealpinError `range_not_satisfiable` when they are not all in the file
 */
export function rangeIn(size: number, { start = 0, end = size }: Range): { start: number; end: number } {
  const isRange = Number.isSafeInteger(start) && Number.isSafeInteger(end) && start >= 0 && start <= end;
  if (!isRange || end > size) throw new SealpinError('range_not_satisfiable');
  return { start, end };
}
