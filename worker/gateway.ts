/** `GET` and `HEAD /ipfs/:cid`: a trustless gateway for root CIDs that live here, and no others (specs.ipfs.tech, 2026-03-05). */
import { SealpinError } from '../shared/errors.ts';
import { carOf, openFile, parseCid } from '../shared/ipfs/index.ts';
import { settled } from './answer.ts';
import { isHead, type Ctx } from './app.ts';
import { fileHeaders, knownLength } from './body/download.ts';
import { attachment } from './body/names.ts';
import { serviceOf } from './env.ts';
import { pinOf } from './objects/pin.ts';

const car = 'application/vnd.ipld.car';
const rawBlock = 'application/vnd.ipld.raw';

export async function gateway(c: Ctx): Promise<Response> {
  if ((c.env.PUBLIC_GATEWAY ?? 'on') === 'off') throw new SealpinError('not_found');
  const { text: cid } = parseCid(c.req.param('cid') ?? '');
  const { services } = await settled((await pinOf(c.env, cid)).services(cid));
  if (services.length === 0) throw new SealpinError('not_found');
  const sources = services.map((id) => serviceOf(c.env, id));
  const form = formOf(c);
  const headers = new Headers({ ...fileHeaders, ETag: `"${cid}${form === 'bytes' ? '' : `.${form}`}"`, 'X-Ipfs-Path': `/ipfs/${cid}` });
  headers.set('Content-Type', { car: `${car}; version=1; order=dfs; dups=n`, raw: rawBlock, bytes: 'application/octet-stream' }[form]);
  headers.set('Content-Disposition', attachment({ car: `${cid}.car`, raw: `${cid}.bin`, bytes: cid }[form]));

  const signal = c.req.raw.signal;
  if (form === 'car') {
    // A CAR has no length that is known beforehand; its reader verifies that it is complete.
    return new Response(isHead(c) ? null : carOf(cid, sources, { signal }), { headers });
  }
  const file = await openFile(cid, sources, { signal });
  headers.set('Content-Length', String(file.size));
  return new Response(isHead(c) ? null : knownLength(file.read(), file.size, c.var.requestId), { headers });
}

function formOf(c: Ctx): 'car' | 'raw' | 'bytes' {
  const format = c.req.query('format');
  if (format === 'car' || format === 'raw') return format;
  if (format !== undefined) throw new SealpinError('invalid_request', 'format is car or raw');
  const accept = c.req.header('Accept') ?? '';
  if (accept.includes(car)) return 'car';
  return accept.includes(rawBlock) ? 'raw' : 'bytes';
}
