/**
 * A trustless gateway (https://specs.ipfs.tech/http-gateways/trustless-gateway/) as a source of
 * blocks. A Sealpin service is such a gateway, too.
 */
import { SealpinError, type Code } from '../errors.ts';
import { cancelQuietly } from '../streams/cancel-quietly.ts';
import { byteReader } from '../streams/reader.ts';
import { parseRetryAfter } from '../streams/timing.ts';
import type { BlockSource } from './block-source.ts';
import { carOf, carType } from './car.ts';
import { maxBlockBytes } from './profile.ts';

/** Part of a response that is used; the `Response` of `fetch` is one. */
export type GatewayResponse = {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: ReadableStream<Uint8Array> | null;
};

/** One GET request. What is used of `fetch`; another HTTP client needs only a small adapter. */
export type GatewayFetch = (
  url: string,
  init: { headers: Record<string, string>; redirect: 'manual'; signal: AbortSignal },
) => Promise<GatewayResponse>;

/** Details of a refusal beyond its status: one of our codes, and a sentence. */
export type GatewayProblem = { readonly code: Code; readonly detail: string };

/** A trustless gateway, and how it is asked. */
export type GatewayOptions = {
  /** Its root: `/ipfs/{cid}` comes after it. */
  url: string;
  /** Its name in errors; the URL when undefined. */
  id?: string | undefined;
  fetch?: GatewayFetch | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Reads the body of a refusal, in the format of a Sealpin service; undefined when it is in no
   * known format.
   */
  readProblem?: ((response: GatewayResponse) => Promise<GatewayProblem | undefined>) | undefined;
};

/**
 * Statuses of gateways that have blocks, and no CAR files: bad request, not acceptable, unsupported
 * media type, not implemented.
 */
const statusesWithoutCar: readonly number[] = [400, 406, 415, 501];

/** The refusal of a gateway that gives no CAR files. */
class WithoutCar extends SealpinError {}

/**
 * Blocks and CARs of a gateway. Of one that gives blocks only, CARs are made here, block by block.
 * A redirect is refused: it could lead anywhere, also into a private network.
 *
 * Its methods throw not_found (404, 410), rate_limited (429), service_unreachable (no response),
 * pinning_unavailable, pinning_lost, content_denied and content_mismatch (a Sealpin service says
 * so), service_answer for any other response, and the errors of `fetch` that are a SealpinError.
 */
export function gateway(options: GatewayOptions): BlockSource {
  const { url, id = withoutSlash(url) } = options;
  let givesCar = true;

  async function block(cid: string, signal: AbortSignal): Promise<Uint8Array> {
    const reader = byteReader(await get(options, cid, { format: 'raw' }, 'application/vnd.ipld.raw', '', signal));
    // One byte too many is enough to see that it is no block.
    const bytes = await reader.read(maxBlockBytes + 1);
    await cancelQuietly(reader);
    return bytes;
  }

  return {
    id,
    block,
    async car(cid, start, end, signal) {
      /** A CAR from single blocks, the first of which is here already. */
      function carOfBlocks(root: Uint8Array): ReadableStream<Uint8Array> {
        const blockOf = async (each: string, stop: AbortSignal) => (each === cid ? root : block(each, stop));
        const entityBytes = { from: start, to: end === undefined ? undefined : end - 1 };
        return carOf(cid, [{ id, block: blockOf }], { signal, entityBytes });
      }

      if (!givesCar) return carOfBlocks(await block(cid, signal));
      const query: Record<string, string> = { format: 'car', 'dag-scope': 'entity', 'car-dups': 'y' };
      if (start > 0 || end !== undefined) query['entity-bytes'] = `${start}:${end === undefined ? '*' : end - 1}`;
      try {
        return await get(options, cid, query, carType, ';version=1;order=dfs;dups=y', signal);
      } catch (error) {
        if (!(error instanceof WithoutCar)) throw error;
        const root = await block(cid, signal).catch(() => {
          signal.throwIfAborted();
          throw error;
        });
        givesCar = false;
        return carOfBlocks(root);
      }
    },
  };
}

async function get(
  { url, fetch: fetchFrom = fetch, headers = {}, readProblem }: GatewayOptions,
  cid: string,
  query: Record<string, string>,
  type: string,
  parameters: string,
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  const address = `${withoutSlash(url)}/ipfs/${cid}?${new URLSearchParams(query).toString()}`;
  const response = await fetchFrom(address, {
    headers: { ...headers, accept: `${type}${parameters}` },
    redirect: 'manual',
    signal,
  }).catch((cause: unknown) => {
    signal.throwIfAborted();
    if (cause instanceof SealpinError) throw cause;
    throw new SealpinError('service_unreachable', 'it cannot be reached', { cause });
  });
  // The type alone proves nothing, which is why blocks are hashed; it tells an HTML page from a
  // damaged block.
  if (response.status === 200 && response.body && response.headers.get('content-type')?.startsWith(type))
    return response.body;
  const problem = await readProblem?.(response);
  // What read the problem has finished with the body.
  if (response.body?.locked === false) await cancelQuietly(response.body);
  throw gatewayRefusal(response, type, problem);
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, '');

/**
 * The error for a response that has no block. Nothing of the response but its status and its
 * problem goes into it.
 */
function gatewayRefusal(
  { status, headers }: GatewayResponse,
  type: string,
  problem: GatewayProblem | undefined,
): SealpinError {
  const retryAfter = { retryAfterSeconds: parseRetryAfter(headers.get('retry-after')) };
  if (problem?.code === 'pinning_unavailable' || problem?.code === 'pinning_timeout')
    return new SealpinError('pinning_unavailable', problem.detail, { reason: 'blob_unavailable', ...retryAfter });
  if (problem?.code === 'pinning_lost' || problem?.code === 'content_denied')
    return new SealpinError(problem.code, problem.detail);
  if (status === 404 || status === 410)
    return new SealpinError('not_found', 'it does not have this blob', { reason: 'blob_absent' });
  if (status === 200)
    return new SealpinError('service_answer', 'it returned something that is not IPFS data', {
      reason: 'not_a_gateway',
    });
  if (status === 0 || (status >= 300 && status < 400))
    return new SealpinError('service_answer', 'it redirects to another address', { reason: 'redirected' });
  if (type.endsWith('.car') && statusesWithoutCar.includes(status))
    return new WithoutCar('service_answer', `it gives neither CAR files (status ${status}) nor single blocks`, {
      reason: 'not_a_gateway',
    });
  const detail = `it answered with status ${status}${problem === undefined ? '' : `: ${problem.detail}`}`;
  if (problem?.code === 'content_mismatch') return new SealpinError('content_mismatch', detail);
  if (status === 429) return new SealpinError('rate_limited', detail, retryAfter);
  const reason = status >= 500 ? 'server_error' : 'not_a_gateway';
  return new SealpinError('service_answer', detail, { reason, ...retryAfter });
}
