/** The representation that a request of the gateway asks for, and the headers of its response. */
import { SealpinError } from '../../../shared/errors.ts';
import { carType, type CarOptions } from '../../../shared/ipfs/index.ts';
import { cleanFilename } from '../../../shared/filename.ts';
import { negotiate } from '../../http/accept.ts';
import type { Ctx } from '../../http/app.ts';
import { attachment } from '../../http/content-disposition.ts';
import { fileHeaders } from '../../http/response-body.ts';

/** Media types by form. */
const types = { bytes: 'application/octet-stream', raw: 'application/vnd.ipld.raw', car: carType } as const;

/**
 * Caching of what a CID names, which never changes: readers may keep it for as long as gateways say
 * (29,030,400 s, from
 * https://specs.ipfs.tech/http-gateways/path-gateway/#cache-control-response-header). Shared caches
 * keep it for a minute and ask again (RFC 9111 sections 5.2.2.8 and 5.2.2.10): so they can serve
 * many readers of the same bytes, and stop soon after a file is deleted.
 */
const cacheControl = 'public, max-age=29030400, immutable, s-maxage=60, proxy-revalidate, no-transform';

/** Representations of a CID: bytes, one block, or a CAR. */
export type BlockForm = keyof typeof types;

/** The blocks of a CAR. */
export type Selection = Required<Pick<CarOptions, 'scope' | 'dups'>> & Pick<CarOptions, 'entityBytes'>;

/** The ETag of a form of a CID, and the headers of a response with it. */
export function metaOf(c: Ctx, cid: string, form: BlockForm, variant = ''): { etag: string; headers: Headers } {
  const asked = c.req.query('filename');
  const name = asked === undefined ? { bytes: cid, raw: `${cid}.bin`, car: `${cid}.car` }[form] : cleanFilename(asked);
  const tag = form === 'bytes' ? cid : `${cid}.${form}${variant}`;
  const headers = new Headers({
    ...fileHeaders,
    'Cache-Control': cacheControl,
    'Content-Type': types[form],
    'Content-Disposition': attachment(name),
    'X-Ipfs-Path': `/ipfs/${cid}`,
    'X-Ipfs-Roots': cid,
  });
  return { etag: `"${tag}"`, headers };
}

/**
 * The requested form. `format` takes precedence over `Accept` (IPIP-523); forms that need a
 * conversion do not exist (IPIP-524).
 */
export function formOf(c: Ctx): BlockForm {
  const format = c.req.query('format');
  if (format === 'car' || format === 'raw') return format;
  if (format !== undefined) throw new SealpinError('not_acceptable', 'format is car or raw');
  const type = negotiate(c.req.header('Accept') ?? null, [types.bytes, types.raw, types.car]);
  return type === types.car ? 'car' : type === types.raw ? 'raw' : 'bytes';
}

/**
 * The blocks that a CAR must have, by the query or, for `version`, `dups` and `order`, by the
 * parameters of `Accept` (IPIP-412).
 */
export function parseSelection(c: Ctx): Selection {
  const accept =
    (c.req.header('Accept') ?? '').split(',').find((part) => part.trim().toLowerCase().startsWith(types.car)) ?? '';
  const option = (name: string) =>
    c.req.query(`car-${name}`) ?? new RegExp(`;\\s*${name}=([^;\\s]*)`, 'i').exec(accept)?.[1];
  if ((option('version') ?? '1') !== '1') throw new SealpinError('not_acceptable', 'CARs are of version 1');
  const order = option('order') ?? 'dfs';
  if (order !== 'dfs' && order !== 'unk') throw new SealpinError('not_acceptable', 'CARs are in the order dfs');
  const dups = option('dups') ?? 'y';
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
  if (!Number.isSafeInteger(from) || (to !== undefined && !Number.isSafeInteger(to)))
    throw new SealpinError('invalid_request', 'entity-bytes is from:to, in bytes, where to may be *');
  return { from, ...(to !== undefined && { to }) };
}
