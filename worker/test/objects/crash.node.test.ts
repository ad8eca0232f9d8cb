/**
 * Uploads and deletions that stop in the middle: what is left after the sweep is a whole file or
 * none, and no pin without a row.
 */
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { client, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { startPeer, type Peer, type Turn } from '../peer.ts';
import { adminToken, rpcToken, type Service } from '../../../testkit/service.ts';
import { accountObject, newOwner, pinned, pinObject, sweep, type Owner, ownerAt } from '../stored-state.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

let peer: Peer;
let service: Service;
let count = 0;

const restart = restartable(
  'crash',
  (started) => (service = started),
  async ({ node }) => {
    peer ??= await startPeer(node.url);
    return { through: () => peer.url };
  },
);
afterAll(() => peer.close());

let owner: Owner;
let bytes: string;
let cid: string;
let pinnedBefore: string[];
beforeEach(async () => {
  count += 1;
  owner = await newOwner(service);
  pinnedBefore = await pinned(service);
  await setBytes(1000);
  peer.onCommand = undefined;
});

async function setBytes(words: number): Promise<void> {
  bytes = `bytes ${String(count).padStart(4)} `.repeat(words);
  cid = await cidOfBytes(Buffer.from(bytes));
}

const store = (): Promise<Response> => owner.call.ask('storePlain', {}, { body: bytes });
const listed = async (): Promise<StoredFile[]> => (await owner.call.listFiles({ cid })).files;

/** Returns what is left of the bytes, once everything that waits has had its time. */
async function afterSweep(): Promise<{
  files: number;
  pinned: boolean;
  others: number;
  pins: number;
  references: number;
  left: number;
}> {
  const parts = (await owner.object.rows('part')).map((row) => String(row['cid']));
  await sweep(service, [owner], [cid, ...parts]);
  const pin = await pinObject(service, cid);
  const of = (rows: Record<string, unknown>[]): number => rows.filter((row) => row['cid'] === cid).length;
  return {
    files: (await listed()).length,
    pinned: (await pinned(service)).includes(cid),
    others: (await pinned(service)).filter((each) => each !== cid && !pinnedBefore.includes(each)).length,
    pins: of(await pin.rows('pin')),
    references: of(await pin.rows('reference')),
    left:
      (await owner.object.rows('outbox')).length +
      (await owner.object.rows('part')).length +
      (await owner.object.rows('file')).filter((row) => row['state'] !== 'ready').length,
  };
}
const nothing = { files: 0, pinned: false, others: 0, pins: 0, references: 0, left: 0 };
const whole = { files: 1, pinned: true, others: 0, pins: 1, references: 1, left: 0 };

/** Kills the service once the node has responded to the nth command, and starts it again. */
async function killAt(command: string, work: () => Promise<unknown>, nth = 1): Promise<void> {
  let seen = 0;
  const reached = new Promise<Turn>((resolve) => {
    peer.onCommand = async (turn) => {
      if (turn.command === command) seen += 1;
      if (turn.command !== command || seen !== nth) return (await turn.pass()).deliver();
      await turn.pass();
      resolve(turn);
    };
  });
  const lost = expect(work()).rejects.toThrow();
  const turn = await reached;
  await restart.kill(async () => {
    turn.cut();
    await lost;
    peer.onCommand = undefined;
  });
  owner = ownerAt(service, owner);
}

describe('S81 S82: the service dies', () => {
  // One real kill of each kind: `simulation/` dies at every other step.
  it('an upload in two parts, before it knows that the file is pinned: nothing is left of it', async () => {
    await setBytes(1_600_000);
    await killAt('pin/add', store, 2);
    expect(await listed()).toEqual([]);
    expect(await afterSweep()).toEqual(nothing);
    await jsonOf(store(), 201);
    expect(await afterSweep()).toEqual(whole);
  });

  inCi('after a part is released: the file is whole', async () => {
    await setBytes(1_600_000);
    // The response may arrive before the alarm rings.
    const dead = (): Promise<never> => Promise.reject(new Error('it died after its response'));
    await killAt('pin/rm', () => store().then(dead));
    expect((await listed()).length).toBe(1);
    expect(await afterSweep()).toEqual(whole);
  });
});

describe('an upload in two parts that ends early', () => {
  beforeEach(() => setBytes(1_600_000));

  it('because its bytes do not have the announced CID leaves nothing', async () => {
    const { cid: other } = await owner.call.store('plain', 'other bytes');
    pinnedBefore.push(other);
    const response = owner.call.ask('storePlain', { cid: other }, { body: bytes });
    expect(await problemOf(response)).toBe('422 cid_mismatch');
    // The part is released at once: only the removal of its reference waits for the alarm.
    expect(await owner.object.rows('part')).toEqual([]);
    expect(await afterSweep()).toEqual(nothing);
  });

  it.each(long ? [1, 2] : [2])('because the account is deleted before pin %i leaves nothing', async (nth) => {
    let seen = 0;
    peer.onCommand = async (turn) => {
      const { deliver } = await turn.pass();
      if (turn.command === 'pin/add' && (seen += 1) === nth)
        await client(service.url, adminToken).deleteAccount({ id: owner.id });
      deliver();
    };
    expect((await store()).status).toBeGreaterThanOrEqual(400);
    peer.onCommand = undefined;
    for (let round = 0; round < 2; round += 1) await owner.object.ring(2 * 3_600_000);
    expect((await pinned(service)).filter((each) => !pinnedBefore.includes(each))).toEqual([]);
    expect(await owner.object.tables()).toBe(0);
  });
});

describe('S82: a call between the objects fails', () => {
  const faults = (['before', 'after'] as const).slice(long ? 0 : 1);

  it.each(faults)('%s a reference is added: the upload fails, and nothing is left', async (fault) => {
    await owner.object.fail('addReference', fault);
    expect(await problemOf(store())).toBe('503 overloaded');
    expect(await afterSweep()).toEqual(nothing);
  });

  it.each(faults)('%s a reference is removed: the receipt says so, and the alarm tries again', async (fault) => {
    const { fileId } = await jsonOf<StoredFile>(store(), 201);
    await owner.object.fail('removeReference', fault);
    const receipt = await owner.call.deleteFile({ fileId });
    expect(receipt.pins).toEqual([{ service: 'node', status: 'scheduled' }]);
    expect(await problemOf(owner.call.ask('deleteFile', { fileId }))).toBe('404 not_found');
    expect(await afterSweep()).toEqual(nothing);
  });

  it.each(
    (
      [
        ['addReference', 'before', 503],
        ['addReference', 'after', 503],
        ['commitPart', 'before', 500],
        ['commitPart', 'after', 500],
        ['commit', 'before', 500],
      ] as const
    ).filter(([call, fault]) => long || (call === 'commitPart' && fault === 'after')),
  )('%s of an upload in two parts, %s: it fails, and nothing is left', async (call, fault, status) => {
    await setBytes(1_600_000);
    await owner.object.fail(call, fault);
    expect(await problemOf(store())).toMatch(new RegExp(`^${status} `));
    expect(await listed()).toEqual([]);
    expect(await afterSweep()).toEqual(nothing);
  });

  inCi('removing the reference of a part, before and after: the file is whole, and the alarm tries again', async () => {
    await setBytes(3_200_000);
    for (const fault of faults) {
      await owner.object.fail('removeReference', fault);
      const { fileId } = await jsonOf<StoredFile>(store(), 201);
      expect(await afterSweep()).toEqual(whole);
      await owner.call.deleteFile({ fileId });
      expect(await afterSweep()).toEqual(nothing);
    }
  });

  it('before a file is committed: the upload fails, and nothing is left', async () => {
    await owner.object.fail('commit', 'before');
    expect(await problemOf(store())).toBe('500 internal');
    expect(await afterSweep()).toEqual(nothing);
  });

  it('S71: after a file is committed: the response is lost, and the file is found by its CID', async () => {
    await owner.object.fail('commit', 'after');
    expect(await problemOf(store())).toBe('500 internal');
    expect((await listed()).map((file) => file.cid)).toEqual([cid]);
    expect(await afterSweep()).toEqual(whole);
  });
});

describe('the pinning service', () => {
  const json = { 'content-type': 'application/json' };
  const answering = (command: string, answer: (turn: Turn) => Promise<void> | void): void => {
    peer.onCommand = async (turn) => (turn.command === command ? answer(turn) : (await turn.pass()).deliver());
  };

  async function addToNode(text: string, name: string): Promise<void> {
    const form = new FormData();
    form.append('file', new Blob([text]));
    await fetch(`${service.node}/api/v0/add?cid-version=1&chunker=size-1048576&pin-name=${name}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${rpcToken}` },
      body: form,
    });
  }

  it.each(['dag/import', 'pin/add'])('S69 S82: refuses %s: nothing is left', async (command) => {
    answering(command, (turn) => turn.answer(500, JSON.stringify({ Message: 'no', Code: 0, Type: 'error' }), json));
    expect(await problemOf(store())).toBe('502 pinning_failed');
    expect(await listed()).toEqual([]);
    peer.onCommand = undefined;
    expect(await afterSweep()).toEqual(nothing);
  });

  it('S82: has lost blocks before it pinned them: nothing is left, at once', async () => {
    await setBytes(1_600_000);
    for (const nth of long ? [1, 2] : [2]) {
      let seen = 0;
      const lost = JSON.stringify({ Message: 'pin: block was not found locally (offline)', Code: 0, Type: 'error' });
      answering('pin/add', async (turn) =>
        (seen += 1) === nth ? turn.answer(500, lost, json) : (await turn.pass()).deliver(),
      );
      expect(await problemOf(store())).toBe('503 pinning_unavailable');
      expect(await owner.object.rows('part')).toEqual([]);
      expect(await owner.object.rows('file')).toEqual([]);
    }
    peer.onCommand = undefined;
    expect(await afterSweep()).toEqual(nothing);
  });

  it.each([
    ['has received other blocks', 'dag/import', { Stats: { BlockCount: 2 } }],
    ['has pinned another CID', 'pin/add', { Pins: ['bafkqaaa'] }],
  ])('S67: says that it %s: the upload fails, and nothing is left', async (_, command, answer) => {
    answering(command, async (turn) => (await turn.pass()).deliver(Buffer.from(JSON.stringify(answer))));
    expect(await problemOf(store())).toBe('502 pinning_failed');
    peer.onCommand = undefined;
    expect(await afterSweep()).toEqual(nothing);
  });

  it('cannot remove a pin: the receipt says so, and it is tried again until it can', async () => {
    const { fileId } = await jsonOf<StoredFile>(store(), 201);
    answering('pin/rm', (turn) => turn.answer(503, '', { 'retry-after': '1' }));
    const receipt = await owner.call.deleteFile({ fileId });
    expect(receipt.pins).toEqual([{ service: 'node', status: 'scheduled' }]);
    // Until then the same bytes cannot be stored: what the service does with the request that it
    // has is unknown.
    expect(await problemOf(store())).toBe('503 overloaded');
    peer.onCommand = undefined;
    expect(await afterSweep()).toEqual(nothing);
  });

  it('had the pin before us: it keeps the pin after us', async () => {
    await addToNode(bytes, '');
    expect(await pinned(service)).toContain(cid);
    const { fileId } = await jsonOf<StoredFile>(store(), 201);
    const receipt = await owner.call.deleteFile({ fileId });
    expect(receipt.pins).toEqual([{ service: 'node', status: 'kept' }]);
    expect(await afterSweep()).toEqual({ ...nothing, pinned: true });
  });
});

it('a request for something that does not exist writes nothing', async () => {
  const stranger = accountObject(service, 'A'.repeat(22));
  expect(await problemOf(client(service.url).ask('getRecoveryFile', { id: 'A'.repeat(22) }))).toBe('404 not_found');
  expect(await stranger.tables()).toBe(0);
  const unknown = await cidOfBytes(Buffer.from('nowhere'));
  expect(await problemOf(fetch(`${service.url}/ipfs/${unknown}`))).toBe('404 not_found');
  const before = await (await pinObject(service, unknown)).rows('pin');
  expect(before.filter((row) => row['cid'] === unknown)).toEqual([]);
});
