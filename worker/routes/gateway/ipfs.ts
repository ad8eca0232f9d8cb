/**
 * `GET` and `HEAD /ipfs/:cid`: a trustless gateway
 * (https://specs.ipfs.tech/http-gateways/trustless-gateway/, 2026-03-05) for the blocks of files
 * that live here, and no others. It neither searches the network nor serves paths.
 */
import { SealpinError } from '../../../shared/errors.ts';
import {
  canonicalCid,
  carOf,
  carType,
  digestOfBytes,
  openFile,
  parseCid,
  readBlock,
} from '../../../shared/ipfs/index.ts';
import { withStop } from '../../../shared/streams/timing.ts';
import { isGatewayOpen } from '../../env.ts';
import { isHead, type Ctx } from '../../http/app.ts';
import { awaitFirstChunk } from '../../http/response-body.ts';
import { isNotModified, type Span } from '../../http/conditions.ts';
import { notModified, respond, type OpenBody } from '../../http/representation.ts';
import { atServices } from '../../backends/unavailable.ts';
import { findBlock, rememberBlocks, type FoundBlock } from './find-block.ts';
import { formOf, metaOf, parseSelection, type BlockForm, type Selection } from './negotiation.ts';
import { sourceOptions } from '../files/file-backends.ts';

/** The identity CID of no bytes, with which clients test whether this is a gateway. */
const probe = 'bafkqaaa';

/** Serves a CID that lives here, as bytes, as one block or as a CAR. */
export async function readGateway(c: Ctx): Promise<Response> {
  if (!isGatewayOpen(c.env)) throw new SealpinError('not_found');
  const asked = c.req.param('cid') ?? '';
  const form = formOf(c);
  if (asked === probe && form === 'raw')
    return await respond(c, {
      ...metaOf(c, probe, form),
      bytes: 0,
      body: async () => new Uint8Array(0),
      ranges: false,
    });
  const { text: cid } = canonicalCid(asked);
  const selection = form === 'car' ? parseSelection(c) : undefined;
  const found = await requireBlock(c, cid);
  try {
    if (selection !== undefined) return await respondWithCar(c, cid, selection, found);
    return await respondWithBytes(c, cid, form, found);
  } catch (error) {
    // The file may have been deleted meanwhile: then that is the error, and not what became of its
    // bytes.
    const now = await requireBlock(c, cid);
    throw atServices(
      error,
      now.sources.map(({ id }) => id),
    );
  }
}

async function respondWithBytes(c: Ctx, cid: string, form: BlockForm, { root, sources }: FoundBlock) {
  const { signal, stop } = withStop(c.req.raw.signal);
  const options = { signal, ...sourceOptions(c, root) };
  const { etag, headers } = metaOf(c, cid, form);
  // Before anything is fetched: the tag decides every condition.
  if (isNotModified(c.req.raw.headers, etag)) return notModified(etag, headers);
  if (form === 'raw') {
    const block = once(async () => {
      const bytes = await readBlock(cid, sources, options);
      await rememberBlocks(c.env, root, cid, bytes);
      return bytes;
    });
    const bytes = await sizeOf(etag, async () => (await block()).length);
    const part = async (span?: Span) => (await block()).subarray(span?.start, span?.end);
    return await respond(c, { etag, headers, bytes, sha256: parseCid(cid).digest, body: part, ranges: true });
  }
  const file = once(() => openFile(cid, sources, options));
  const bytes = await sizeOf(etag, async () => (await file()).size);
  const body: OpenBody = async (span) => await awaitFirstChunk((await file()).read(span?.start, span?.end), stop);
  return await respond(c, { etag, headers, bytes, sha256: digestOfBytes(cid), body, ranges: true, file: cid });
}

/** The response with a CAR, whose length is not known: its client verifies that it is complete. */
async function respondWithCar(c: Ctx, cid: string, selection: Selection, { root, sources }: FoundBlock) {
  const { scope, entityBytes, dups: hasDups } = selection;
  const dups = hasDups ? 'y' : 'n';
  const part = entityBytes ? `.${entityBytes.from}-${entityBytes.to ?? '*'}` : '';
  const { etag, headers } = metaOf(c, cid, 'car', `.${scope}${part}.${dups}`);
  if (isNotModified(c.req.raw.headers, etag)) return notModified(etag, headers);
  headers.set('ETag', etag);
  headers.set('Content-Type', `${carType}; version=1; order=dfs; dups=${dups}`);
  headers.set('Accept-Ranges', 'none');
  if (isHead(c)) return new Response(null, { headers });
  const place = carPlace(c, cid, selection);
  if (place !== undefined) {
    headers.set('Sealpin-Place', place);
    return new Response(null, { headers });
  }
  const { signal, stop } = withStop(c.req.raw.signal);
  // The reader of a CAR verifies it. Where another service could give what one has damaged, that is
  // found here.
  const options = { ...selection, signal, ...sourceOptions(c, root), passLeaves: sources.length === 1 };
  return new Response(await awaitFirstChunk(carOf(cid, sources, options), stop), { headers });
}

/**
 * The place of a CAR's blocks, for the process in front of a local service, where that can give
 * them: in the usual form, as readers of files ask.
 */
function carPlace(c: Ctx, cid: string, { scope, dups, entityBytes }: Selection): string | undefined {
  if (c.env.HANDOVERS?.get(c.req.raw) === undefined || scope === 'block' || !dups) return undefined;
  const { from = 0, to } = entityBytes ?? {};
  return from < 0 || (to !== undefined && to < from) ? undefined : JSON.stringify({ cid, from, to });
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined;
  return () => (done ??= work());
}

/** Verified sizes in bytes by ETag, which never change, the oldest first: for HEAD and 416. */
const sizes = new Map<string, number>();
const maxSizes = 4096;

async function sizeOf(etag: string, ask: () => Promise<number>): Promise<number> {
  const size = sizes.get(etag) ?? (await ask());
  sizes.delete(etag);
  sizes.set(etag, size);
  const [oldest] = sizes.keys();
  if (sizes.size > maxSizes && oldest !== undefined) sizes.delete(oldest);
  return size;
}

/** Finds a block. @throws not_found where it is in no file here, and as `findBlock` */
async function requireBlock(c: Ctx, cid: string): Promise<FoundBlock> {
  const found = await findBlock(c, cid);
  if (found !== undefined) return found;
  if (/\bonly-if-cached\b/i.test(c.req.header('Cache-Control') ?? ''))
    throw new SealpinError('precondition_failed', 'it is not here');
  throw new SealpinError('not_found', 'no file here has this block, as far as is known', {
    hint: 'ask for the root of the file; what is below it is known some seconds after the upload',
  });
}
