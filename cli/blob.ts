/** The bytes of a blob, from whoever has them: every block is checked against the blob ID, so nobody has to be trusted. */
import { parseAnswer, Problem } from '../shared/api.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { type BlockSource, carOf, openFile, parseCid, type IpfsFile, type OpenOptions } from '../shared/ipfs/index.ts';
import type { Context } from './context.ts';
import { nodeBackend } from './crypto.ts';
import { type Answer, readAnswer, send } from './http.ts';
import { bytesFrom } from './bytes.ts';
import { visible } from './output.ts';
import { findService, noService } from './service.ts';

/** A leaf has 1 MiB, an interior node far less; more than this is no block. */
const maxBlockBytes = 2 * 1024 * 1024;

/**
 * A blob ID as it was typed. It is not repeated when it is none: arguments in the wrong order put a password there.
 *
 * @param more to add to the hint
 * @throws invalid_cid
 */
export function parseBlobId(text: string, more = ''): string {
  try {
    return parseCid(text).text;
  } catch (error) {
    if (!isSealpinError(error, 'invalid_cid')) throw error;
    throw new SealpinError('invalid_cid', 'that is not a blob ID', { hint: `${error.hint ?? ''}${more}` });
  }
}

/**
 * A blob, from the service or else from the configured gateways. When one fails midway, the next one goes on at the block that
 * failed.
 *
 * @param cid a checked blob ID
 * @throws not_found when nobody has it, content_mismatch, service_unreachable, service_answer; the streams, too
 */
export async function openBlob(cid: string, context: Context): Promise<IpfsFile> {
  try {
    const file = await openFile(cid, await sourcesOf(context), optionsOf(context));
    return { size: file.size, read: (start, end) => explained(file.read(start, end)) };
  } catch (error) {
    throw explain(error);
  }
}

/** The same as a CAR file, its blocks in the order of the file. */
export async function blobAsCar(cid: string, context: Context): Promise<ReadableStream<Uint8Array>> {
  return explained(carOf(cid, await sourcesOf(context), optionsOf(context)));
}

/** Hashed right here: WebCrypto would copy every byte into another thread first, which takes longer than the hash. */
function optionsOf({ signal, pace }: Context): OpenOptions {
  return { signal, digest: nodeBackend.sha256, limits: { idleMs: pace.stallMs } };
}

async function sourcesOf(context: Context): Promise<BlockSource[]> {
  const { url, gateways } = await findService(context);
  const sources = gateways.map((gateway) => source(gateway, `gateway ${gateway.host}`, context));
  if (url !== undefined) sources.unshift(source(url, `service ${url.host}`, context));
  if (sources.length === 0) throw noService();
  return sources;
}

/** A trustless gateway (https://specs.ipfs.tech/http-gateways/trustless-gateway/); a service of ours is one, too. */
function source(root: URL, id: string, { pace }: Context): BlockSource {
  const get = async (path: string, accept: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> => {
    const answer = await send(new URL(path, root), { method: 'GET', headers: { accept }, signal, pace });
    const type = answer.headers['content-type'];
    if (answer.status === 200 && typeof type === 'string' && type.startsWith(accept.split(';')[0]!)) return answer.body;
    const unavailable = answer.status >= 500 ? await pinningProblem(answer) : undefined;
    if (unavailable !== undefined) throw unavailable;
    await answer.body.cancel();
    if (answer.status === 404 || answer.status === 410)
      throw new SealpinError('not_found', 'it does not have this blob');
    throw new SealpinError(
      'service_answer',
      answer.status === 200 ? 'it gave something that is not of IPFS' : `it answered with status ${answer.status}`,
    );
  };
  return {
    id,
    async block(cid, signal) {
      const body = await get(`ipfs/${cid}?format=raw`, 'application/vnd.ipld.raw', signal);
      return readBlock(body);
    },
    car(cid, start, end, signal) {
      const range = start > 0 || end !== undefined ? `&entity-bytes=${start}:${end === undefined ? '*' : end - 1}` : '';
      return get(
        `ipfs/${cid}?format=car&dag-scope=entity&car-dups=y${range}`,
        'application/vnd.ipld.car;version=1;order=dfs;dups=y',
        signal,
      );
    },
  };
}

/** The words of a Sealpin service that cannot reach where the bytes are; undefined for any other answer. */
async function pinningProblem(answer: Answer): Promise<SealpinError | undefined> {
  const type = answer.headers['content-type'];
  if (typeof type !== 'string' || !type.startsWith('application/problem+json')) return undefined;
  let problem: Problem;
  try {
    problem = parseAnswer(Problem, JSON.parse(await readAnswer(answer, 64 * 1024)));
  } catch {
    return undefined; // not one of ours
  }
  const { code, title, hint } = problem;
  if (code !== 'pinning_unavailable' && code !== 'pinning_timeout') return undefined;
  return new SealpinError('pinning_unavailable', visible(hint === undefined ? title : `${title}: ${hint}`));
}

async function readBlock(body: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBlockBytes) throw new SealpinError('content_mismatch', 'it gave more than a block');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function explained(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  return bytesFrom({
    async next() {
      try {
        return (await reader.read()).value;
      } catch (error) {
        throw explain(error);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** Says what to do where the sources' own words do not. */
function explain(error: unknown): unknown {
  if (isSealpinError(error, 'not_found'))
    return new SealpinError('not_found', error.message, {
      hint: 'check the blob ID, or name a service or gateway that has it',
      cause: error,
    });
  if (isSealpinError(error, 'content_mismatch'))
    return new SealpinError('content_mismatch', `${error.message}: nothing of it was used`, {
      hint: 'ask another service or gateway for the same blob ID',
      cause: error,
    });
  if (isSealpinError(error, 'service_unreachable'))
    return new SealpinError('service_unreachable', error.message, {
      hint: 'check the address and the line; a local service starts with: sealpin start',
      cause: error,
    });
  if (isSealpinError(error, 'service_answer'))
    return new SealpinError('service_answer', error.message, {
      hint: 'check the address of the service',
      cause: error,
    });
  if (isSealpinError(error, 'pinning_unavailable'))
    return new SealpinError('pinning_unavailable', error.message, {
      hint: 'try again later; for the local service see: sealpin status',
      cause: error,
    });
  if (isSealpinError(error, 'pinning_timeout'))
    return new SealpinError('service_unreachable', error.message, { hint: 'try again later', cause: error });
  return error;
}
