/** Clients that read, change and delete files, and the operator who denies some. */
import { dayMs } from '../../shared/time.ts';
import type { Actor, Doing } from './actor.ts';
import { answerJson, readCid, type Told } from './asking.ts';
import { changing, mustBeGone, Violation, type ModelFile } from './model.ts';

/** Asks about a file, or for its bytes. */
export async function lookAtFile(actor: Actor, action: Doing<'read' | 'receipt' | 'verify'>): Promise<void> {
  const { kind } = action;
  if (kind === 'read' && action.isByCid === true) return await readByCid(actor, action.of);
  const file = actor.known(action.of);
  if (file === undefined) return;
  const from = actor.now;
  if (kind === 'receipt')
    return await checkReceipt(actor, file, await actor.ask('GET', `/v1/storage/${file.fileId}/receipt`));
  if (kind === 'verify') return void (await actor.ask('POST', `/v1/storage/${file.fileId}/verification`, { json: {} }));
  const told = await actor.ask('GET', `/v1/storage/${file.fileId}/content`, { isRepeatable: true });
  actor.world.model.read(file, from, actor.now, { ...told, ...told.answer, status: told.status });
}

/** Reads the bytes of a file by its CID, as somebody who knows nothing else of it. */
async function readByCid(actor: Actor, of: number): Promise<void> {
  const from = actor.now;
  const file = actor.world.model.file(of);
  if (file?.cid === undefined) return;
  const { bytes, ...told } = await readCid(file.cid, (path, headers) =>
    actor.ask('GET', path, { headers, apiKey: '' }),
  );
  // What the service encrypted comes as it is stored.
  const content = file.mode === 'plain' && bytes !== undefined ? { bytes, isWhole: true } : {};
  actor.world.model.read(file, from, actor.now, { ...told, ...content, isByCid: true });
}

/** Deletes a file, and looks at the receipt. */
export async function remove(actor: Actor, { of }: { of: number }): Promise<void> {
  const { model } = actor.world;
  const file = actor.known(of);
  if (file === undefined) return;
  const from = actor.now;
  const wasAlone = file.deletions === 0 && file.goneFrom === Infinity;
  model.deleting(file, from);
  const told = await actor.ask('DELETE', `/v1/storage/${file.fileId}`, { isRepeatable: true });
  if (told.status === 200 || (told.status === 404 && told.isCertain))
    model.deleted(file, from, actor.now, told, wasAlone && file.deletions === 1 && told.attempts === 1);
  else if (told.status === 404) model.deleted(file, from, actor.now, told, false);
  await checkReceipt(actor, file, told);
}

/** Deletes files; those of another account stay. */
export async function removeAll(actor: Actor, { of }: Doing<'deleteAll'>): Promise<void> {
  const { model } = actor.world;
  const [first, ...others] = new Set(of.filter((step) => model.file(step)?.fileId !== undefined));
  if (first === undefined) return;
  if (others.length === 0) return await remove(actor, { of: first });
  const all = [first, ...others].map((step) => model.file(step)).filter((file) => file !== undefined);
  const own = all.filter(({ account }) => account === actor.account);
  const from = actor.now;
  for (const file of own) model.deleting(file, from);
  const json = { files: all.map(({ fileId }) => fileId) };
  const told = await actor.ask('POST', '/v1/storage/delete', { json, isRepeatable: true });
  if (told.status !== 200) return;
  for (const file of own) model.deleted(file, from, actor.now, { status: 0, code: undefined }, false);
  const { notFound = [] } = answerJson<{ notFound?: string[] }>(told.answer);
  const strange = all.find((file) => !own.includes(file) && !notFound.includes(file.fileId ?? ''));
  if (strange) throw new Violation(`a stranger deletes the file of step ${strange.step}`);
}

/** Checks that what a receipt calls gone is gone, unless somebody else has the same bytes. */
async function checkReceipt(actor: Actor, file: ModelFile, told: Told): Promise<void> {
  const { model, service } = actor.world;
  const { pins = [] } = answerJson<{ pins?: { service: string; status: string }[] }>(told.answer);
  if (told.status !== 200 || file.cid === undefined) return;
  model.receiptSays(file, pins, actor.now);
  if (!model.wasLast(file)) return;
  for (const pin of pins)
    if (
      pin.status === 'unpinned' &&
      (await service.backend(pin.service)?.holds(file.cid)) === true &&
      model.wasLast(file)
    )
      throw new Violation(`the receipt of step ${file.step} says ${pin.status}, and ${pin.service} has its bytes`);
}

/** Changes the end of a file. */
export async function expire(actor: Actor, { of, days }: Doing<'expire'>): Promise<void> {
  const file = actor.known(of);
  if (file === undefined) return;
  const end = days === null ? Infinity : Math.round(actor.now + days * dayMs);
  const wasGone = mustBeGone(file, actor.now);
  const changed = changing(file, 'ends', end);
  const json = { expiresAt: end === Infinity ? null : new Date(end).toISOString() };
  const told = await actor.ask('PATCH', `/v1/storage/${file.fileId}`, { json });
  if (told.status !== 200) return;
  changed();
  if (wasGone) throw new Violation(`step ${of} is gone, and was changed`);
}

/** Changes what is known of a file: in encrypted mode its header, else also its details. */
export async function note(actor: Actor, { of }: Doing<'note'>): Promise<void> {
  const file = actor.known(of);
  if (file === undefined) return;
  const text = `step ${actor.step.id}`;
  const changed = changing(file, 'notes', text);
  const details = Buffer.from(`sealpin/v1\n${text}`).toString('base64');
  const json = { metadata: { note: text }, ...(file.mode === 'plain' && { details }) };
  const told = await actor.ask('PATCH', `/v1/storage/${file.fileId}`, { json });
  if (told.status !== 200) return;
  changed();
  if (answerJson<{ metadata?: { note?: string } }>(told.answer).metadata?.note !== text)
    throw new Violation(`step ${of} was told ${text}, and forgets it`);
}

/** Denies what a file has for some time. */
export async function deny(actor: Actor, { of, forMs }: Doing<'deny'>): Promise<void> {
  const { model } = actor.world;
  const cid = model.file(of)?.cid;
  if (cid === undefined) return;
  const denied = model.denials.set(cid, true, actor.now);
  const told = await actor.operate('PUT', `/denylist/${cid}`);
  if (told.status === 200) denied(actor.now);
  await actor.pause(forMs);
  const allowed = model.denials.set(cid, false, actor.now);
  while ((await actor.operate('DELETE', `/denylist/${cid}`)).status !== 200) await actor.pause(60_000);
  allowed(actor.now);
}
