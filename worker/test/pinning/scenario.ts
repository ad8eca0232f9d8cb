/** One call of an adapter, described as data, so that the same call runs in Node and in workerd. */
import { isSealpinError } from '../../../shared/errors.ts';
import { kubo, type Timeouts } from '../../pinning/kubo.ts';

export type Scenario = {
  url: string;
  token?: string;
  /** The id of the service that makes the call; `tested` by default. */
  owner?: string;
  timeouts?: Partial<Timeouts>;
  /** Aborts the caller's signal after this time. */
  abortAfterMs?: number;
} & (
  | { method: 'stat' | 'unpin' | 'block'; cid: string }
  | { method: 'share' | 'unshare'; cid: string; name: string }
  | { method: 'read'; cid: string; offset: number; length: number }
  | { method: 'ping' }
  | { method: 'put'; bytes: number; announced?: number; body?: 'breaks' | 'stalls'; last?: 'abort' | 'leave' | 'wait' }
);

/** `value`: bytes as latin1 text. `last`: whether all bytes but the last had been sent. */
export type Outcome = {
  value?: unknown;
  error?: {
    code: string | undefined;
    message: string;
    hint: string | undefined;
    retryAfterSeconds: number | undefined;
  };
  last: boolean;
  cancelled: boolean;
};

/** Bytes that depend on their number only. */
export function bytesOf(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  for (let i = 0; i < count; i += 1) bytes[i] = i * 31 + (i >> 8) + (i >> 16) * 7;
  return bytes;
}

function text(bytes: Uint8Array): string {
  let out = '';
  for (let at = 0; at < bytes.length; at += 8192) out += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return out;
}

export async function play(scenario: Scenario): Promise<Outcome> {
  const outcome: Outcome = { last: false, cancelled: false };
  const headers: Record<string, string> =
    scenario.token === undefined ? {} : { authorization: `Bearer ${scenario.token}` };
  const service = kubo({
    id: 'tested',
    url: scenario.url,
    headers,
    pinName: `sealpin:${scenario.owner ?? 'tested'}`,
    fetch,
    ...(scenario.timeouts && { timeouts: scenario.timeouts }),
  });
  const abort = new AbortController();
  if (scenario.abortAfterMs !== undefined)
    setTimeout(() => abort.abort(new Error('the caller left')), scenario.abortAfterMs);
  const { signal } = abort;

  async function call(): Promise<unknown> {
    if (scenario.method === 'put') {
      let at = 0;
      const bytes = bytesOf(scenario.bytes);
      const body = new ReadableStream<Uint8Array>(
        {
          pull(controller) {
            if (at < bytes.length) {
              controller.enqueue(bytes.slice(at, (at += 300_000)));
              return undefined;
            }
            if (scenario.body === 'breaks') throw new Error('the body broke');
            if (scenario.body === 'stalls') return new Promise(() => undefined);
            controller.close();
            return undefined;
          },
          cancel: () => void (outcome.cancelled = true),
        },
        { highWaterMark: 0 },
      );
      const put = await service.put(body, {
        signal,
        ...(scenario.announced !== undefined && { bytes: scenario.announced }),
      });
      outcome.last = true;
      if (scenario.last === 'abort') put.abort(new Error('it was aborted'));
      if (scenario.last === 'leave') abort.abort(new Error('the caller left'));
      if (scenario.last === 'wait') return await put.refusal;
      return await put.commit();
    }
    if (scenario.method === 'ping') return await service.ping(signal);
    if (scenario.method === 'read') {
      const stream = await service.read(scenario.cid, scenario.offset, scenario.length, signal);
      return text(new Uint8Array(await new Response(stream).arrayBuffer()));
    }
    if (scenario.method === 'share' || scenario.method === 'unshare')
      return await service[scenario.method](scenario.cid, scenario.name, signal);
    const value = await service[scenario.method](scenario.cid, signal);
    return value instanceof Uint8Array ? text(value) : value;
  }

  try {
    outcome.value = await call();
  } catch (cause) {
    const code = isSealpinError(cause) ? cause.code : undefined;
    const { hint, retryAfterSeconds } = isSealpinError(cause) ? cause : {};
    outcome.error = { code, message: cause instanceof Error ? cause.message : String(cause), hint, retryAfterSeconds };
  }
  return outcome;
}
