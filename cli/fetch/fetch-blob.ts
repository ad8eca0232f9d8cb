/**
 * The bytes of a blob from sources that need no trust: every block is checked against the blob ID.
 */
import { gatewayProblem } from '../../client/service-problem.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import {
  type BlockSource,
  carOf,
  cidFromV0,
  gateway,
  openFile,
  parseCid,
  type IpfsFile,
  type OpenOptions,
} from '../../shared/ipfs/index.ts';
import { withStop } from '../../shared/streams/timing.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { headerOf, sendRequest } from '../io/http.ts';
import { openSink, writeAll } from '../io/output-file.ts';
import { visible } from '../terminal/output.ts';
import { noService } from '../remote/client.ts';
import { findService } from '../remote/service-choice.ts';
import { isFileId } from '../remote/file-id.ts';
import { localFiles } from './local-files.ts';
import { withOwnFile } from './own-files.ts';
import { memory } from '../io/byte-stream.ts';

/** Recognizes a reference to a blob by a link or an IPFS path, as opposed to a local file. */
export function isBlobReference(text: string): boolean {
  return /^\s*(?:ipfs:\/\/|https?:\/\/|\/ipfs\/(?:Qm|b[a-z2-7]{40}))/i.test(text);
}

/**
 * Parses a blob ID as people copy it: alone, as `ipfs://<cid>`, as `/ipfs/<cid>` or in the URL of a
 * gateway, with spaces around it, and as a CIDv0. The gateway of a URL is not asked: a service or a
 * configured one is. The error does not repeat other text: arguments in the wrong order put a
 * password there.
 * @param more what to add to the hint for text that is nothing like a blob ID
 * @throws invalid_cid
 */
export function parseBlobId(text: string, more = ''): string {
  const bare = (inUrl(text.trim()) ?? text.trim().replace(/^(?:ipfs:\/\/|\/ipfs\/)/i, '')).replace(/\/$/, '');
  try {
    return cidFromV0(bare)?.text ?? parseCid(bare).text;
  } catch (error) {
    if (!isSealpinError(error, 'invalid_cid')) throw error;
    const [detail, hint] = notBlobId(bare);
    throw new SealpinError('invalid_cid', detail, { hint: hint ?? `${error.hint ?? ''}${more}` });
  }
}

/** Recognizes a blob ID, as `parseBlobId` accepts it. */
export function isBlobId(text: string): boolean {
  try {
    parseBlobId(text);
    return true;
  } catch (error) {
    if (isSealpinError(error, 'invalid_cid')) return false;
    throw error;
  }
}

/** The CID and its path in a gateway's URL (https://specs.ipfs.tech/http-gateways/). */
function inUrl(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined;
  const { hostname, pathname } = new URL(text);
  const [label = '', kind] = hostname.split('.');
  return kind === 'ipfs' ? `${label}${pathname}` : /^\/ipfs\/(.+)$/.exec(pathname)?.[1];
}

/** Says what a text is instead of a blob ID, without repeating it, and what to give. */
function notBlobId(text: string): [detail: string, hint?: string] {
  if (/^https?:\/\//i.test(text)) return ['that is a link without a blob ID', 'give the blob ID: bafkrei… or bafybei…'];
  if (isFileId(text))
    return [
      'that is a file ID, and not a blob ID',
      'what the service encrypted is read by its file ID; of all else sealpin list shows the blob ID',
    ];
  if (/^(?:b[a-z2-7]{58}|Qm[1-9A-HJ-NP-Za-km-z]{44})\//.test(text))
    return ['there is a path after the blob ID', 'give the blob ID alone'];
  if (/^BA[A-Z2-7]{57}$/.test(text)) return ['that blob ID is in capitals', 'write it in lower case'];
  if (/^ba[fg][a-z2-7]{10,}$/.test(text) && text.length !== 59)
    return [`that blob ID has ${text.length} characters instead of 59`, 'copy all of it again'];
  return ['that is not a blob ID'];
}

/**
 * A blob, from the service or else from the configured gateways. When one fails midway, the next
 * one continues at the block that failed.
 * @param cid a checked blob ID
 * @param onBlock gets each verified block
 * @returns `isHere`: whether it can come from the local service only
 * @throws not_found when no source has it, content_mismatch, service_unreachable, service_answer,
 * and pinning_timeout, which `readFailure` converts; the streams fail with the same
 */
export async function openBlob(cid: string, context: Context, onBlock?: OpenOptions['onBlock']) {
  const { sources, isHere } = await findSources(context);
  // What is kept is written while the next block is read, and so its memory cannot be used again.
  const pool = isHere ? memory : undefined;
  const o = { ...optionsOf(context), onBlock, pool };
  const { size, read } = await withOwnFile(cid, context, sources, (from) => openFile(cid, from, o));
  return { size, read, isHere };
}

/**
 * Uses a blob, and ends what is still asked for of it afterwards. Fails as `openBlob` with
 * `readFailure`, and as `use`.
 */
export async function withBlob<T>(cid: string, context: Context, use: (blob: IpfsFile) => Promise<T>): Promise<T> {
  const { signal, stop } = withStop(context.signal);
  try {
    return await use(await openBlob(cid, { ...context, signal }));
  } catch (error) {
    throw readFailure(error);
  } finally {
    stop(new SealpinError('interrupted'));
  }
}

/**
 * Writes a blob as a CAR file, complete or not at all, its blocks in the order of the file. Fails
 * as `openBlob` with `readFailure`, and as a sink.
 * @param o.bytes of the blob, for the progress; undefined: not known yet
 * @returns its path, and how many bytes it has
 */
export async function writeCar(
  cid: string,
  path: string,
  o: { readonly force: boolean; readonly label: string; readonly bytes?: number },
  context: Context,
) {
  const sink = await openSink(path, { force: o.force, environment: context, fileOnly: true });
  try {
    await sink.room(o.bytes ?? (await withBlob(cid, context, async ({ size }) => size)));
    const bytes = await withOwnFile(cid, context, await sourcesOf(context), async (sources) => {
      // Of sources that broke off, nothing stays.
      await sink.abort();
      return writeAll(carOf(cid, sources, optionsOf(context)), sink, {
        progress: context.output.progress(o.label, o.bytes),
        signal: context.signal,
        onWritten: () => undefined,
      });
    });
    return { path: await sink.commit(), bytes };
  } catch (error) {
    throw readFailure(error);
  } finally {
    await sink.abort();
  }
}

/**
 * Converts an error of reading a blob: a source that stalls is a service that cannot be reached.
 */
export function readFailure(error: unknown): unknown {
  return isSealpinError(error, 'pinning_timeout')
    ? new SealpinError('service_unreachable', error.message, { hint: 'try again later', cause: error })
    : error;
}

/** Hashes blocks right here: WebCrypto would copy every byte into another thread. */
export function optionsOf({ signal, timeouts }: Pick<Context, 'signal' | 'timeouts'>): OpenOptions {
  return { signal, digest: nodeProvider.sha256, hedgeMs, limits: { idleMs: timeouts.stallMs } };
}

/** Time until the next source is asked for a block as well, in ms: a stall holds nothing up. */
const hedgeMs = 3_000;

/** The service, then the configured gateways. @throws service_unreachable when there are none */
export async function sourcesOf(context: Context): Promise<BlockSource[]> {
  return (await findSources(context)).sources;
}

async function findSources(context: Context): Promise<{ sources: BlockSource[]; isHere: boolean }> {
  const { url, local, isDirect, gateways } = await findService(context);
  const service = url === undefined ? [] : [sourceAt(url, `service ${url.host}`, context)];
  const files = url === undefined || isDirect !== true ? [] : service.map((each) => localFiles(url, each, context));
  const sources = [...files, ...service, ...sourcesAt(gateways, context)];
  if (sources.length === 0)
    throw noService('name the service that stores it: --service https://… (the sender knows it)');
  return { sources, isHere: local === true && gateways.length === 0 };
}

/** Gateways as sources of blocks, in order of preference. */
export function sourcesAt(gateways: readonly URL[], context: Context): BlockSource[] {
  return gateways.map((root) => sourceAt(root, `gateway ${root.host}`, context));
}

function sourceAt(root: URL, id: string, { timeouts }: Context): BlockSource {
  return gateway({
    url: root.href,
    id,
    async fetch(url, { headers, signal }) {
      // Errors name the gateway already: it is `it`.
      const response = await sendRequest(new URL(url), { method: 'GET', headers, signal, timeouts, name: 'it' });
      const { status, body } = response;
      return { status, body, headers: { get: (name) => headerOf(response, name) ?? null } };
    },
    async readProblem(response) {
      const problem = await gatewayProblem(response);
      return problem && { ...problem, detail: visible(problem.detail) };
    },
  });
}
