import { expect, test } from 'vitest';
import { Model, type ModelFile } from '../world/model.ts';

/** The bytes of the files of two accounts are the same. */
function twins(): { model: Model; first: ModelFile; second: ModelFile } {
  const model = new Model();
  const store = (step: number): ModelFile =>
    model.begin(
      { step, account: step, key: undefined, isOfGuest: false, mode: 'plain', begunAt: 0, ends: [Infinity] },
      2,
    );
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
