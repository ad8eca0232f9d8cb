import { expect, test } from 'vitest';
import type { ActingWorld, Actor } from '../world/actor.ts';
import { act } from '../world/actions.ts';
import { changing, Model, type ModelFile, type ModelShare } from '../world/model.ts';
import type { Action } from '../world/plan.ts';
import { openAsReceiver } from '../world/share-actions.ts';

/** The bytes of the files of two accounts are the same. */
function twins(): { model: Model; first: ModelFile; second: ModelFile } {
  const model = new Model();
  const store = (step: number): ModelFile => {
    const file = { step, account: step, key: undefined, isOfGuest: false, mode: 'plain', begunAt: 0 } as const;
    return Object.assign(model.begin({ ...file, ends: [Infinity] }, 2), { reservesUntil: 0 });
  };
  return { model, first: store(0), second: store(1) };
}

test.for([
  ['scheduled', false],
  ['unpinned', true],
  ['kept', true],
] as const)('after a receipt that says %s, another file with the same bytes is the last: %s', ([status, isLast]) => {
  const { model, first, second } = twins();
  model.deleting(first, 2);
  model.deleted(first, 2, 3, { status: 200, code: undefined }, true);
  model.receiptSays(first, [{ status: 'unpinned' }, { status }], 3);
  model.deleting(second, 4);
  expect(model.wasLast(second)).toBe(isLast);
});

test('a receipt that is completed while another file is being deleted says nothing of what came before', () => {
  const { model, first, second } = twins();
  model.deleting(first, 2);
  model.deleting(second, 4);
  model.receiptSays(first, [{ status: 'unpinned' }], 5);
  expect(model.wasLast(second)).toBe(false);
});

test('a receipt says nothing of what an attempt before may keep', () => {
  const { model, first } = twins();
  model.files.splice(1);
  first.goneFrom = 9;
  first.reservesUntil = 9;
  expect(model.wasLast(first)).toBe(true);
  first.reservesUntil = 10;
  expect(model.wasLast(first)).toBe(false);
});

test('a file is gone by its CID once nobody has its bytes, nor may an attempt to store them', () => {
  const { model, first, second } = twins();
  const read = (): void => model.read(first, 9, 10, { status: 200, code: undefined, isByCid: true });
  first.removedBy = 8;
  read();
  second.removedBy = 8;
  second.reservesUntil = 10;
  read();
  second.reservesUntil = 0;
  expect(read).toThrow('is read, although it is gone');
});

test.for([
  ['is answered', { status: 200, isCertain: true, replayed: false }, [1]],
  ['is repeated, since its answer was lost', { status: 200, isCertain: true, replayed: true }, [0, 1]],
  ['was refused each time', { status: 401, isCertain: true, replayed: false }, [0]],
  ['may have been made', { status: 503, isCertain: false, replayed: false }, [0, 1]],
] as const)('of an opening that %s, a share counts what may be', async ([, { replayed, ...told }, counted]) => {
  const rests = async (used: number): Promise<void> => {
    const { model, first } = twins();
    const share = { step: 3, id: 'it', file: first, totals: [2], ends: [Infinity], goneFrom: Infinity, record: 'r' };
    const unopened = { goneBy: Infinity, left: new Set(), answered: 0, tokens: new Map(), unsure: 0 };
    model.shares.push({ ...share, ...unopened } as unknown as ModelShare);
    const headers = new Headers(replayed ? { 'Idempotency-Replayed': 'true' } : {});
    const bytes = Buffer.from(JSON.stringify({ record: 'r', opensLeft: 1 }));
    const answer = { status: told.status, headers, bytes, isWhole: true };
    const ask = async () => ({ ...told, code: undefined, answer, attempts: 1 });
    await openAsReceiver({ world: { model }, now: 5, ask } as unknown as Actor, { of: 3, receiver: 0, kind: 'open' });
    model.shareRests(model.shares[0] as ModelShare, 6, { opens: 2, opensLeft: 2 - used, expiresAt: Infinity });
  };
  const may: number[] = [];
  for (const used of [0, 1])
    await rests(used).then(
      () => may.push(used),
      () => undefined,
    );
  expect(may).toEqual(counted);
});

test('an acknowledged change is the only one that may hold, unless another may come after it', () => {
  const file = { ends: [1] };
  const first = changing(file, 'ends', 2);
  expect(file.ends).toEqual([1, 2]);
  first();
  expect(file.ends).toEqual([2]);
  const [second, third] = [changing(file, 'ends', 3), changing(file, 'ends', 4)];
  second();
  third();
  expect(file.ends).toEqual([2, 3, 4]);
  // What is not known before a change may come after it.
  changing(file, 'ends', 5)();
  expect(file.ends).toEqual([2, 3, 4, 5]);
});

const ofOthers: Action[] = [
  { kind: 'read', of: 1 },
  { kind: 'receipt', of: 1 },
  { kind: 'verify', of: 1 },
  { kind: 'note', of: 1 },
  { kind: 'expire', of: 1, days: 2 },
  { kind: 'delete', of: 1 },
  { kind: 'deleteAll', of: [1, 2] },
  { kind: 'share', of: 1, opens: 2, days: 2 },
  { kind: 'change', of: 3, opens: 2 },
  { kind: 'revoke', of: 3 },
  { kind: 'revokeKey', of: 4 },
];

test.for(ofOthers)('a stranger who is answered $kind is found, and changes nothing that is known', async (does) => {
  const model = new Model();
  for (const step of [1, 2]) {
    const file = { step, account: 1, key: undefined, isOfGuest: true, mode: 'plain', begunAt: 0 } as const;
    Object.assign(model.begin({ ...file, ends: [Infinity] }, 2), { fileId: `file-${step}` });
  }
  const [file] = model.files;
  model.shares.push({ step: 3, id: 'it', account: 1, file, totals: [2], ends: [Infinity] } as unknown as ModelShare);
  const keys = new Map([[4, { id: 'key', account: 1 }]]);
  const known = structuredClone([model.files, model.shares]);
  let status = 200;
  const answer = async () => ({ status, headers: new Headers(), bytes: new Uint8Array(), isWhole: true });
  const scheduler = { now: 5, later: () => () => undefined, as: (_: unknown, work: () => unknown) => work() };
  const service = { scheduler, edge: { fetch: answer } };
  const world = { service, model, keys, accounts: [], tell: () => undefined } as unknown as ActingWorld;
  const done = async (): Promise<void> => await act(world, { id: 9, atMs: 0, by: 0, does });
  await expect(done()).rejects.toThrow('a stranger');
  status = 404;
  await done();
  expect([model.files, model.shares]).toEqual(known);
});
