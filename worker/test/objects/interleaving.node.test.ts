/**
 * The same bytes, stored and deleted by several accounts, in every order of requests and responses
 * at the pinning service: a file that was acknowledged is kept, and bytes without a reference are
 * not.
 */
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startBehindPeer, type Peer, type Turn } from '../peer.ts';
import { type Service } from '../../../testkit/service.ts';
import { askNode, newOwner, pinned, pinObject, sweep, type Owner } from '../stored-state.ts';
import { present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

let service: Service;
let peer: Peer;
let owners: Owner[];

beforeAll(async () => {
  ({ service, peer } = await startBehindPeer());
  owners = [await newOwner(service), await newOwner(service), await newOwner(service)];
});
afterAll(() => service.close());

/** Fates of a command that waits at the gate. */
const fates = ['pass', 'pass', 'pass', 'refuse', 'lose'] as const;
type Fate = (typeof fates)[number];
type Step = { choice: number; fate: Fate };
type Operation = 'store' | 'delete';

const step = fc.record({ choice: fc.nat(1000), fate: fc.constantFrom(...fates) });
const script = fc.constantFrom<Operation[]>(
  ['store'],
  ['store', 'delete'],
  ['store', 'delete', 'store'],
  ['store', 'store', 'delete'],
);
/** A command that waits until nothing else moves: some losses need one that is late for long. */
const late = fc.constantFrom('none', 'dag/import', 'pin/ls', 'pin/add', 'pin/rm');
const runs = long ? 3000 : 6;
let run = 0;

it(
  'S82: keeps what was acknowledged and nothing else, in every interleaving',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(script, script, script),
        fc.array(step, { minLength: 20, maxLength: 20 }),
        late,
        async (scripts, steps, late) => {
          run += 1;
          await play(`bytes of run ${run}`, scripts, steps, late);
        },
      ),
      { numRuns: runs },
    );
  },
  runs * 5000,
);

async function play(
  bytes: string,
  scripts: readonly Operation[][],
  steps: readonly Step[],
  late: string,
): Promise<void> {
  const gate: Turn[] = [];
  peer.onCommand = (turn) => void gate.push(turn);
  const actors = scripts.map((operations, index) => ({
    owner: present(owners[index]),
    todo: [...operations],
    files: [] as string[],
    busy: false,
  }));
  let finished = 0;
  let cid: string | undefined;

  const start = (actor: (typeof actors)[number]): void => {
    const operation = present(actor.todo.shift());
    actor.busy = true;
    void (async () => {
      if (operation === 'store') {
        const answer = await actor.owner.call.ask('storePlain', {}, { body: bytes });
        const file = await answer.json<{ fileId: string; cid: string }>();
        if (answer.status === 201) {
          actor.files.push(file.fileId);
          ({ cid } = file);
        } else expect(answer.status).toBeGreaterThanOrEqual(500);
      } else if (actor.files.length > 0) {
        const answer = await actor.owner.call.ask('deleteFile', { fileId: present(actor.files.shift()) });
        expect({ status: answer.status, text: await answer.text() }).toEqual({ status: 200, text: expect.any(String) });
      }
      actor.busy = false;
      finished += 1;
    })();
  };

  /** Waits until nothing moves any more without us. */
  const settle = async (): Promise<void> => {
    for (let still = 0, before = ''; still < 2;) {
      await new Promise((done) => setTimeout(done, 2));
      const now = `${gate.length} ${finished} ${peer.seen.length} ${peer.aborted.length}`;
      still = now === before ? still + 1 : 0;
      before = now;
    }
  };

  const meet = async (turn: Turn, fate: Fate): Promise<void> => {
    if (fate === 'refuse')
      return turn.answer(500, JSON.stringify({ Message: 'no', Code: 0, Type: 'error' }), {
        'content-type': 'application/json',
      });
    const { deliver } = await turn.pass();
    if (fate === 'lose') turn.cut();
    else deliver();
  };

  for (let index = 0; ; index += 1) {
    await settle();
    const ready = actors.filter((actor) => !actor.busy && actor.todo.length > 0);
    const early = gate.filter((turn) => turn.command !== late);
    const turns = early.length > 0 || ready.length > 0 ? early : gate;
    const options = [
      ...ready.map((actor) => (): void => start(actor)),
      ...turns.map((turn) => (fate: Fate) => leave(turn, fate)),
    ];
    if (options.length === 0) {
      if (actors.every((actor) => !actor.busy)) break;
      continue; // an actor waits for one of our time limits
    }
    const { choice, fate } = steps[index] ?? { choice: 0, fate: 'pass' };
    await present(options[choice % options.length])(fate);
  }

  async function leave(turn: Turn, fate: Fate): Promise<void> {
    gate.splice(gate.indexOf(turn), 1);
    await meet(turn, fate);
  }

  peer.onCommand = undefined;
  const cids = cid === undefined ? [] : [cid];
  await sweep(service, owners, cids);
  const live = actors.flatMap((actor) => actor.files.map((fileId) => ({ account: actor.owner.id, file_id: fileId })));
  if (cid !== undefined) {
    expect((await pinned(service)).includes(cid)).toBe(live.length > 0);
    const pin = await pinObject(service, cid);
    const references = (await pin.rows('reference')).filter((row) => row['cid'] === cid);
    expect(references.map(({ account, file_id: id }) => `${String(account)} ${String(id)}`).sort()).toEqual(
      live.map((each) => `${each.account} ${each.file_id}`).sort(),
    );
    expect((await pin.rows('pin')).filter((row) => row['cid'] === cid).length).toBe(live.length > 0 ? 1 : 0);
    if (live.length > 0) expect(await (await askNode(service, 'cat', { arg: cid })).text()).toBe(bytes);
  }
  for (const { owner, files } of actors) {
    expect(await owner.object.rows('outbox')).toEqual([]);
    const rows = await owner.object.rows('file');
    expect(rows.filter((row) => row['state'] !== 'ready')).toEqual([]);
    expect(files.filter((fileId) => !rows.some((row) => row['file_id'] === fileId))).toEqual([]);
  }
}
