/** Reading from a Kubo. */
import { otherwise, SealpinError } from '../../../shared/errors.ts';
import { maxBlockBytes, parseCid, sha256 } from '../../../shared/ipfs/index.ts';
import { equalBytes } from '../../../shared/streams/equal-bytes.ts';
import type { PinningService } from '../contract.ts';
import type { Rpc } from './kubo-rpc.ts';

/** Makes the functions that read. @param o.searchMs how long the network is searched for a block */
export function kuboReads(
  { id, withTimeout, send, parse, readBody, failed, refused }: Rpc,
  { responseMs, searchMs }: { responseMs: number; searchMs: number },
): Required<Pick<PinningService, 'block' | 'search' | 'isDamaged' | 'read'>> {
  /**
   * Requests what the node has, or finds within the search time of the query: without `offline`,
   * only that time ends a search.
   */
  async function fetched(command: string, query: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const response = await send(command, query, signal);
    if (response.status === 200) return response;
    const error = await parse(response);
    if (!('message' in error)) throw failed(`it has nothing for ${command}`);
    const isLate = query['timeout'] !== undefined && /deadline exceeded/.test(error.message);
    // The last is what `cat` says of a file that lacks a block.
    if (isLate || /not found locally|could not find|failed to fetch all nodes/.test(error.message))
      throw new SealpinError('pinning_lost', `${id}: ${error.message}`);
    throw refused(error.message);
  }

  const blockBy = (cid: string, query: Record<string, string>, signal: AbortSignal): Promise<Uint8Array> =>
    withTimeout(signal, responseMs, async (limited) =>
      readBody(await fetched('block/get', { arg: cid, ...query }, limited), maxBlockBytes),
    );

  const block = (cid: string, signal: AbortSignal) => blockBy(cid, { offline: 'true' }, signal);

  async function isWrongTwice(cid: string, signal: AbortSignal): Promise<boolean> {
    const bytes = await block(cid, signal);
    const isWrong = !equalBytes(await sha256(bytes), parseCid(cid).digest);
    return isWrong && equalBytes(bytes, await block(cid, signal));
  }

  return {
    block,
    search: (cid, signal) => blockBy(cid, { timeout: `${searchMs}ms` }, signal),

    isDamaged: (cid, signal) => otherwise(isWrongTwice(cid, signal), 'pinning_lost', undefined),

    read: (cid, offset, length, signal) =>
      withTimeout(signal, responseMs, async (limited) => {
        const part = { offset: String(offset), length: String(length) };
        const { body } = await fetched('cat', { arg: cid, ...part, offline: 'true' }, limited);
        if (!body) throw failed('its response to cat has no body');
        return body as ReadableStream<Uint8Array>;
      }),
  };
}
