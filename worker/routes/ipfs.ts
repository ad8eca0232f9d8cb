/**
 * `GET` and `HEAD /ipfs/:cid`: a trustless gateway (https://specs.ipfs.tech/http-gateways/trustless-gateway/, 2026-03-05) for
 * root CIDs that live here, and no others. It does not search, nor does it serve paths.
 */
import { SealpinError } from '../../shared/errors.ts';
import { carOf, openFile, parseCid, readBlock, type BlockSource, type CarOptions } from '../../shared/ipfs/index.ts';
import { acceptable } from '../http/accept.ts';
import { settled } from '../objects/result.ts';
import { isHead, type Ctx } from '../http/app.ts';
import { begun, concat, fileHeaders } from '../http/response-body.ts';
import { attachment, parseFilename } from '../http/content-disposition.ts';
import { isKnown } from '../http/conditions.ts';
import { send } from './read.ts';
import { serviceOf, servicesOf } from '../pinning/configured.ts';
import { pinOf } from '../objects/shard.ts';
import { atServices } from '../pinning/unavailable.ts';

const types = {
  bytes: 'application/octet-stream',
  raw: 'application/vnd.ipld.raw',
  car: 'application/vnd.ipld.car',
} as const;

/** The identity CID of nothing, by which clients find out whether this is a gateway. */
const probe = 'bafkqaaa';

type Form = keyof typeof types;
type Selection = Required<Pick<CarOptions, 'scope' | 'dups'>> & Pick<CarOptions, 'entityBytes'>;

export async function gateway(c: Ctx): Promise<Response> {
  if ((c.env.PUBLIC_GATEWAY ?? 'on') === 'off') throw new SealpinError('not_found');
  const asked = c.req.param('cid') ?? '';
  const form = formOf(c);
  if (asked === probe && form === 'raw')
    return await send(c, { headers: headersOf(c, probe, form), bytes: 0, body: async () => concat([]), ranges: false });
  const { text: cid } = parseCid(asked);
  const selection = form === 'car' ? parseSelection(c) : undefined;
  const sources = await sourcesOf(c, cid);
  try {
    return await answer(c, { cid, form, selection, sources });
  } catch (error) {
    // It may have been deleted just now: then that is told, and not what became of its bytes.
    const now = await sourcesOf(c, cid);
    throw atServices(
      error,
      now.map((source) => source.id),
    );
  }
}

async function answer(
  c: Ctx,
  {
    cid,
    form,
    selection,
    sources,
  }: { cid: string; form: Form; selection: Selection | undefined; sources: BlockSource[] },
): Promise<Response> {
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, c.req.raw.signal]);
  const whenBegun = (stream: ReadableStream<Uint8Array>) => begun(stream, (reason) => abort.abort(reason));

  if (selection)
    return await sendCar(c, cid, selection, () => whenBegun(carOf(cid, sources, { ...selection, signal })));
  const headers = headersOf(c, cid, form);
  // Before anything is fetched: the tag says all that a condition can ask for.
  if (isKnown(c.req.raw.headers, headers.get('ETag')!))
    return new Response(null, { status: 304, headers: notModified(headers) });
  if (form === 'raw') {
    const block = once(() => readBlock(cid, sources, { signal }));
    const bytes = await sizeOf(headers, async () => (await block()).length);
    return await send(c, { headers, bytes, body: async () => concat([await block()]), ranges: false });
  }
  const file = once(() => openFile(cid, sources, { signal }));
  const bytes = await sizeOf(headers, async () => (await file()).size);
  return await send(c, {
    headers,
    bytes,
    body: async (span) => whenBegun((await file()).read(span?.start, span?.end)),
    ranges: true,
  });
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined;
  return () => (done ??= work());
}

/** Sizes that were verified once, by ETag, the oldest first: what a CID names never changes. HEAD and 416 need no more than that. */
const sizes = new Map<string, number>();
const maxSizes = 4096;

async function sizeOf(headers: Headers, ask: () => Promise<number>): Promise<number> {
  const tag = headers.get('ETag')!;
  const size = sizes.get(tag) ?? (await ask());
  sizes.delete(tag);
  sizes.set(tag, size);
  if (sizes.size > maxSizes) sizes.delete(sizes.keys().next().value!);
  return size;
}

/** A CAR has no length that is known beforehand: whoever reads one verifies that it is complete. */
async function sendCar(
  c: Ctx,
  cid: string,
  { scope, entityBytes, dups }: Selection,
  body: () => Promise<ReadableStream<Uint8Array>>,
): Promise<Response> {
  const part = entityBytes ? `.${entityBytes.from}-${entityBytes.to ?? '*'}` : '';
  const headers = headersOf(c, cid, 'car', `.${scope}${part}.${dups ? 'y' : 'n'}`);
  if (isKnown(c.req.raw.headers, headers.get('ETag')!))
    return new Response(null, { status: 304, headers: notModified(headers) });
  headers.set('Content-Type', `${types.car}; version=1; order=dfs; dups=${dups ? 'y' : 'n'}`);
  headers.set('Accept-Ranges', 'none');
  return new Response(isHead(c) ? null : await body(), { headers });
}

function notModified(headers: Headers): Headers {
  for (const name of ['Content-Encoding', 'Content-Type', 'Content-Disposition']) headers.delete(name);
  return headers;
}

/** Whom to ask for a CID: those that hold it for somebody here. */
async function sourcesOf(c: Ctx, cid: string): Promise<BlockSource[]> {
  const { services, gone } = await settled((await pinOf(c.env, cid)).services(cid));
  if (services.length > 0) return configured(c, services);
  if (/\bonly-if-cached\b/i.test(c.req.header('Cache-Control') ?? ''))
    throw new SealpinError('precondition_failed', 'it is not here');
  if (gone) throw new SealpinError('gone');
  throw new SealpinError(
    'not_found',
    'no file with this CID lives here; blocks below a root are not served by themselves',
    {
      hint: 'ask for the root CID of a whole file: format=car gives all of its blocks, entity-bytes those of a part',
    },
  );
}

/** One that is not configured now is left out as long as there is another one. */
function configured(c: Ctx, ids: readonly string[]): BlockSource[] {
  const known = new Set(servicesOf(c.env).map(({ id }) => id));
  const usable = ids.filter((id) => known.has(id));
  return (usable.length > 0 ? usable : ids).map((id) => serviceOf(c.env, id));
}

function headersOf(c: Ctx, cid: string, form: Form, variant = ''): Headers {
  const asked = c.req.query('filename');
  const name = asked === undefined ? { bytes: cid, raw: `${cid}.bin`, car: `${cid}.car` }[form] : parseFilename(asked);
  const tag = form === 'bytes' ? cid : `${cid}.${form}${variant}`;
  return new Headers({
    ...fileHeaders,
    'Content-Type': types[form],
    'Content-Disposition': attachment(name),
    ETag: `"${tag}"`,
    'X-Ipfs-Path': `/ipfs/${cid}`,
    'X-Ipfs-Roots': cid,
  });
}

/** `format` goes before `Accept` (IPIP-523); what would have to be converted is not here (IPIP-524). */
function formOf(c: Ctx): Form {
  const format = c.req.query('format');
  if (format === 'car' || format === 'raw') return format;
  if (format !== undefined) throw new SealpinError('not_acceptable', 'format is car or raw');
  const type = acceptable(c.req.header('Accept') ?? null, [types.bytes, types.raw, types.car]);
  return (Object.keys(types) as Form[]).find((form) => types[form] === type)!;
}

/** Which blocks a CAR shall have, by query or, for `dups` and `order`, by the parameters of `Accept` (IPIP-412). */
function parseSelection(c: Ctx): Selection {
  const accept =
    (c.req.header('Accept') ?? '').split(',').find((part) => part.trim().toLowerCase().startsWith(types.car)) ?? '';
  const wish = (name: string) =>
    c.req.query(`car-${name}`) ?? new RegExp(`;\\s*${name}=([^;\\s]*)`, 'i').exec(accept)?.[1];
  if ((wish('version') ?? '1') !== '1') throw new SealpinError('not_acceptable', 'CARs are of version 1');
  const order = wish('order') ?? 'dfs';
  if (order !== 'dfs' && order !== 'unk') throw new SealpinError('not_acceptable', 'CARs are in the order dfs');
  const dups = wish('dups') ?? 'y';
  if (dups !== 'y' && dups !== 'n') throw new SealpinError('invalid_request', 'dups is y or n');
  const bytes = c.req.query('entity-bytes');
  const entityBytes = bytes === undefined ? undefined : parseEntityBytes(bytes);
  const scope = c.req.query('dag-scope') ?? (entityBytes ? 'entity' : 'all');
  if (scope !== 'block' && scope !== 'entity' && scope !== 'all')
    throw new SealpinError('invalid_request', 'dag-scope is block, entity or all');
  return { scope, dups: dups === 'y', ...(entityBytes && { entityBytes }) };
}

/** `from:to`, both inclusive; `*` is the end, and negative numbers count from it. */
function parseEntityBytes(text: string): { from: number; to?: number } {
  const [, first, last] = /^(-?\d+):(-?\d+|\*)$/.exec(text) ?? [];
  const [from, to] = [Number(first), last === '*' ? undefined : Number(last)];
  if (first === undefined || !Number.isSafeInteger(from) || (to !== undefined && !Number.isSafeInteger(to))) {
    throw new SealpinError('invalid_request', 'entity-bytes is from:to, in bytes, where to may be *');
  }
  return { from, ...(to !== undefined && { to }) };
}
