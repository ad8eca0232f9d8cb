/**
 * What a store does on a bad day, and what the service makes of it: nothing acknowledged is lost,
 * nothing is left of what was refused, and each message says what to do. All operations run at once
 * under each fault of the table.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Receipt, StoredFile } from '../../../shared/api.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { adminToken } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf } from '../../../testkit/api-client.ts';
import { shardObject } from '../stored-state.ts';
import { create, offsetOf, patch } from '../uploads/tus-client.ts';
import { table, type Operation, type Row } from './faults-table.ts';
import { describeStores, isTaken, type Kind, kinds, startStore, type StoreUnderTest } from './store-under-test.ts';

const mib = 1_048_576;
const day = 86_400_000;

/** How a row ends; for the short form, what the log says of it is no end of its own. */
const endOf = ({ outcomes, says }: Row): string => JSON.stringify({ outcomes, ...(ci && { says }) });
/** The rows that take little time: one of the others ends as one that does not. */
const quick = table.filter(({ name }) => ci || name !== 'answers late');
/** All rows; in CI, the first of those that end alike; in the short form, every fourth of these. */
const tried = quick
  .filter((row, at) => long || quick.findIndex((each) => endOf(each) === endOf(row)) === at)
  .filter((_, at) => ci || at % 4 === 0);

/** The rows of a kind; in the short form, each that both have is tried with one of them. */
function rowsOf(kind: Kind): Row[] {
  return tried.filter(({ only }, at) => (only === undefined ? isTaken(kind, at) : only === kind));
}

/** A file that somebody has stored, with its bytes. */
type Kept = { fileId: string; cid: string; bytes: Buffer };

describeStores('a hostile %s that', kinds, (kind) => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore(kind, { isGated: true, twin: 'twin/', vars: { REPLICAS: '1' } });
  });
  beforeEach(() => {
    present(store.hostile).obey();
    store.forget();
  });
  // What a store does is never an internal error of the service.
  afterEach(() => expect(store.service.log.filter((line) => line.includes('"internal"'))).toEqual([]));
  afterAll(() => store.close());

  const post = (body: BodyInit): Promise<Response> =>
    store.owner.call('/v1/storage/plain', {
      method: 'POST',
      headers: { 'Content-Type': 'application/octet-stream' },
      body,
      ...(body instanceof ReadableStream && { duplex: 'half' as const }),
    });

  async function stored(bytes: Buffer): Promise<Kept> {
    const { fileId, cid } = await jsonOf<StoredFile>(post(bytes as BodyInit), 201);
    return { fileId, cid, bytes };
  }

  /** A refusal as the table has it; one that asks for patience says for how long. */
  async function refusalOf(response: Response): Promise<string> {
    const { code } = await response.json<{ code: string }>();
    if (response.status === 503) expect(response.headers.get('Retry-After')).toMatch(/^\d+$/);
    return `${response.status} ${code}`;
  }

  /**
   * Reads a file in every way, and compares.
   * @returns `right`, or a refusal; a response that breaks off is no lie
   */
  async function read({ fileId, cid, bytes }: Kept): Promise<string> {
    const { call } = store.owner;
    const content = `/v1/storage/${fileId}/content`;
    const gateway = `${store.service.url}/ipfs/${cid}?format=`;
    const ways: [Promise<Response>, (got: Buffer) => boolean][] = [
      [call(content), (got) => got.equals(bytes)],
      [call(content, { headers: { Range: 'bytes=5-1048580' } }), (got) => got.equals(bytes.subarray(5, 1_048_581))],
      [fetch(`${gateway}raw`), (got) => got.length > 0],
      // It has no length, so that one which breaks off only lacks blocks.
      [fetch(`${gateway}car`), (got) => got.length < bytes.length || got.includes(bytes.subarray(0, mib))],
    ];
    const seen = await Promise.all(
      ways.map(async ([asked, isRight]) => {
        const response = await asked;
        if (response.status >= 400) return await refusalOf(response);
        const got = await bytesOf(response).catch(() => undefined);
        return got === undefined || isRight(got) ? 'right' : 'other bytes';
      }),
    );
    return [...new Set(seen)].toSorted()[0] ?? '';
  }

  /** Stores a file, which is kept where it was acknowledged. */
  async function keep(bytes: Buffer, body: BodyInit, kept: Kept[]): Promise<string> {
    const response = await post(body);
    if (response.status !== 201) return await refusalOf(response);
    kept.push({ ...(await response.json<StoredFile>()), bytes });
    return 'right';
  }

  it.each(rowsOf(kind))('$name', async ({ rule, outcomes, says }) => {
    const hostile = present(store.hostile);
    const sizes = [2.5 * mib, 1000, 2000];
    const [before, removed, verified] = await Promise.all(sizes.map((size) => stored(randomBytes(size))));
    const kept = [present(before), present(verified)];
    const [digits = ''] = (await store.keys()).flatMap((key) => (key.startsWith('data/') ? [key.slice(5, 7)] : []));
    const [held, streamed, uploaded] = [randomBytes(1.5 * mib), randomBytes(2 * mib), randomBytes(2 * mib + 7)];
    const { path, id } = await create(store.owner.call, 'plain', uploaded.length);
    hostile.obey({ key: /sealpin-tested/, ...rule, fault: rule.fault() });
    const operations: Record<Operation, () => Promise<string>> = {
      held: async () => await keep(held, new Blob([held]).stream(), kept),
      streamed: async () => await keep(streamed, streamed as BodyInit, kept),
      async tus() {
        const response = await patch(store.owner.call, path, 0, uploaded);
        return response.status === 204 ? 'right' : await refusalOf(response);
      },
      read: async () => await read(present(before)),
      async remove() {
        const file = `/v1/storage/${present(removed).fileId}`;
        return itemOf((await jsonOf<Receipt>(store.owner.call(file, { method: 'DELETE' }))).pins, 0).status;
      },
      async verify() {
        const file = `/v1/storage/${present(verified).fileId}`;
        const response = await store.owner.call(`${file}/verification`, { method: 'POST' });
        if (response.status === 202) return 'later';
        return itemOf((await jsonOf<{ pins: StoredFile['pins'] }>(response)).pins, 0).status;
      },
    };
    const sweep = shardObject(store.service, digits).ring(2 * day);
    const names = Object.keys(operations) as Operation[];
    const seen = await Promise.all(names.map(async (name) => [name, await operations[name]()] as const));
    await sweep;
    expect(Object.fromEntries(seen)).toEqual(outcomes);
    if (says !== undefined) {
      const isSaid = () => store.service.log.some((line) => line.includes(says) && line.includes('the operator must'));
      await expect.poll(isSaid).toBe(true);
    }

    // The store has recovered.
    hostile.obey();
    await store.pass(day / 4);
    const offset = await offsetOf(store.owner.call, path);
    if (offset < uploaded.length)
      expect((await patch(store.owner.call, path, offset, uploaded.subarray(offset))).status).toBe(204);
    kept.push({ ...(await store.owner.call.getFile({ fileId: id, data: false })), bytes: uploaded });
    for (const each of kept) expect(await read(each)).toBe('right');
    for (const { fileId } of kept) await store.owner.call.deleteFile({ fileId });
    await store.pass(2 * day, { rounds: 3 });
    expect(await store.keys()).toEqual(['service']);
  });

  const moving = rowsOf(kind).filter((_, at) => long || at % 8 === 0);
  inCi.each(moving)('$name, while files move away and back', async ({ rule }) => {
    const hostile = present(store.hostile);
    const operator = client(store.service.url, adminToken);
    const files = [await stored(randomBytes(9 * mib)), await stored(randomBytes(1000))];
    await store.keys();
    for (const [from, to] of [
      ['store', 'twin'],
      ['twin', 'store'],
    ] as const) {
      hostile.obey({ key: /sealpin-tested/, ...rule, fault: rule.fault() });
      await operator.createMigration({ from, to });
      await store.pass(60_000, { rounds: 2 });
      hostile.obey();
      const left = async (): Promise<number | undefined> => {
        const { migrations } = await operator.listMigrations();
        return migrations.find((each) => each.from === from && each.to === to)?.left;
      };
      // What is lost everywhere is looked at again after a day, and copied then.
      for (let eighths = 0; eighths < 24 && (await left()) !== 0; eighths += 1) await store.pass(day / 8);
      expect(await left()).toBe(0);
      for (const each of files) expect(await read(each)).toBe('right');
      if (to === 'twin') expect(await store.keys()).toEqual(['service']);
      await operator.cancelMigration({ from, to });
    }
    for (const { fileId } of files) await store.owner.call.deleteFile({ fileId });
    await store.pass(2 * day, { rounds: 3 });
    expect(await store.keys()).toEqual(['service']);
  });
});
