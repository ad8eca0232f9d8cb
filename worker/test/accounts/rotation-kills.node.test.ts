/** A rotation of many files that is killed on the way, while files are read and stored. */
import { describe, expect } from 'vitest';
import { inCi, long } from '../../../testkit/long-run.ts';
import { itemOf } from '../../../testkit/present.ts';
import type { Service } from '../../../testkit/service.ts';
import { client, type Client } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { newOwner, ownerAt, type Owner } from '../stored-state.ts';
import { containerOf, opens, privateKeysOf, replacedBy } from './rotating.ts';

let service: Service;
const again = restartable('rotation', (started) => {
  service = started;
});

/** In the short form a few more than one request re-wraps. */
const many = long ? 10_000 : 210;
/** How often each of two rotations is killed. */
const kills = long ? [10, 2] : [3, 1];

type Stored = { fileId: string; text: string };

/** Does work on items, some at a time. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let item = left.pop(); item !== undefined; item = left.pop()) await work(item);
    }),
  );
}

async function storeMany(call: Client, name: string, count: number): Promise<Stored[]> {
  const stored: Stored[] = [];
  const texts = Array.from({ length: count }, (_, index) => `${name} ${index}`);
  await each(texts, async (text) => {
    stored.push({ fileId: (await call.store('encrypted', text)).fileId, text });
  });
  return stored;
}

async function readsAll(call: Client, files: readonly Stored[]): Promise<void> {
  const wrong: string[] = [];
  await each(files, async ({ fileId, text }) => {
    const response = await call.ask('getFileContent', { fileId });
    if ((await response.text()) !== text) wrong.push(`${fileId} ${response.status}`);
  });
  expect(wrong).toEqual([]);
}

/** A client of the service as it runs now, with the API key of another one. */
const now = ({ apiKey }: Client): Client => client(service.url, apiKey);

/** The answer of a service that may be killed meanwhile. */
async function orNothing<T>(asked: Promise<T>): Promise<T | undefined> {
  return await asked.catch(() => undefined);
}

/** Reads and stores until it is told to stop. @returns what was stored, and acknowledged */
function meanwhile(owner: Client, writer: Client, files: readonly Stored[]): () => Promise<Stored[]> {
  const stop = new AbortController();
  const stored: Stored[] = [];
  const wrong: string[] = [];
  const loop = async (): Promise<void> => {
    for (let turn = 0; !stop.signal.aborted; turn += 1) {
      const { fileId, text } = itemOf(files, (turn * 7919) % files.length);
      const response = await orNothing(now(owner).ask('getFileContent', { fileId }));
      const read = response?.ok === true ? await orNothing(response.text()) : text;
      if (read !== undefined && read !== text) wrong.push(fileId);
      // A rotation has no moment in which a file does not open.
      if (response !== undefined && response.status < 500 && response.status !== 200) wrong.push(`${response.status}`);
      const made = await orNothing(now(writer).store('encrypted', `meanwhile ${turn}`));
      if (made !== undefined) stored.push({ fileId: made.fileId, text: `meanwhile ${turn}` });
    }
  };
  const running = loop();
  return async () => {
    stop.abort();
    await running;
    expect(wrong).toEqual([]);
    return stored;
  };
}

/** Points at which the service is killed: a call that hangs there. */
const points = [
  ['begin', 'hangs before'],
  ['begin', 'hangs after'],
  ['rewrap', 'hangs before'],
  ['rewrap', 'hangs after'],
] as const;

/** Sends requests until the rotation is done, or the service is gone. */
async function drive(call: Client, publicKey: string): Promise<boolean> {
  for (;;) {
    const response = await orNothing(call.ask('rotateAccount', { publicKey }));
    const answer = response?.ok === true ? await orNothing(response.json<{ done: boolean }>()) : undefined;
    if (answer === undefined) return false;
    if (answer.done) return true;
  }
}

async function rotateKilled(before: Owner, times: number): Promise<void> {
  const publicKey = await replacedBy(now(before.call));
  for (let kill = 0; kill < times; kill += 1) {
    const { call, object } = ownerAt(service, before);
    const [name, fault] = itemOf(points, kill % points.length);
    // Where it has begun already, there is nothing more to begin.
    const point = kill < points.length ? name : 'rewrap';
    await object.fail(point, fault);
    const driving = drive(call, publicKey);
    await expect.poll(() => object.awaits(point), { timeout: 60_000 }).toBe(false);
    await again.kill();
    expect(await driving).toBe(false);
  }
  expect(await drive(now(before.call), publicKey)).toBe(true);
}

describe('the rotation of an account with many files', () => {
  inCi('goes on after each kill, while files are read and stored, twice', { timeout: 1_800_000 }, async () => {
    const owner = await newOwner(service);
    const writer = await owner.call.withKey(['write']);
    let files = await storeMany(owner.call, 'file', many);
    const held = itemOf(files, 0).fileId;
    for (const times of kills) {
      const [old] = await privateKeysOf(now(owner.call));
      const stop = meanwhile(owner.call, writer, files);
      await rotateKilled(owner, times);
      files = [...files, ...(await stop())];
      const call = now(owner.call);
      await readsAll(call, files);
      const [current, ...others] = await privateKeysOf(call);
      expect(others).toEqual([]);
      const container = await containerOf(call, held);
      const opened = await Promise.all(
        [current, old].map((pkcs8) => opens(pkcs8 ?? new Uint8Array(0), container, held)),
      );
      expect(opened).toEqual([true, false]);
      expect(await ownerAt(service, owner).object.rows('rotation_file')).toEqual([]);
    }
    expect(files.length).toBeGreaterThan(many);
  });
});
