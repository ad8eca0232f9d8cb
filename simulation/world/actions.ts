/** The steps of clients and the operator, and what the model hears of them. */
import { newOwner } from '../host/scheduler.ts';
import { close, makeKey, revokeKey, rotate } from './account-actions.ts';
import { Actor, type ActingWorld, type ActionStep } from './acting.ts';
import { deny, expire, look, note, remove } from './file-actions.ts';
import type { Action } from './plan.ts';
import { change, open, revoke, share } from './share-actions.ts';
import { readSigned, store, storeSigned, upload } from './storing.ts';

/** Does a step. */
export async function act(world: ActingWorld, step: ActionStep): Promise<void> {
  const actor = new Actor(world, step);
  const { does } = step;
  await world.service.scheduler.as(newOwner(`step ${step.id}`), async () => {
    await (does.kind in work ? work[does.kind as keyof typeof work](actor, does as never) : operated(actor, does));
  });
}

const work = {
  store,
  storeSigned,
  upload,
  read: look,
  readSigned,
  receipt: look,
  verify: look,
  delete: (actor: Actor, { of }: { of: number }) => remove(actor, [of]),
  deleteAll: (actor: Actor, { of }: { of: number[] }) => remove(actor, of),
  expire,
  note,
  deny,
  share,
  open,
  change,
  revoke,
  key: makeKey,
  invite: makeKey,
  revokeKey,
  rotate,
  close,
} as const;

/** Does what is one request, whose answer says little. */
async function operated(actor: Actor, action: Action): Promise<void> {
  const { model, accounts } = actor.world;
  const account = `/accounts/${accounts[actor.account]?.id ?? ''}`;
  switch (action.kind) {
    case 'list':
      return void (await actor.ask('GET', '/v1/storage?limit=100'));
    case 'quota': {
      const settle = model.quotas.set(actor.account, action.bytes, actor.now);
      const told = await actor.operate('PATCH', account, { quotaBytes: action.bytes });
      return told.status === 200 ? settle(actor.now) : undefined;
    }
    case 'backup':
      return void (await actor.operate('GET', `${account}/backup`));
    case 'repair':
      return void (await actor.operate('POST', '/repair', {}));
    case 'migrate':
      actor.world.hasMigrated = true;
      return void (await actor.operate('POST', '/migrations', { from: action.from, to: action.to }));
    case 'cancel':
      return void (await actor.operate('DELETE', `/migrations/${action.from}/${action.to}`));
    default:
      return undefined;
  }
}
