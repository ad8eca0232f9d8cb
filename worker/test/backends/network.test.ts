/** Order of those who are asked for a block that a backend has lost. */
import { expect, it } from 'vitest';
import { SealpinError, type Code } from '../../../shared/errors.ts';
import type { BlockSource } from '../../../shared/ipfs/index.ts';
import type { PinningService } from '../../backends/contract.ts';
import { withNetwork } from '../../backends/network.ts';
import { present } from '../../../testkit/present.ts';

const { signal } = new AbortController();

/** A backend that notes what it is asked. Its blocks fail with `failure`, its streams are empty. */
function backend(id: string, asked: string[], o: { failure?: Code; searches?: boolean } = {}): PinningService {
  const { failure = 'pinning_lost', searches = true } = o;
  const made = {
    id,
    async block() {
      asked.push(`${id} block`);
      throw new SealpinError(failure, 'no block');
    },
    async read() {
      asked.push(`${id} read`);
      return new ReadableStream();
    },
    ...(searches && {
      async search() {
        asked.push(`${id} search`);
        return Uint8Array.of(1);
      },
    }),
  };
  return made as unknown as PinningService;
}

const codeOf = (work: Promise<unknown>): Promise<Code | undefined> =>
  work.then(
    () => undefined,
    (error: SealpinError) => error.code,
  );
const read = ({ read: of }: BlockSource, offset: number, length: number): Promise<Code | undefined> =>
  codeOf(present(of)('cid', offset, length, signal));

it('the last backend that can search does, and no other one', async () => {
  const asked: string[] = [];
  const backends = [backend('a', asked), backend('b', asked), backend('c', asked, { searches: false })];
  const codes = [];
  for (const source of withNetwork(backends)) codes.push(await codeOf(source.block('cid', signal)));
  expect(codes).toEqual(['pinning_lost', undefined, 'pinning_lost']);
  expect(asked).toEqual(['a block', 'b block', 'b search', 'c block']);
});

it('a backend that does not respond has lost nothing, and is not searched', async () => {
  const asked: string[] = [];
  const [source] = withNetwork([backend('a', asked, { failure: 'pinning_unavailable' })]);
  for (const _ of [1, 2]) expect(await codeOf(present(source).block('cid', signal))).toBe('pinning_unavailable');
  expect(asked).toEqual(['a block', 'a block']);
});

it('of a file that lacks a block, the others are searched for at once', async () => {
  const asked: string[] = [];
  const [source] = withNetwork([backend('a', asked)]);
  for (const _ of [1, 2]) expect(await codeOf(present(source).block('cid', signal))).toBeUndefined();
  expect(await read(present(source), 0, 9)).toBe('pinning_lost');
  expect(asked).toEqual(['a block', 'a search', 'a search']);
});

it('a stream that is opened again early ended at a missing block, which is asked for by itself', async () => {
  const asked: string[] = [];
  const [source] = withNetwork([backend('a', asked)]);
  const codes = [];
  for (const [offset, length] of [
    [0, 10],
    [10, 10],
    [14, 6],
    [15, 5],
  ] as const)
    codes.push(await read(present(source), offset, length));
  expect(codes).toEqual([undefined, undefined, 'pinning_lost', undefined]);
  expect(asked).toEqual(['a read', 'a read', 'a read']);
});
