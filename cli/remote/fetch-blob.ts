/** The bytes of a blob, from whoever has them: every block is checked against the blob ID, so nobody has to be trusted. */
import { parseAnswer, Problem } from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import {
  type BlockSource,
  carOf,
  openFile,
  parseCid,
  type IpfsFile,
  type OpenOptions,
} from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { type HttpResponse, readText, send } from './http.ts';
import { bytesFrom } from '../io/byte-stream.ts';
import { visible } from '../terminal/output.ts';
import { findService, noService } from './client.ts';

/** A leaf has 1 MiB, an interior node far less; more than this is no block. */
const maxBlockBytes = 2 * 1024 * 1024;

/** Whether a text names a blob by a link or an IPFS path, and not a file on this machine. */
export function isBlobReference(text: string): boolean {
  return /^\s*(?:ipfs:\/\/|https?:\/\/|\/ipfs\/(?:Qm|b[a-z2-7]{40}))/i.test(text);
}

/**
 * A blob ID as it was typed: alone, as `ipfs://<cid>` or as `/ipfs/<cid>`, with spaces around it. It is not repeated when it is
 * none: arguments in the wrong order put a password there.
 *
 * @param more to add to the hint of a text that is not like a blob ID at all
 * @throws invalid_cid
 */
export function parseBlobId(text: string, more = ''): string {
  const bare = text
    .trim()
    .replace(/^(?:ipfs:\/\/|\/ipfs\/)/i, '')
    .replace(/\/$/, '');
  try {
    return parseCid(bare).text;
  } catch (error) {
    if (!isSealpinError(error, 'invalid_cid')) throw error;
    const [detail, hint] = notBlobId(bare);
    throw new SealpinError('invalid_cid', detail, { hint: hint ?? `${error.hint ?? ''}${more}` });
  }
}

/** What was given instead of a blob ID, and what to give. Nothing of it is repeated but a CID. */
function notBlobId(text: string): [detail: string, hint?: string] {
  if (/^https?:\/\//i.test(text)) {
    const cid = /\/ipfs\/(b[a-z2-7]{58})(?![a-z2-7])|\/\/(b[a-z2-7]{58})\.ipfs\./.exec(text);
    return [
      'that is a link, and not a blob ID',
      cid === null ? 'give only the blob ID: bafkrei… or bafybei…' : `give only the blob ID in it: ${cid[1] ?? cid[2]}`,
    ];
  }
  if (/^Qm[1-9A-HJ-NP-Za-km-z]{44}/.test(text))
    return [
      'that is a CIDv0 (Qm…), which Sealpin cannot read',
      'the file needs a CIDv1: store it again with ipfs add --cid-version=1',
    ];
  if (/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text))
    return ['that is a file ID, and not a blob ID', 'sealpin list shows the blob ID of each file'];
  if (/^b[a-z2-7]{58}\//.test(text)) return ['there is a path after the blob ID', 'give the blob ID alone'];
  if (/^BA[A-Z2-7]{57}$/.test(text)) return ['that blob ID is in capitals', 'write it in lower case'];
  if (/^ba[fg][a-z2-7]{10,}$/.test(text) && text.length !== 59)
    return [`that blob ID has ${text.length} characters instead of 59`, 'copy all of it again'];
  return ['that is not a blob ID'];
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

/** The size of a blob in bytes, by its verified root block. Fails as `openBlob`. */
export async function blobSize(cid: string, context: Context): Promise<number> {
  const stop = new AbortController();
  try {
    return (await openBlob(cid, { ...context, signal: AbortSignal.any([context.signal, stop.signal]) })).size;
  } finally {
    stop.abort(new SealpinError('interrupted'));
  }
}

/** The same as a CAR file, its blocks in the order of the file. */
export async function blobAsCar(cid: string, context: Context): Promise<ReadableStream<Uint8Array>> {
  return explained(carOf(cid, await sourcesOf(context), optionsOf(context)));
}

/** Hashed right here: WebCrypto would copy every byte into another thread first, which takes longer than the hash. */
function optionsOf({ signal, timeouts }: Context): OpenOptions {
  return { signal, digest: nodeBackend.sha256, limits: { idleMs: timeouts.stallMs } };
}

async function sourcesOf(context: Context): Promise<BlockSource[]> {
  const { url, gateways } = await findService(context);
  const sources = gateways.map((gateway) => source(gateway, `gateway ${gateway.host}`, context));
  if (url !== undefined) sources.unshift(source(url, `service ${url.host}`, context));
  if (sources.length === 0)
    throw noService('name the service that stores it: --service https://… (the sender knows it)');
  return sources;
}

/** A trustless gateway (https://specs.ipfs.tech/http-gateways/trustless-gateway/); a service of ours is one, too. */
function source(root: URL, id: string, { timeouts }: Context): BlockSource {
  const get = async (path: string, accept: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> => {
    const answer = await send(new URL(path, root), {
      method: 'GET',
      headers: { accept },
      signal,
      timeouts,
      name: 'it',
    });
    const type = answer.headers['content-type'];
    if (answer.status === 200 && typeof type === 'string' && type.startsWith(accept.split(';')[0]!)) return answer.body;
    const problem =
      typeof type === 'string' && type.startsWith('application/problem+json') ? await problemIn(answer) : undefined;
    if (problem?.code === 'pinning_unavailable' || problem?.code === 'pinning_timeout')
      throw new SealpinError('pinning_unavailable', problem.text);
    await answer.body.cancel();
    if (answer.status === 404 || answer.status === 410)
      throw new SealpinError('not_found', 'it does not have this blob');
    throw new SealpinError(
      problem?.code === 'content_mismatch' ? 'content_mismatch' : 'service_answer',
      answer.status === 200
        ? 'it returned something that is not IPFS data'
        : accept.includes('.car') && [400, 406, 415, 501].includes(answer.status)
          ? `it does not give CAR files (status ${answer.status}), which Sealpin asks for`
          : `it answered with status ${answer.status}${problem === undefined ? '' : `: ${problem.text}`}`,
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

/** The code and the words of a Sealpin service that refuses; undefined when it is not one of ours. */
async function problemIn(answer: HttpResponse): Promise<{ code: string; text: string } | undefined> {
  try {
    const { code, detail, title, hint } = parseAnswer(Problem, JSON.parse(await readText(answer, 65_536)));
    const text = detail ?? (hint === undefined ? title : `${title}: ${hint}`);
    return { code, text: visible(text) };
  } catch {
    return undefined;
  }
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
  if (isSealpinError(error, 'invalid_cid'))
    return new SealpinError('invalid_cid', error.message, {
      hint: 'Sealpin reads files with raw leaves: store it again with ipfs add --cid-version=1',
      cause: error,
    });
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
  if (isSealpinError(error, 'service_unreachable') && error.reason === undefined)
    return new SealpinError('service_unreachable', error.message, {
      hint: 'check the address and your connection; a local service starts with: sealpin start',
      cause: error,
    });
  if (isSealpinError(error, 'service_answer') && /redirects to \S*\.ipfs\./.test(error.message))
    return new SealpinError('service_answer', error.message, {
      hint: 'a subdomain gateway cannot be used: name one that answers under /ipfs/ itself, such as http://127.0.0.1:8080',
      cause: error,
    });
  if (isSealpinError(error, 'service_answer') && /answered with status 5/.test(error.message))
    return new SealpinError('service_answer', error.message, {
      hint: 'try again; if it happens again, the log of the service says more',
      cause: error,
    });
  if (isSealpinError(error, 'service_answer'))
    return new SealpinError('service_answer', error.message, {
      hint: 'check the address; it has to be a Sealpin service or a trustless IPFS gateway that serves CAR files',
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
