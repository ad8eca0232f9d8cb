/**
 * The adapter for Kubo's RPC: a Kubo of one's own, the embedded node, and other servers of the same API. Documented at
 * https://docs.ipfs.tech/reference/kubo/rpc/. An old Kubo ignores flags that it does not know, so the caller of `put` compares CIDs.
 */
import { SealpinError } from '../../shared/errors.ts';
import { addOptions, maxBlockBytes, parseCid } from '../../shared/ipfs/index.ts';
import { anchorOf } from './anchor.ts';
import type { Held, PendingPut, PinningService } from './contract.ts';
import { multipart } from './kubo-upload.ts';
import { rpc, type RpcOptions, type RpcResult } from './kubo-rpc.ts';

export type KuboOptions = RpcOptions & {
  /** The name of this service's pins: `sealpin:` and its id, at most 80 bytes of ASCII. */
  pinName: string;
  timeouts?: Partial<Timeouts>;
};

export type Timeouts = {
  /** The longest wait for a response, and of an upload for the service to take a piece: 30 s. */
  responseMs: number;
  /**
   * The longest wait for the response to an upload after its last byte, while the service writes and pins: 2 minutes.
   */
  pinMs: number;
};

/** The name that earlier versions gave to pins, whatever the service. */
const earlierName = 'sealpin';

/** The form of a CID of an unknown kind, in any encoding: enough to unpin what was pinned under it. */
const anyCid = /^[A-Za-z0-9]{32,128}$/;

/** A pinning service behind Kubo's RPC. */
export function kubo(o: KuboOptions): PinningService {
  const { responseMs, pinMs } = { responseMs: 30_000, pinMs: 120_000, ...o.timeouts };
  const { pinName } = o;
  const { failed, refused, unavailable, timeoutError, withTimeout, send, readBody, parse } = rpc(o);

  /** Runs a command with a small response. */
  function ask(
    command: string,
    query: Record<string, string>,
    signal: AbortSignal,
    timeoutMs = responseMs,
  ): Promise<RpcResult> {
    return withTimeout(signal, timeoutMs, async (limited) => parse(await send(command, query, limited)));
  }

  async function stat(cid: string, signal: AbortSignal): Promise<Held> {
    const result = await ask('pin/ls', { arg: cid, type: 'recursive', names: 'true' }, signal);
    if ('message' in result) {
      if (/is not pinned/.test(result.message)) return { pin: 'absent' };
      throw refused(result.message);
    }
    const { Keys } = result.first;
    if (typeof Keys !== 'object' || Keys === null) throw failed('its response to pin/ls has no Keys');
    if (!Object.hasOwn(Keys, cid)) return { pin: 'absent' };
    const name = (Keys as Record<string, { Name?: unknown } | null>)[cid]?.Name;
    if (typeof name !== 'string') return { pin: 'unknown' };
    return name === pinName || name === earlierName ? { pin: 'ours' } : { pin: 'foreign', name };
  }

  /** Pins what the node has. With `timeout`, because a node on the network looks for a missing block for ever. */
  async function pin(cid: string, name: string, signal: AbortSignal): Promise<void> {
    const query = { arg: cid, name, progress: 'false', timeout: `${Math.ceil(pinMs / 1000)}s` };
    const result = await ask('pin/add', query, signal, pinMs);
    if ('message' in result) throw refused(result.message);
    const { Pins } = result.first;
    if (!Array.isArray(Pins) || !Pins.includes(cid)) throw failed('its response to pin/add does not name the pin');
  }

  async function unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent' | 'foreign'> {
    const held = await stat(cid, signal);
    if (held.pin === 'absent' || held.pin === 'foreign') return held.pin;
    const result = await ask('pin/rm', { arg: cid }, signal);
    if ('first' in result) {
      const { Pins } = result.first;
      if (!Array.isArray(Pins) || !Pins.includes(cid)) throw failed('its response to pin/rm does not name the pin');
      return 'removed';
    }
    // The second is what the proxy of IPFS Cluster says.
    if (/not pinned|not part of the pinset/.test(result.message)) return 'absent';
    throw refused(result.message);
  }

  /** Pins a node of our own above the root. @returns false when the service cannot store one */
  async function anchor(root: string, signal: AbortSignal): Promise<boolean> {
    const { cid, bytes } = await anchorOf(root, pinName);
    const body = new FormData();
    body.append('file', new Blob([bytes]));
    const query = { 'cid-codec': 'dag-pb', mhtype: 'sha2-256', pin: 'false' };
    const stored = await withTimeout(signal, responseMs, async (limited) => {
      const response = await send('block/put', query, limited, { upload: { body }, also: 404 });
      if (response.status !== 404) return await parse(response);
      await response.body?.cancel();
      return undefined;
    });
    if (stored === undefined) return false;
    if ('message' in stored) throw refused(stored.message);
    if (stored.first['Key'] !== cid) throw failed('its response to block/put has another CID');
    await pin(cid, pinName, signal);
    return true;
  }

  /** Reading never makes the node search the network (`offline`): what was pinned is there, or it is lost. */
  async function fetched(command: string, query: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const response = await send(command, { ...query, offline: 'true' }, signal);
    if (response.status === 200) return response;
    const error = await parse(response);
    if (!('message' in error)) throw failed(`it has nothing for ${command}`);
    if (/not found locally|could not find/.test(error.message))
      throw new SealpinError('pinning_lost', `${o.id}: ${error.message}`);
    throw refused(error.message);
  }

  /** A CID of another kind is kept unchanged: what was pinned under it has to be unpinned. */
  function cidOf(record: Record<string, unknown>): string {
    const text = String(record['Hash']);
    try {
      return parseCid(text).text;
    } catch (cause) {
      if (anyCid.test(text)) return text;
      throw failed('the last record of its response has no CID', cause);
    }
  }

  async function sendFile(
    file: ReadableStream<Uint8Array>,
    { signal, bytes }: { signal: AbortSignal; bytes?: number },
  ): Promise<PendingPut> {
    signal.throwIfAborted();
    // What goes wrong first aborts the request and is its reason; the rest are consequences.
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    let broken = false;

    async function timely<T>(step: Promise<T>, timeoutMs = responseMs): Promise<T> {
      const timer = setTimeout(() => stop.abort(timeoutError(timeoutMs)), timeoutMs);
      try {
        return await step;
      } finally {
        clearTimeout(timer);
      }
    }

    async function forward(step: Promise<void>): Promise<void> {
      await timely(step).catch((cause: unknown) => {
        broken = true;
        throw unavailable('broke off the upload', cause);
      });
    }

    const { sent, finish, ...body } = multipart(file, { bytes, signal: either, forward });
    const query = { ...addOptions, pin: 'true', 'pin-name': pinName, progress: 'false' };
    const added = send('add', query, either, { upload: body }).then(async (response) => {
      const result = await parse(response);
      if ('message' in result) throw refused(result.message);
      return cidOf(result.last);
    });
    /** Ends the upload, and throws what went wrong first. */
    const fail = (cause: unknown): never => {
      stop.abort(cause);
      throw either.reason;
    };
    // A refusal may come at any time, and does not wait for bytes that nobody wants.
    const refusal = new Promise<never>((_, reject) => void added.catch(reject)).catch(fail);
    refusal.catch(() => undefined);

    async function phase<T>(work: Promise<T>): Promise<T> {
      // A service that refuses an upload breaks it off, and its response says why.
      const explained = work.catch(async (cause: unknown) => {
        if (broken) await timely(added);
        throw cause;
      });
      return await Promise.race([explained.catch(fail), refusal]);
    }

    await phase(sent);
    return {
      refusal,
      commit: () => phase(finish().then(async () => ({ cid: await timely(added, pinMs) }))),
      abort: (reason) => stop.abort(reason),
    };
  }

  return {
    id: o.id,

    put: sendFile,
    stat,
    unpin,

    async share(cid, name, signal) {
      const anchored = await anchor(cid, signal);
      const held = await stat(cid, signal);
      if (held.pin === 'ours') await pin(cid, name, signal);
      else if (held.pin === 'absent' && !anchored) throw failed('the earlier pin is no longer there');
    },

    async unshare(cid, name, signal) {
      const held = await stat(cid, signal);
      if (held.pin === 'ours' && name !== undefined) await pin(cid, name, signal);
      await unpin((await anchorOf(cid, pinName)).cid, signal);
      return held.pin === 'absent' ? 'absent' : 'foreign';
    },

    block: (cid, signal) =>
      withTimeout(signal, responseMs, async (limited) =>
        readBody(await fetched('block/get', { arg: cid }, limited), maxBlockBytes),
      ),

    read: (cid, offset, length, signal) =>
      withTimeout(signal, responseMs, async (limited) => {
        const { body } = await fetched('cat', { arg: cid, offset: String(offset), length: String(length) }, limited);
        if (!body) throw failed('its response to cat has no body');
        return body as ReadableStream<Uint8Array>;
      }),

    async ping(signal) {
      const result = await ask('version', {}, signal);
      if ('message' in result) throw refused(result.message);
      const { Version } = result.first;
      if (typeof Version !== 'string') throw failed('its response to version has no Version');
      return { version: Version };
    },
  };
}
