/**
 * Search for missing blocks of a DAG in Kubos. A Kubo that is online searches the network for a
 * missing block without end.
 */
import { SealpinError } from '../../../shared/errors.ts';
import type { Rpc } from './kubo-rpc.ts';

/** Kubo's words for a missing block, offline and after a search. */
const missingBlockWords = /not found|could not find/;

const missingCid = /could not find ([a-zA-Z0-9]{1,128})/;

/** Seconds after which a client may send collected blocks again: collecting goes on for a while. */
const collectedRetrySeconds = 5;

/** Tells whether Kubo's message says that a block is missing. */
export function isMissing(message: string): boolean {
  return missingBlockWords.test(message);
}

/** The error for an upload whose blocks were collected. @param message says which block */
export function missingError(id: string, cid: string, message: string): SealpinError {
  return new SealpinError('pinning_unavailable', `${id} no longer holds all blocks of ${cid}: ${message}`, {
    hint: 'the pinning service removed bytes of this upload before they were pinned; send them again',
    reason: 'blob_unavailable',
    retryAfterSeconds: collectedRetrySeconds,
  });
}

/**
 * Looks for a block below a CID that none of some Kubos holds, without a search of the network.
 * @param o.walkMs the longest walk over the blocks
 * @param o.responseMs how long after that a response may come
 * @returns what Kubo says of the block; undefined where every block is there, and where it cannot
 * be told
 */
export async function missingBlock(
  kubos: readonly Rpc[],
  cid: string,
  o: { walkMs: number; responseMs: number; signal: AbortSignal },
): Promise<string | undefined> {
  /** Returns a Kubo's complaint about a command that reads blocks; undefined if it has them all. */
  const complaint = async (kubo: Rpc, command: string, arg: string, query: Record<string, string> = {}) => {
    const limited = { arg, offline: 'true', ...query, timeout: `${o.walkMs}ms` };
    const result = await kubo.ask(command, limited, o.signal, o.walkMs + o.responseMs);
    if ('message' in result && !isMissing(result.message)) throw kubo.refused(result.message);
    return 'message' in result ? result.message : undefined;
  };

  try {
    const walks = kubos.map((kubo) => complaint(kubo, 'dag/stat', cid, { progress: 'false' }));
    const messages = await Promise.all(walks);
    if (messages.includes(undefined)) return undefined;
    if (kubos.length === 1) return messages[0];
    for (const message of messages) {
      const [, block] = missingCid.exec(message ?? '') ?? [];
      if (block === undefined) continue;
      const answers = await Promise.all(kubos.map((kubo) => complaint(kubo, 'block/stat', block)));
      if (!answers.includes(undefined)) return message;
    }
    return undefined;
  } catch {
    // Nobody asks any more, or one of them cannot tell: it may have the block.
    return undefined;
  }
}
