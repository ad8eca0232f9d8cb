/** The operator's and the owner's work on accounts and API keys. */
import { dayMs, hourMs } from '../../shared/time.ts';
import type { ActingWorld, Actor, Doing } from './actor.ts';
import { adminToken } from '../platform/edge.ts';
import { ask, answerJson } from './asking.ts';
import { Violation } from './model.ts';

/** Makes the account of a number; asks until there is one. */
export async function openAccount(world: ActingWorld, account: number): Promise<void> {
  const { service, model, accounts, quotas } = world;
  const quotaBytes = quotas[account] ?? null;
  const json = { label: `account ${account}`, ...(quotaBytes !== null && { quotaBytes }) };
  const request = { method: 'POST', path: '/v1/operator/accounts', apiKey: adminToken, json, isRepeatable: false };
  let told = await ask(service, request);
  // One whose answer was lost is closed at the end.
  for (; told.status !== 201; told = await ask(service, request)) await service.scheduler.sleep(hourMs, 'pause');
  const { account: made, apiKey } = answerJson<{ account: { id: string }; apiKey: string }>(told.answer);
  accounts[account] = { id: made.id, apiKey, isClosing: false };
  model.quotas.opened(account, quotaBytes, service.scheduler.now);
}

/** The operator closes an account, asks until it is done, and makes another one. */
export async function close(actor: Actor): Promise<void> {
  const { accounts, model } = actor.world;
  const account = accounts[actor.step.by];
  if (account === undefined || account.isClosing) return;
  account.isClosing = true;
  const done = model.closing(actor.step.by, actor.now);
  for (let status = 0; status !== 200 && status !== 404;) {
    ({ status } = await actor.operate('DELETE', `/accounts/${account.id}`));
    if (status !== 200 && status !== 404) await actor.pause(hourMs);
  }
  done(actor.now);
  const end = (time: number): number => Math.min(time, actor.now);
  for (const key of model.keys.values())
    if (key.account === actor.step.by) Object.assign(key, { endsFrom: end(key.endsFrom), endsBy: end(key.endsBy) });
  await openAccount(actor.world, actor.step.by);
}

/** Sets the quota of an account. */
export async function setQuota(actor: Actor, { bytes }: Doing<'quota'>): Promise<void> {
  const settle = actor.world.model.quotas.set(actor.account, bytes, actor.now);
  const told = await actor.operate('PATCH', `/accounts/${actor.accountId}`, { quotaBytes: bytes });
  if (told.status === 200) settle(actor.now);
}

/** Makes an API key, or one of an invitation. */
export async function makeKey(actor: Actor, { kind, files, bytes, days }: Doing<'key' | 'invite'>): Promise<void> {
  const { keys, model } = actor.world;
  const isInvitation = kind === 'invite';
  const { apiKey = '' } = actor.world.accounts[actor.step.by] ?? {};
  const end = Math.round(actor.now + days * dayMs);
  const json = {
    label: 'k',
    scopes: isInvitation ? ['send'] : ['read', 'write', 'delete', 'share'],
    limits: { files, ...(isInvitation && { bytes }) },
    ...(isInvitation && { expiresAt: new Date(end) }),
  };
  const { id: step, by: account } = actor.step;
  const ends = { madeBy: Infinity, endsFrom: isInvitation ? end : Infinity, endsBy: isInvitation ? end : Infinity };
  const limits = { files, bytes: isInvitation ? bytes : Infinity };
  const terms = { account, isInvitation, ...limits, askedAt: actor.now, ...ends };
  model.keys.set(step, terms);
  const told = await actor.ask('POST', '/v1/keys', { json, apiKey });
  if (told.status !== 201) {
    if (told.isCertain) model.keys.delete(step);
    return;
  }
  terms.madeBy = actor.now;
  const { apiKey: made, key } = answerJson<{ apiKey: string; key: { id: string } }>(told.answer);
  keys.set(step, Object.assign(terms, { id: key.id, apiKey: made }));
}

/** Revokes an API key, with what ends with it. */
export async function revokeKey(actor: Actor, { of }: Doing<'revokeKey'>): Promise<void> {
  const { keys, model, accounts } = actor.world;
  const key = keys.get(of);
  if (key === undefined) return;
  const { apiKey = '' } = accounts[actor.step.by] ?? {};
  actor.isStranger = key.account !== actor.step.by;
  if (actor.isStranger) return void (await actor.ask('DELETE', `/v1/keys/${key.id}`, { apiKey }));
  endShares(actor);
  key.endsFrom = Math.min(key.endsFrom, actor.now);
  const files = model.files.filter((each) => key.isInvitation && each.key === of);
  for (const file of files) model.deleting(file, actor.now);
  const told = await actor.ask('DELETE', `/v1/keys/${key.id}`, { isRepeatable: true, apiKey });
  if (told.status !== 200) return;
  key.endsBy = Math.min(key.endsBy, actor.now);
  for (const file of files) file.goneBy = Math.min(file.goneBy, actor.now);
}

/** Replaces the key pair of an account, until every file is sealed to the new one. */
export async function rotate(actor: Actor): Promise<void> {
  const { keys, accounts } = actor.world;
  const { apiKey = '' } = accounts[actor.step.by] ?? {};
  const { account, rotation } = answerJson<{ account?: { publicKey: string }; rotation?: { replaces: string } }>(
    (await actor.ask('GET', '/v1/account', { apiKey })).answer,
  );
  const publicKey = rotation?.replaces ?? account?.publicKey;
  const others = [...keys.values()].filter((each) => each.account === actor.step.by && !each.isInvitation);
  endShares(actor);
  for (const key of others) key.endsFrom = Math.min(key.endsFrom, actor.now);
  for (let tries = publicKey === undefined ? 8 : 0; tries < 8; tries += 1) {
    const told = await actor.ask('POST', '/v1/account/rotation', { json: { publicKey }, apiKey });
    const { done, unreadable } = answerJson<{ done?: boolean; unreadable?: string[] }>(told.answer);
    if (unreadable !== undefined) throw new Violation(`a rotation cannot read ${unreadable[0]}`);
    // One that runs already may be older than a key.
    if (told.status === 200 && rotation === undefined)
      for (const key of others) key.endsBy = Math.min(key.endsBy, actor.now);
    if (done === true || (told.isCertain && told.status !== 200)) return;
    await actor.pause(30_000);
  }
}

/** The shares of an account may end with one of its keys. */
function endShares(actor: Actor): void {
  for (const share of actor.world.model.shares)
    if (share.account === actor.step.by) share.goneFrom = Math.min(share.goneFrom, actor.now);
}
