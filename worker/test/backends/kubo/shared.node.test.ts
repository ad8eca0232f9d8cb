/** Several services, and a user's own pins, on one node: none of them destroys another's. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startNode } from '../../../../testkit/node.ts';
import type { StoredFile } from '../../../../shared/api.ts';
import { bytesOf, client } from '../../../../testkit/api-client.ts';
import { startPeer, type Peer } from '../../peer.ts';
import { cidOfBytes } from '../../../../testkit/cid.ts';
import { shardName } from '../../../objects/pin/shard-names.ts';
import { rpcToken, startService, type Service } from '../../../../testkit/service.ts';
import { changeDatabases, hasTable } from '../../kept-state.ts';
import { askNode, newOwner, pinObject, type Owner } from '../../stored-state.ts';
import { kuboProgram, noKubo, startKubo } from '../../../../testkit/programs/kubo.ts';
import { itemOf, present } from '../../../../testkit/present.ts';
import { ci, long } from '../../../../testkit/long-run.ts';

type Node = { url: string; close(): Promise<void> };
type User = { service: Service; owner: Owner };
type World = { a: User; b: User; peer: Peer; bytes: Buffer };

async function embedded(): Promise<Node> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-shared-'));
  const node = await startNode({ dir, token: rpcToken });
  return {
    url: node.url,
    async close() {
      await node.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Starts a node, a peer before it, and services with these ids. */
function onOneNode(start: () => Promise<Node>, ids: readonly ('a' | 'b')[], tests: (world: World) => void) {
  const world = {} as World;
  let node: Node;
  beforeAll(async () => {
    node = await start();
    world.peer = await startPeer(node.url);
    for (const id of ids) {
      const service = await startService({
        node,
        entry: 'worker/test/clock.ts',
        through: () => world.peer.url,
        vars: { SERVICE_ID: id },
      });
      world[id] = { service, owner: await newOwner(service) };
    }
  });
  afterAll(async () => {
    await Promise.all(ids.map((id) => world[id].service.close()));
    await world.peer.close();
    await node.close();
  });
  beforeEach(() => {
    world.bytes = randomBytes(1_500_000);
    world.peer.onCommand = undefined;
  });
  tests(world);
}

const store = ({ owner }: User, bytes: Buffer): Promise<StoredFile> => owner.call.store('plain', bytes);

async function remove({ owner }: User, { fileId }: StoredFile): Promise<string> {
  const receipt = await owner.call.deleteFile({ fileId });
  return itemOf(receipt.pins, 0).status;
}

async function reads({ owner }: User, { fileId }: StoredFile, bytes: Buffer): Promise<boolean> {
  const accept = { headers: { Accept: 'application/octet-stream' } };
  return (await bytesOf(owner.call(`/v1/storage/${fileId}`, accept))).equals(bytes);
}

/** The names of all recursive pins, by CID. Kubo itself keeps an empty directory under a CIDv0. */
async function names({ service }: User): Promise<Record<string, string>> {
  const answer = await askNode(service, 'pin/ls', { type: 'recursive', names: 'true' });
  const { Keys } = await answer.json<{ Keys: Record<string, { Name: string }> }>();
  return Object.fromEntries(
    Object.entries(Keys)
      .filter(([cid]) => !cid.startsWith('Qm'))
      .map(([cid, { Name }]) => [cid, Name]),
  );
}

async function pinByHand({ service }: User, cid: string, name: string): Promise<void> {
  expect((await askNode(service, 'pin/add', { arg: cid, name })).status).toBe(200);
}

async function addByHand({ service }: User, bytes: Buffer, name: string): Promise<void> {
  const form = new FormData();
  form.append('file', new Blob([new Uint8Array(bytes)]));
  const query = `cid-version=1&raw-leaves=true&chunker=size-1048576&pin-name=${name}`;
  const headers = { Authorization: `Bearer ${service.rpcToken}` };
  const added = await fetch(`${service.node}/api/v0/add?${query}`, { method: 'POST', headers, body: form });
  expect(added.status).toBe(200);
}

/** Names and pins, on any node. */
function ownPins(world: World): void {
  test('a pin carries the id of its service, and is removed with the file', async () => {
    const file = await store(world.a, world.bytes);
    expect((await names(world.a))[file.cid]).toBe('sealpin:a');
    expect(await remove(world.a, file)).toBe('unpinned');
    expect(await names(world.a)).toEqual({});
  });

  test.each(['my-backup', ''])(
    'a pin of the user’s, named "%s", that was there before stays, and so does its name at every moment',
    async (name) => {
      const pinnedByUs: (string | null)[] = [];
      world.peer.onCommand = async (turn) => {
        if (turn.command === 'pin/add') pinnedByUs.push(turn.cid);
        (await turn.pass()).deliver();
      };
      await addByHand(world.a, world.bytes, name);
      const files = [await store(world.a, world.bytes), await store(world.a, world.bytes)];
      expect((await names(world.a))[itemOf(files, 0).cid]).toBe(name);
      expect(pinnedByUs).not.toHaveLength(0);
      expect(pinnedByUs).not.toContain(itemOf(files, 0).cid);
      expect(await remove(world.a, itemOf(files, 0))).toBe('unpinned');
      expect(await reads(world.a, itemOf(files, 1), world.bytes)).toBe(true);
      expect(await remove(world.a, itemOf(files, 1))).toBe('kept');
      expect(await names(world.a)).toEqual({ [itemOf(files, 0).cid]: name });
      await askNode(world.a.service, 'pin/rm', { arg: itemOf(files, 0).cid });
    },
  );

  test('a service that tells no names: the pin that was there before stays', async () => {
    world.peer.onCommand = async (turn) => {
      const { body, deliver } = await turn.pass();
      deliver(turn.command === 'pin/ls' ? Buffer.from(body.toString().replace(/,"Name":"[^"]*"/, '')) : body);
    };
    const ours = await store(world.a, world.bytes);
    expect(await remove(world.a, await store(world.a, world.bytes))).toBe('unpinned');
    expect(await remove(world.a, ours)).toBe('unpinned');
    expect(await names(world.a)).toEqual({});
    await addByHand(world.a, world.bytes, 'my-backup');
    const file = await store(world.a, world.bytes);
    expect(await remove(world.a, file)).toBe('kept');
    expect(await names(world.a)).toEqual({ [file.cid]: 'my-backup' });
    await askNode(world.a.service, 'pin/rm', { arg: file.cid });
  });

  test('bytes that are there already are not pinned again', async () => {
    const file = await store(world.a, world.bytes);
    world.peer.seen.length = 0;
    const again = await store(world.a, world.bytes);
    expect(world.peer.seen).not.toContain('pin/add');
    expect(await remove(world.a, file)).toBe('unpinned');
    expect(await reads(world.a, again, world.bytes)).toBe(true);
    expect(await remove(world.a, again)).toBe('unpinned');
    expect(await names(world.a)).toEqual({});
  });

  test('a pin that the user makes of a stored file stays, and so does its name', async () => {
    const file = await store(world.a, world.bytes);
    await pinByHand(world.a, file.cid, 'my-backup');
    const again = await store(world.a, world.bytes);
    expect((await names(world.a))[file.cid]).toBe('my-backup');
    await remove(world.a, again);
    expect(await remove(world.a, file)).toBe('kept');
    expect(await names(world.a)).toEqual({ [file.cid]: 'my-backup' });
    await askNode(world.a.service, 'pin/rm', { arg: file.cid });
  });

  test('a pin with the name of earlier versions counts as ours', async () => {
    const file = await store(world.a, world.bytes);
    await pinByHand(world.a, file.cid, 'sealpin');
    expect(await remove(world.a, file)).toBe('unpinned');
    expect(await names(world.a)).toEqual({});
  });
}

/** Changes the tables of the `Pin` that has a CID, in the state of a service that does not run. */
async function changePins(dir: string, cid: string, sql: string): Promise<void> {
  let changed = 0;
  await changeDatabases(dir, (db) => {
    if (hasTable(db, 'pin') && db.prepare('SELECT 1 FROM pin WHERE cid = ?').get(cid) !== undefined) {
      db.exec(sql);
      changed += 1;
    }
  });
  expect(changed).toBe(1);
}

/** Statements that remove what rows lacked before a file could be at several services. */
const beforePins = [
  'DROP INDEX pin_next',
  'DROP TABLE breaker',
  'DROP TABLE migration',
  ...[
    'wanted reason cursor bytes checked_at verified_at absences',
    'read_from read_to part suspect losses damaged moved_from',
  ]
    .flatMap((line) => line.split(' '))
    .map((name) => `ALTER TABLE pin DROP COLUMN ${name}`),
  'ALTER TABLE reference DROP COLUMN is_part',
  'UPDATE pin SET due = NULL',
];
const first = ['ALTER TABLE pin DROP COLUMN anchored'];
const later = Date.now() + 86_400_000;

/**
 * Case: what an earlier version left of the rows of a file, and what is true of it now. `others`:
 * pins.
 */
type Earlier = {
  title: string;
  sql: string[];
  now(user: User, file: StoredFile, bytes: Buffer, others: Record<string, string>): Promise<void>;
};

const earlier: Earlier[] = [
  {
    title: 'rows of a version that lacks little keep what was decided on them',
    sql: ['ALTER TABLE pin DROP COLUMN moved_from', `UPDATE pin SET state = 'unpinning', wanted = 1, due = ${later}`],
    async now({ service }, { cid }) {
      const [row] = await (await pinObject(service, cid)).rows('pin');
      expect(row).toMatchObject({ state: 'unpinning', wanted: 1, moved_from: null });
    },
  },
  {
    title: 'tables that were added without a column are made, too',
    sql: ['DROP TABLE breaker', 'DROP TABLE migration'],
    async now({ service, owner }, { cid, fileId }, bytes) {
      await (await pinObject(service, cid)).ring(8 * 86_400_000);
      expect(await (await pinObject(service, cid)).rows('pin')).toMatchObject([{ state: 'live', attempts: 0 }]);
      // Writes to the same object, which has taken its tables over.
      expect((await owner.call.store('plain', bytes)).fileId).not.toBe(fileId);
    },
  },
  ...[
    { version: 'the first version', sql: [...beforePins, ...first] },
    { version: 'the version before a file could be at several services', sql: beforePins },
  ].map(({ version, sql }): Earlier => ({
    title: `rows of ${version} are taken over`,
    sql,
    async now(user, file, bytes, others) {
      expect(await reads(user, file, bytes)).toBe(true);
      const pin = await pinObject(user.service, file.cid);
      expect(await pin.rows('pin')).toMatchObject([{ state: 'live', wanted: 1, due: expect.any(Number) as unknown }]);
      expect(await remove(user, await store(user, bytes))).toBe('unpinned');
      expect(await remove(user, file)).toBe('unpinned');
      expect(await names(user)).toEqual(others);
    },
  })),
];

/** A function whose calls wait for each other: so many. */
function meeting(count: number): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let here = 0;
  return async () => {
    if ((here += 1) === count) resolve();
    await promise;
  };
}

/** Bytes for each of so many files, whose rows are in different objects. */
async function bytesApart(count: number): Promise<Buffer[]> {
  const byShard = new Map<string, Buffer>();
  while (byShard.size < count) {
    const bytes = randomBytes(1000);
    byShard.set(await shardName(await cidOfBytes(bytes)), bytes);
  }
  return [...byShard.values()];
}

describe('a service whose rows an earlier version wrote', () => {
  let dir: string;
  let node: Node;
  let user: User;
  /** `pins`: those that are there because of it. */
  let files: { file: StoredFile; bytes: Buffer; pins: string[] }[];
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sealpin-shared-'));
    node = await startNode({ dir: join(dir, 'ipfs'), token: rpcToken });
    const start = () => startService({ dir, node, vars: { SERVICE_ID: 'a' }, entry: 'worker/test/clock.ts' });
    let service = await start();
    const owner = await newOwner(service);
    files = [];
    for (const bytes of await bytesApart(earlier.length)) {
      const known = await names({ service, owner });
      const file = await owner.call.store('plain', bytes);
      files.push({
        bytes,
        file,
        pins: Object.keys(await names({ service, owner })).filter((cid) => !(cid in known)),
      });
    }
    await service.close();
    for (const [index, { file }] of files.entries())
      await changePins(dir, file.cid, present(earlier[index]).sql.join(';'));
    service = await start();
    user = { service, owner: { ...owner, call: client(service.url, owner.call.apiKey) } };
  });
  afterAll(async () => {
    await user.service.close();
    await node.close();
    await rm(dir, { recursive: true, force: true });
  });

  test.each(earlier.map(({ title, now }, index) => [title, now, index] as const))('%s', async (_, now, index) => {
    const { file, bytes, pins } = present(files[index]);
    const others = Object.entries(await names(user)).filter(([cid]) => !pins.includes(cid));
    await now(user, file, bytes, Object.fromEntries(others));
  });
});

// In the short form a real Kubo stands for both nodes, where there is one.
if (long || kuboProgram() === undefined) describe('the embedded node', () => onOneNode(embedded, ['a'], ownPins));
else test.skip('the embedded node: in the long form');

if (kuboProgram() === undefined) {
  test.skip(noKubo);
} else {
  const kubo = () => startKubo({ token: rpcToken });

  describe('a real Kubo with two services', () => {
    onOneNode(kubo, ['a', 'b'], (world) => {
      ownPins(world);

      test.each(
        (
          [
            ['the first', 0],
            ['the second', 1],
          ] as const
        ).slice(long ? 0 : 1),
      )('both store the same file, and %s deletes it: the other still reads it', async (_, first) => {
        const users = [world.a, world.b];
        const files = [await store(world.a, world.bytes), await store(world.b, world.bytes)];
        expect((await names(world.a))[itemOf(files, 0).cid]).toBe('sealpin:a');
        expect(await remove(present(users[first]), present(files[first]))).toBe(first === 0 ? 'unpinned' : 'kept');
        await askNode(world.a.service, 'repo/gc').then((answer) => answer.text());
        expect(await reads(present(users[1 - first]), present(files[1 - first]), world.bytes)).toBe(true);
        expect(await remove(present(users[1 - first]), present(files[1 - first]))).toBe('unpinned');
        expect(await names(world.a)).toEqual({});
      });

      const atOnce = [true, false].flatMap((overlap) => [0, 1].map((first) => ({ overlap, first })));
      test.each(atOnce.filter(({ overlap, first }) => ci || overlap === (first === 0)))(
        'both store the same file at once (overlapping: $overlap), and $first deletes it: the other reads it',
        async ({ overlap, first }) => {
          const users = [world.a, world.b];
          const [asked, pinned] = [meeting(2), meeting(2)];
          let before = Promise.resolve();
          world.peer.onCommand = async (turn) => {
            if (turn.command !== 'pin/add') return (await turn.pass()).deliver();
            // Both have seen no pin by now.
            await asked();
            const mine = before;
            const looked = Promise.withResolvers<void>();
            before = looked.promise;
            await mine;
            const { deliver } = await turn.pass();
            if (overlap) looked.resolve();
            if (overlap) await pinned();
            deliver();
            // By then the first one has looked again, and seen its own.
            setTimeout(looked.resolve, 200);
          };
          const files = await Promise.all(users.map((user) => store(user, world.bytes)));
          world.peer.onCommand = undefined;
          for (const [index, user] of overlap ? [] : users.entries())
            await (await pinObject(user.service, present(files[index]).cid)).ring(10_000);
          await remove(present(users[first]), present(files[first]));
          await askNode(world.a.service, 'repo/gc').then((answer) => answer.text());
          expect(await reads(present(users[1 - first]), present(files[1 - first]), world.bytes)).toBe(true);
          await remove(present(users[1 - first]), present(files[1 - first]));
          expect(await names(world.a)).toEqual({});
        },
      );

      test('the user removes a pin of their own: the file of the service stays', async () => {
        await addByHand(world.a, world.bytes, 'my-backup');
        const file = await store(world.a, world.bytes);
        await askNode(world.a.service, 'pin/rm', { arg: file.cid });
        await askNode(world.a.service, 'repo/gc').then((answer) => answer.text());
        expect(await reads(world.a, file, world.bytes)).toBe(true);
        expect(await remove(world.a, file)).toBe('unpinned');
        expect(await names(world.a)).toEqual({});
      });
    });
  });
}
