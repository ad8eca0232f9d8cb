/** Senders and receivers of shares. */
import { dayMs } from '../../shared/time.ts';
import type { Actor, Doing } from './actor.ts';
import { answerJson } from './asking.ts';
import { changing, Violation } from './model.ts';

/** Makes a share of a file. */
export async function shareFile(actor: Actor, { of, opens, days }: Doing<'share'>): Promise<void> {
  const file = actor.known(of);
  if (file === undefined) return;
  const { model } = actor.world;
  const end = Math.round(actor.now + days * dayMs);
  const record = Buffer.from(`record of step ${actor.step.id}`).toString('base64');
  const json = { record, files: [file.fileId], opens, password: false, expiresAt: new Date(end).toISOString() };
  const from = actor.now;
  const told = await actor.ask('POST', '/v1/shares', { json });
  if (told.status !== 201) return;
  const { id, expiresAt } = answerJson<{ id: string; expiresAt: string }>(told.answer);
  if (Date.parse(expiresAt) > end) throw new Violation(`the share of step ${actor.step.id} ends too late`);
  if (actor.key?.isInvitation === true && file.key !== actor.step.withKey)
    throw new Violation(`a guest shares the file of step ${of}`);
  // What a guest has stored goes with a share of it.
  if (file.isOfGuest) file.goneFrom = Math.min(file.goneFrom, from);
  // What ends it with its file, its key or its account may have come first.
  const hasEnded = !actor.isSameAccount || (actor.key?.endsFrom ?? Infinity) <= actor.now;
  model.shares.push({
    step: actor.step.id,
    account: file.account,
    file,
    totals: [opens],
    record,
    ends: [Date.parse(expiresAt)],
    id,
    goneFrom: hasEnded ? actor.now : Infinity,
    goneBy: Infinity,
    left: new Set(),
    answered: 0,
    tokens: new Map(),
    unsure: 0,
  });
}

/** Opens a share, as its receivers do. */
export async function openAsReceiver(actor: Actor, { of, receiver }: Doing<'open'>): Promise<void> {
  const { model } = actor.world;
  const share = model.share(of);
  if (share?.id === undefined) return;
  const token = `receiver-${of}-${receiver}-${Math.floor(actor.now / 300_000)}-0123456789`;
  const { now: from } = actor;
  const { totals } = share;
  const isFirst = !share.tokens.has(token);
  share.tokens.set(token, from);
  if (isFirst) share.unsure += 1;
  const told = await actor.ask('POST', `/v1/shares/${share.id}/open`, {
    headers: { 'Idempotency-Key': token },
    isRepeatable: true,
    apiKey: '',
  });
  const body = answerJson<{ record?: string; opensLeft?: number }>(told.answer);
  if (told.status === 200 && body.opensLeft === undefined) return;
  const replayed = told.answer?.headers.get('Idempotency-Replayed') === 'true';
  model.shareOpened(share, { ...told, ...body }, { from, to: actor.now, totals, token, replayed });
  // One that is repeated was made by an attempt before, whose answer nobody has.
  if (isFirst && (told.status === 200 ? !replayed : told.isCertain)) share.unsure -= 1;
}

/** Ends a share. */
export async function revoke(actor: Actor, { of }: Doing<'revoke'>): Promise<void> {
  const share = actor.knownShare(of);
  if (share?.id === undefined) return;
  share.goneFrom = Math.min(share.goneFrom, actor.now);
  if (share.file.isOfGuest) share.file.goneFrom = Math.min(share.file.goneFrom, actor.now);
  const told = await actor.ask('DELETE', `/v1/shares/${share.id}`, { isRepeatable: true });
  const isDone = answerJson<{ record?: string }>(told.answer).record === 'destroyed';
  if (told.status === 200 && isDone) share.goneBy = Math.min(share.goneBy, actor.now);
}

/** Changes how often, or how long, a share opens. */
export async function changeShareTerms(actor: Actor, { of, opens, days }: Doing<'change'>): Promise<void> {
  const share = actor.knownShare(of);
  if (share?.id === undefined) return;
  const end = days === undefined ? undefined : Math.round(actor.now + days * dayMs);
  const { answered: before, file } = share;
  const setTotal = opens === undefined ? undefined : changing(share, 'totals', opens);
  const setEnd = end === undefined ? undefined : changing(share, 'ends', end);
  // A guest's file ends with the last of its shares.
  if (end !== undefined && file.isOfGuest) {
    const all = actor.world.model.shares.filter((each) => each.file === file);
    file.ends = [...file.ends, ...all.flatMap(({ ends }) => ends)];
  }
  const { ends: fileEnds } = file;
  const json = { ...(opens !== undefined && { opens }), ...(end !== undefined && { expiresAt: new Date(end) }) };
  const told = await actor.ask('PATCH', `/v1/shares/${share.id}`, { json });
  if (told.status !== 200) return;
  const now = answerJson<{ opens: number; opensLeft: number; expiresAt: string }>(told.answer);
  const ended = Date.parse(now.expiresAt);
  if (opens !== undefined && (before > opens || now.opens !== opens))
    throw new Violation(`step ${of} opens ${now.opens} times, of ${opens}, after ${before}`);
  const used = now.opens - now.opensLeft;
  if (used < before) throw new Violation(`step ${of} was opened ${before} times, and counts ${used}`);
  // It may end with its file, whose end may change meanwhile.
  const isKnown = file.ends === fileEnds;
  if (end !== undefined && ended !== end && (ended > end || (isKnown && !file.ends.includes(ended))))
    throw new Violation(`step ${of} was to end at ${end}, and ends at ${ended}`);
  if (setTotal?.() === true) share.left.clear();
  setEnd?.(ended);
}
