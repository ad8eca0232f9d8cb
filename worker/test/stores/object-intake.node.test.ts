/** What takes the bytes of an upload for a store, at a store that does not take them all. */
import { afterEach, expect, it, vi } from 'vitest';
import { cidOf, sha256 } from '../../../shared/ipfs/index.ts';
import type { ObjectStore } from '../../backends/objects/store-contract.ts';
import { intakeOf } from '../../objects/pin/stores/object-intake.ts';
import type { PinBinding } from '../../objects/pin/shard.ts';

const mib = 1_048_576;
afterEach(() => void vi.useRealTimers());

it('an object that a store calls stored, and hangs up on, is a fault of the store', async () => {
  const pins = { getByName: () => ({ objects: { open: async () => ({ ok: true, from: 0 }) } }) };
  const store = {
    id: 'files',
    takes: 'objects',
    async put(_id: string, _n: number, { stream }: { stream: ReadableStream<Uint8Array> }) {
      const reader = stream.getReader();
      await reader.read();
      await reader.cancel(new Error('the connection is closed'));
    },
  };
  const options = { account: 'a', uploadId: 'b', numbers: 1, forMs: 1000 };
  const env = { PIN: pins } as unknown as PinBinding;
  const intake = intakeOf(env, store as unknown as ObjectStore, options);
  const blocks = intake.importBlocks(new AbortController().signal, 4 * mib);
  const leaf = new Uint8Array(mib);
  const cid = cidOf('raw', await sha256(leaf));
  const sending = (async () => {
    for (let left = 4; left > 0; left -= 1) await blocks.write(cid, leaf.slice());
    await blocks.finish();
  })();
  await expect(sending).rejects.toMatchObject({ code: 'pinning_unavailable' });
});

it('an upload that lasts renews the row of its objects each hour', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const opened: object[] = [];
  const open = async (_: object, o: object) => (opened.push(o), { ok: true, from: 0 });
  const env = { PIN: { getByName: () => ({ objects: { open } }) } } as unknown as PinBinding;
  const store = { id: 'files', takes: 'objects', put: async () => undefined };
  const options = { account: 'a', uploadId: 'b', numbers: 4, forMs: 86_400_000 };
  const blocks = intakeOf(env, store as unknown as ObjectStore, options).importBlocks(new AbortController().signal);
  const leaf = new Uint8Array(mib);
  for (let n = 0; n < 4; n += 1) {
    await blocks.write(cidOf('raw', await sha256(leaf)), leaf.slice());
    vi.advanceTimersByTime(45 * 60_000);
  }
  await blocks.finish();
  const renewed = { numbers: 0, forMs: 86_400_000, isOngoing: true };
  expect(opened).toEqual([{ numbers: 4, forMs: 86_400_000, isOngoing: false }, renewed]);
});
