/** Clients that store files, in one request or in several, or by a signed URL. */
import { parseApiKey, signToken } from '../../shared/crypto/index.ts';
import { cidOf, leafBytes, sha256 } from '../../shared/ipfs/index.ts';
import { origin } from '../platform/edge.ts';
import { dayMs, hourMs } from '../../shared/time.ts';
import type { Actor, Doing } from './actor.ts';
import { answerJson, type Told } from './asking.ts';
import { Violation, type ModelFile } from './model.ts';

/** The longest that a guest stores something, in days. */
const guestDays = 20;
const tus = { 'Tus-Resumable': '1.0.0' };

/** Headers of the bytes of an upload from an offset on. */
function chunkHeaders(offset: number) {
  return { ...tus, 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': String(offset) };
}

/** Headers of a file that is stored in one request. */
function fileHeaders({ step }: Actor) {
  const disposition = `attachment; filename="step-${step.id}"`;
  return { 'Content-Type': 'application/octet-stream', 'Content-Disposition': disposition };
}

/** Stores a file in one request. */
export async function store(actor: Actor, action: Doing<'store'>): Promise<void> {
  const { content, isRepeatable, lie } = action;
  const { mode, end } = termsOf(actor, action);
  const file = beginModelFile(actor, mode, content, end);
  const query = new URLSearchParams(end === Infinity ? {} : { expiresAt: new Date(end).toISOString() });
  if (lie === 'cid' && mode === 'plain')
    query.set('cid', cidOf('raw', await sha256(new TextEncoder().encode('other bytes'))).text);
  const isShort = lie === 'length' && file.bytes.length > 1;
  const told = await actor.ask('POST', `/v1/storage/${mode}?${query.toString()}`, {
    body: file.bytes,
    ...(isShort && { cutAt: file.bytes.length >> 1 }),
    headers: {
      ...fileHeaders(actor),
      ...(isRepeatable && { 'Idempotency-Key': `key-of-step-${actor.step.id}-0123456789` }),
    },
    isRepeatable,
  });
  if (told.status === 201 && (isShort || query.has('cid'))) throw new Violation('a lie was stored');
  settled(actor, file, told);
}

function beginModelFile(actor: Actor, mode: ModelFile['mode'], content: number, end: number): ModelFile {
  const { model } = actor.world;
  const [step, account] = [actor.step.id, actor.account];
  const key = actor.key && actor.step.withKey;
  const isOfGuest = actor.key?.isInvitation === true;
  return model.begin({ step, account, key, isOfGuest, mode, begunAt: actor.now, ends: [end] }, content);
}

/** A guest stores for some days only, and nothing that the service encrypts. */
function termsOf(actor: Actor, { mode, days }: Pick<Doing<'store'>, 'mode' | 'days'>) {
  const isOfGuest = actor.key?.isInvitation === true;
  const left = isOfGuest ? Math.min(days ?? guestDays, guestDays) : days;
  const end = left === undefined ? Infinity : Math.round(actor.now + left * dayMs);
  return { mode: isOfGuest ? 'plain' : mode, end } as const;
}

function settled(actor: Actor, file: ModelFile, told: Told): void {
  const { model } = actor.world;
  if (told.status === 201) model.stored(file, answerJson<{ fileId: string; cid: string }>(told.answer), actor.now);
  else if (told.isCertain) return model.refused(file, told, actor.now);
  // An attempt that broke off keeps its bytes for an hour.
  if (told.status !== 201 || told.attempts > 1) file.reservesUntil = actor.now + 2 * hourMs;
}

/** Stores a file in several requests, each where the service says. */
export async function upload(actor: Actor, action: Doing<'upload'>): Promise<void> {
  const { content, pieces, isAbandoned, isConfused, isAligned, meanwhile } = action;
  const { mode, end } = termsOf(actor, action);
  const file = beginModelFile(actor, mode, content, end);
  file.reservesUntil = actor.now + 8 * dayMs;
  const { bytes } = file;
  const metadata = Object.entries({ filename: `step-${actor.step.id}`, expiresAt: new Date(end).toISOString() })
    .map(([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`)
    .join(',');
  const created = await actor.ask('POST', `/v1/uploads/${mode}`, {
    headers: {
      ...tus,
      'Upload-Length': String(bytes.length),
      'Upload-Metadata': metadata,
      'Idempotency-Key': `key-of-step-${actor.step.id}-0123456789`,
    },
    isRepeatable: true,
  });
  const path = created.answer?.headers.get('Location')?.replace(origin, '') ?? undefined;
  if (created.status !== 201 || path === undefined)
    return created.isCertain ? actor.world.model.refused(file, created, actor.now) : undefined;
  const unit = isAligned === true ? leafBytes : 1;
  const size = Math.max(1, Math.ceil(bytes.length / pieces / unit)) * unit;
  let tries = 0;
  for (let offset = 0; tries < 6;) {
    if (isAbandoned && offset > 0) return;
    if (isConfused === true && offset > 0) await sendAgain(actor, path, bytes.subarray(0, size), offset);
    const body = bytes.subarray(offset, offset + size);
    // Each break halves what is left.
    const also = meanwhile === 'breaks' && offset > 0 ? undefined : meanwhile;
    const told = await sendPiece(actor, path, { headers: chunkHeaders(offset), body }, also);
    if (told.status === 204 && offset + body.length >= bytes.length) break;
    const head = told.status === 204 ? told : await actor.ask('HEAD', path, { headers: tus, isRepeatable: true });
    const arrived = Number(head.answer?.headers.get('Upload-Offset') ?? Number.NaN);
    if (head.status === 404 || head.status === 410 || Number.isNaN(arrived)) return;
    if (arrived < offset || arrived > offset + body.length)
      throw new Violation(`step ${actor.step.id}: ${offset} bytes had arrived, ${body.length} were sent: ${arrived}`);
    tries = arrived > offset ? 0 : tries + 1;
    if (tries > 0) await actor.pause(1_000 * 2 ** tries);
    offset = arrived;
    if (offset >= bytes.length && tries === 0) break;
  }
  for (let looks = 0; looks < 8; looks += 1) {
    const told = await actor.ask('GET', path, { isRepeatable: true });
    const upload = answerJson<{ state?: string; code?: string; file?: { fileId: string; cid: string } }>(told.answer);
    if (upload.state === 'done' && upload.file) return actor.world.model.stored(file, upload.file, actor.now);
    if (upload.code === 'pinning_lost') throw new Violation(`step ${actor.step.id}: what had arrived is lost`);
    if (told.status !== 200 || upload.state !== 'finishing') return;
    await actor.pause(60_000);
  }
}

/** Sends a piece of an upload, and does meanwhile what is asked for. */
async function sendPiece(
  actor: Actor,
  path: string,
  piece: { headers: Record<string, string>; body: Uint8Array },
  meanwhile: Doing<'upload'>['meanwhile'],
): Promise<Told> {
  const send = (cutAt?: number): Promise<Told> => actor.ask('PATCH', path, { ...piece, cutAt, isRepeatable: false });
  if (meanwhile === undefined) return await send();
  if (meanwhile === 'breaks') return await send(piece.body.length >> 1);
  const other = async (): Promise<unknown> => {
    await actor.pause(actor.world.service.scheduler.random('front').spread(1, 6_000));
    if (meanwhile === 'sent twice') return await send();
    return await actor.ask('DELETE', path, { headers: tus, isRepeatable: true });
  };
  const [told] = await Promise.all([send(), other()]);
  return told;
}

/** Sends the first bytes of an upload that has more already. */
async function sendAgain(actor: Actor, path: string, body: Uint8Array, offset: number): Promise<void> {
  const told = await actor.ask('PATCH', path, { headers: chunkHeaders(0), body, isRepeatable: false });
  if (told.status === 204) throw new Violation(`step ${actor.step.id}: the upload is at ${offset}, and takes byte 0`);
}

/** Stores a file by a signed URL that two send at once. */
export async function storeSigned(actor: Actor, { mode, content }: Doing<'storeSigned'>): Promise<void> {
  const path = await signedPath(actor, { method: 'POST', mode, jti: `step ${actor.step.id}` });
  if (path === undefined) return;
  const file = beginModelFile(actor, mode, content, Infinity);
  const request = { apiKey: '', body: file.bytes, headers: fileHeaders(actor), isRepeatable: true };
  const told = await Promise.all([actor.ask('POST', path, request), actor.ask('POST', path, request)]);
  const stored = told.filter(({ status }) => status === 201);
  for (const each of stored) settled(actor, file, each);
  if (stored.length > 0) return;
  // Of two that were refused, one may have seen the other store.
  const [first, second] = told;
  settled(actor, file, { ...first, isCertain: first.isCertain && second.isCertain && first.code === second.code });
}

/** Reads a file by a signed URL that may be used once, twice at once. */
export async function readSigned(actor: Actor, { of }: Doing<'readSigned'>): Promise<void> {
  const file = actor.known(of);
  const path = file?.fileId && (await signedPath(actor, { method: 'GET', file: file.fileId, jti: `${actor.step.id}` }));
  if (file === undefined || path === undefined) return;
  const from = actor.now;
  const request = { apiKey: '', isRepeatable: false };
  const told = await Promise.all([actor.ask('GET', path, request), actor.ask('GET', path, request)]);
  const given = told.filter(({ status }) => status === 200);
  if (given.length > 1) throw new Violation(`a signed URL that reads once has read step ${of} twice`);
  for (const { answer, status, code } of given)
    actor.world.model.read(file, from, actor.now, {
      status,
      code,
      // What was encrypted comes as it is stored.
      ...(file.mode === 'plain' && answer),
    });
}

async function signedPath(actor: Actor, claims: object): Promise<string | undefined> {
  const key = await parseApiKey(actor.apiKey);
  const account = actor.world.accounts[actor.account];
  const exp = Math.floor(actor.now / 1_000) + 3_600;
  return key && account && `/v1/accounts/${account.id}/signed/${signToken(key, { ...claims, exp })}`;
}
