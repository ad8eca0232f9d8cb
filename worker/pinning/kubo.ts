/**
 * The adapter for Kubo's RPC: a Kubo of one's own, the embedded node, and what else speaks it. Documented at
 * https://docs.ipfs.tech/reference/kubo/rpc/. An old Kubo ignores flags that it does not know: who calls `put` compares CIDs.
 */
import { parseCid } from '../../shared/ipfs/index.ts';
import type { PinningService } from './contract.ts';
import { upload } from './multipart.ts';
import { rpc, type Answer, type RpcOptions } from './rpc.ts';

export type KuboOptions = RpcOptions & { timeouts?: Partial<Timeouts> };

export type Timeouts = {
  /** The longest wait for an answer, and of an upload for the service to take a piece: 30 s. */
  answerMs: number;
  /** The longest wait for the answer to an upload after its last byte, while the service writes and pins: 2 minutes. */
  pinMs: number;
};

/** Options of `add` that make its CID that of `unixfs-v1-2025` whatever the node's own settings are (IPIP-499). */
const profile = {
  'cid-version': '1',
  'raw-leaves': 'true',
  chunker: 'size-1048576',
  'max-file-links': '1024',
  hash: 'sha2-256',
  trickle: 'false',
};

/** A constant: no filename ever goes to a service. */
const pinName = 'sealpin';

/** The largest block that is taken (trustless gateway specification: 2 MiB). */
const maxBlockBytes = 2_097_152;

/** A pinning service behind Kubo's RPC. */
export function kubo(o: KuboOptions): PinningService {
  const { answerMs, pinMs } = { answerMs: 30_000, pinMs: 120_000, ...o.timeouts };
  const { failed, unavailable, late, within, send, whole, answer } = rpc(o);

  /** One command with a small answer. */
  function ask(command: string, query: Record<string, string>, signal: AbortSignal): Promise<Answer> {
    return within(signal, answerMs, async (limited) => answer(await send(command, query, limited)));
  }

  /** Reading never makes the node search the network (`offline`): what was pinned is there, or it is lost. */
  async function fetched(command: string, query: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const response = await send(command, { ...query, offline: 'true' }, signal);
    if (response.status === 200) return response;
    const error = await answer(response);
    throw failed('message' in error ? error.message : `it has nothing for ${command}`);
  }

  function cidOf(record: Record<string, unknown>): string {
    try {
      return parseCid(String(record['Hash'])).text;
    } catch (cause) {
      throw failed('the last record of its answer has no CID', cause);
    }
  }

  return {
    id: o.id,

    async put(file, { signal, bytes, beforeLast }) {
      signal.throwIfAborted();
      // Whatever goes wrong first aborts the request and is its reason; the rest are consequences.
      const stop = new AbortController();
      const either = AbortSignal.any([signal, stop.signal]);
      let broken = false;

      async function timely<T>(step: Promise<T>, timeoutMs = answerMs): Promise<T> {
        const timer = setTimeout(() => stop.abort(late(timeoutMs)), timeoutMs);
        try {
          return await step;
        } finally {
          clearTimeout(timer);
        }
      }

      async function handOver(step: Promise<void>): Promise<void> {
        await timely(step).catch((cause: unknown) => {
          broken = true;
          throw unavailable('broke off the upload', cause);
        });
      }

      const { sent, ...body } = upload(file, { bytes, beforeLast, signal: either, handOver });
      const answered = send(
        'add',
        { ...profile, pin: 'true', 'pin-name': pinName, progress: 'false' },
        either,
        body,
      ).then(async (response) => {
        const result = await answer(response);
        if ('message' in result) throw failed(result.message);
        return cidOf(result.records.at(-1)!);
      });
      try {
        // The request ends when its answer is there; who refuses an upload breaks it off, and its answer says why.
        const complete = sent.then(
          () => timely(answered, pinMs),
          async (cause: unknown) => {
            if (broken) await timely(answered);
            throw cause;
          },
        );
        // An answer that comes before the last byte does not wait for it if it is a refusal.
        const [cid] = await Promise.all([answered, complete]);
        return { cid };
      } catch (cause) {
        stop.abort(cause);
        throw either.reason;
      }
    },

    async stat(cid, signal) {
      const result = await ask('pin/ls', { arg: cid, type: 'recursive' }, signal);
      if ('records' in result) {
        const { Keys } = result.records[0]!;
        if (typeof Keys !== 'object' || Keys === null) throw failed('its answer to pin/ls has no Keys');
        return Object.hasOwn(Keys, cid) ? 'pinned' : 'absent';
      }
      if (/is not pinned/.test(result.message)) return 'absent';
      throw failed(result.message);
    },

    async unpin(cid, signal) {
      const result = await ask('pin/rm', { arg: cid }, signal);
      if ('records' in result) {
        const { Pins } = result.records[0]!;
        if (!Array.isArray(Pins) || !Pins.includes(cid)) throw failed('its answer to pin/rm does not name the pin');
        return 'removed';
      }
      if (/not pinned/.test(result.message)) return 'absent';
      throw failed(result.message);
    },

    block: (cid, signal) =>
      within(signal, answerMs, async (limited) =>
        whole(await fetched('block/get', { arg: cid }, limited), maxBlockBytes),
      ),

    read: (cid, offset, length, signal) =>
      within(signal, answerMs, async (limited) => {
        const { body } = await fetched('cat', { arg: cid, offset: String(offset), length: String(length) }, limited);
        if (!body) throw failed('its answer to cat has no body');
        return body as ReadableStream<Uint8Array>;
      }),

    async ping(signal) {
      const result = await ask('version', {}, signal);
      if ('message' in result) throw failed(result.message);
      const { Version } = result.records[0]!;
      if (typeof Version !== 'string') throw failed('its answer to version has no Version');
      return { version: Version };
    },
  };
}
