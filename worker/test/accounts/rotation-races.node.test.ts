/** A rotation between two steps of another request, which has read what was sealed before. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startFaultyProxy } from '../../../testkit/faulty-proxy.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import { problemOf } from '../../../testkit/api-client.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { create, patch } from '../uploads/tus-client.ts';
import { replacedBy, rotate } from './rotating.ts';
import { inCi } from '../../../testkit/long-run.ts';

let service: Service;
let proxy: Awaited<ReturnType<typeof startFaultyProxy>>;
/** What the next import at the node waits for. */
let held: Promise<void> | undefined;
beforeAll(async () => {
  service = await startService({
    entry: 'worker/test/clock.ts',
    async through(node) {
      proxy = await startFaultyProxy(
        () => node,
        ({ path }) => {
          if (held === undefined || !path.startsWith('/api/v0/dag/import')) return undefined;
          const until = held;
          held = undefined;
          return { kind: 'late', until };
        },
      );
      return proxy.url;
    },
  });
});
afterAll(async () => {
  await service.close();
  await proxy.close();
});

/** Changes a file, the whole of a rotation between reading and writing it. */
async function changeAround({ call, object }: Owner, fileId: string, change: object): Promise<void> {
  await object.fail('change', 'late');
  const changing = call.changeFile({ fileId, ...change });
  await expect.poll(() => object.awaits('change')).toBe(false);
  await rotate(call);
  await changing;
}

it('a header that is changed is the one that was rewrapped', async () => {
  const owner = await newOwner(service);
  const { fileId } = await owner.call.store('encrypted', 'x');
  await changeAround(owner, fileId, { filename: 'changed' });
  expect((await owner.call.read(fileId)).toString()).toBe('x');
  expect(await owner.call.getFile({ fileId, data: false })).toMatchObject({ filename: 'changed' });
});

it('a tag is found that a file gets which had none before', async () => {
  const owner = await newOwner(service);
  const { fileId } = await owner.call.store('plain', 'x');
  await changeAround(owner, fileId, { tags: ['found'] });
  expect((await owner.call.listFiles({ tag: 'found' })).files).toHaveLength(1);
});

inCi('a tag is found by a search that began under the pair before, while it is replaced and afterwards', async () => {
  const { call, object } = await newOwner(service);
  const { fileId } = await call.store('plain', 'x');
  await call.changeFile({ fileId, tags: ['found'] });
  const begin = async () => {
    await object.fail('rewrap', 'before');
    expect(await problemOf(call.ask('rotateAccount', { publicKey: await replacedBy(call) }))).toBe('500 internal');
  };
  for (const replace of [begin, rotate, rotate]) {
    await object.fail('list', 'late');
    const listing = call.listFiles({ tag: 'found' });
    await expect.poll(() => object.awaits('list')).toBe(false);
    await replace(call);
    expect((await listing).files).toHaveLength(1);
  }
});

it('a damaged file is unreadable only if it is still there', async () => {
  const { call, object } = await newOwner(service);
  const [kept, deleted] = [await call.store('encrypted', 'x'), await call.store('encrypted', 'y')];
  await object.change("UPDATE file SET header = x'00'");
  await object.fail('rewrap', 'late');
  const rotating = rotate(call);
  await expect.poll(() => object.awaits('rewrap')).toBe(false);
  await call.deleteFile({ fileId: deleted.fileId });
  expect((await rotating).flatMap(({ unreadable = [] }) => unreadable)).toEqual([kept.fileId]);
});

it('an API key that was being made for the pair before is refused, and works once it is asked for again', async () => {
  const { call, object } = await newOwner(service);
  const { fileId } = await call.store('encrypted', 'x');
  await object.fail('add', 'late');
  const making = call.ask('createKey', { label: 'reader', scopes: ['read'] });
  await expect.poll(() => object.awaits('add')).toBe(false);
  await rotate(call);
  expect(await problemOf(making)).toBe('409 conflict');
  expect((await call.listKeys()).keys).toHaveLength(1);
  const reader = await call.withKey(['read']);
  expect((await reader.read(fileId)).toString()).toBe('x');
});

it('an upload whose bytes have come gets the header that was rewrapped', async () => {
  const { call } = await newOwner(service);
  const writer = await call.withKey(['write']);
  const { path, id } = await create(writer, 'encrypted', 5);
  let release: () => void = () => undefined;
  held = new Promise((resolve) => {
    release = resolve;
  });
  const storing = patch(writer, path, 0, Buffer.from('hello'));
  await expect.poll(async () => (await call.listUploads()).uploads.map(({ state }) => state)).toEqual(['finishing']);
  await expect.poll(() => held === undefined).toBe(true);
  await rotate(call);
  release();
  expect((await storing).status).toBe(204);
  expect((await call.read(id)).toString()).toBe('hello');
});
