/** The steps of clients and the operator, and what the model hears of them. */
import { newOwner } from '../host/scheduler.ts';
import { close, makeKey, revokeKey, rotate, setQuota } from './account-actions.ts';
import { Actor, Refused, type ActingWorld, type ActionStep, type Doing } from './actor.ts';
import { deny, expire, lookAtFile, note, remove, removeAll } from './file-actions.ts';
import type { Action } from './plan.ts';
import { changeShareTerms, openAsReceiver, revoke, shareFile } from './share-actions.ts';
import { readSigned, store, storeSigned, upload } from './storing.ts';

/** Does a step. */
export async function act(world: ActingWorld, step: ActionStep): Promise<void> {
  const actor = new Actor(world, step);
  const does = work[step.does.kind] as (actor: Actor, action: Action) => Promise<unknown>;
  try {
    await world.service.scheduler.as(newOwner(`step ${step.id}`), () => does(actor, step.does));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  } finally {
    actor.ended?.();
  }
}

const work = {
  store,
  storeSigned,
  upload,
  read: lookAtFile,
  readSigned,
  receipt: lookAtFile,
  verify: lookAtFile,
  delete: remove,
  deleteAll: removeAll,
  list: (actor: Actor) => actor.ask('GET', '/v1/storage?limit=100'),
  expire,
  note,
  deny,
  share: shareFile,
  open: openAsReceiver,
  change: changeShareTerms,
  revoke,
  key: makeKey,
  invite: makeKey,
  revokeKey,
  rotate,
  close,
  quota: setQuota,
  backup: (actor: Actor) => actor.operate('GET', `/accounts/${actor.accountId}/backup`),
  repair: (actor: Actor) => actor.operate('POST', '/repair', {}),
  migrate: async (actor: Actor, { from, to }: Doing<'migrate'>) => {
    actor.world.hasMigrated = true;
    await actor.operate('POST', '/migrations', { from, to });
  },
  cancel: (actor: Actor, { from, to }: Doing<'cancel'>) => actor.operate('DELETE', `/migrations/${from}/${to}`),
} as const satisfies { [K in Action['kind']]: (actor: Actor, action: Doing<K>) => Promise<unknown> };
