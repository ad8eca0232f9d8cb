/** A trustless gateway (https://specs.ipfs.tech/http-gateways/trustless-gateway/) as a source of blocks. */
import { SealpinError } from '../errors.ts';
import { maxBlockBytes } from './cid.ts';
import { byteReader } from '../streams/reader.ts';
import type { BlockSource } from './file.ts';

export type GatewayOptions = {
  /** Its root: `/ipfs/{cid}` comes after it. */
  url: string;
  fetch?: typeof fetch;
  headers?: Readonly<Record<string, string>>;
};

/**
 * Blocks and CARs of a gateway. A redirect is refused: it could lead anywhere, also into the network of whoever asks.
 * What it throws: not_found (404, 410), rate_limited (429), service_unreachable (no answer, 5xx), content_mismatch for any other answer.
 */
export function gateway(o: GatewayOptions): BlockSource {
  const { fetch: ask = fetch, headers = {} } = o;
  const root = o.url.replace(/\/+$/, '');

  async function get(
    cid: string,
    query: Record<string, string>,
    accept: string,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array>> {
    let response: Response;
    try {
      response = await ask(`${root}/ipfs/${cid}?${new URLSearchParams(query).toString()}`, {
        headers: { ...headers, accept },
        redirect: 'manual',
        signal,
      });
    } catch (cause) {
      signal.throwIfAborted();
      throw new SealpinError('service_unreachable', `${root} cannot be reached`, { cause });
    }
    const type = response.headers.get('content-type') ?? '';
    // A page in HTML with status 200 is no block; the type alone would not do, hence the hash.
    if (response.status === 200 && response.body && type.startsWith(accept.split(';')[0]!)) return response.body;
    await response.body?.cancel();
    throw refusal(response, `${root} answered ${response.status || 'a redirect'} ${type}`.trim());
  }

  return {
    id: root,
    async block(cid, signal) {
      const reader = byteReader(await get(cid, { format: 'raw' }, 'application/vnd.ipld.raw', signal));
      const bytes = await reader.read(maxBlockBytes + 1);
      await reader.cancel();
      return bytes;
    },
    car(cid, start, end, signal) {
      const query: Record<string, string> = { format: 'car', 'dag-scope': 'entity', 'car-dups': 'y' };
      if (start > 0 || end !== undefined) query['entity-bytes'] = `${start}:${end === undefined ? '*' : end - 1}`;
      return get(cid, query, 'application/vnd.ipld.car;version=1;order=dfs;dups=y', signal);
    },
  };
}

function refusal({ status, headers }: Response, detail: string): SealpinError {
  if (status === 404 || status === 410) return new SealpinError('not_found', detail);
  const seconds = Number(headers.get('retry-after') ?? NaN);
  const options = Number.isSafeInteger(seconds) && seconds >= 0 ? { retryAfterSeconds: seconds } : {};
  if (status === 429) return new SealpinError('rate_limited', detail, options);
  if (status >= 500) return new SealpinError('service_unreachable', detail, options);
  return new SealpinError('content_mismatch', detail);
}
