/** A file of which one copy is at a Pinning Service, from which nothing can be read. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { client } from '../../../testkit/api-client.ts';
import { kuboProgram } from '../../../testkit/programs/kubo.ts';
import { adminToken } from '../../../testkit/service.ts';
import { fake } from '../backends/runtimes.ts';
import { pinObject } from '../stored-state.ts';
import { readBack, ring, settle, startTwoBackends, statuses, unpinBehindOurBack, type World } from './two-backends.ts';
import { inCi } from '../../../testkit/long-run.ts';

const day = 86_400_000;

/** A Pinning Service that holds whatever it was asked to. */
async function startHolder(): Promise<{ url: string; close(): Promise<void> }> {
  const pins = new Map<string, object>();
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://holder');
    const id = pathname.split('/')[2];
    const body = await text(request);
    const pin = body === '' ? undefined : (JSON.parse(body) as { cid: string });
    const cid = id ?? pin?.cid ?? searchParams.get('cid') ?? '';
    const status = { requestid: cid, status: 'pinned', created: new Date().toISOString(), pin, delegates: [] };
    if (pin !== undefined) pins.set(cid, status);
    if (request.method === 'DELETE') pins.delete(cid);
    const results = [pins.get(cid)].filter((each) => each !== undefined);
    response.writeHead(request.method === 'GET' ? 200 : 202, { 'content-type': 'application/json' });
    response.end(JSON.stringify(pin === undefined ? { count: results.length, results } : status));
  };
  return await fake((request, response) => void handle(request, response));
}

describe.skipIf(kuboProgram() === undefined)('a copy from which nothing is read', () => {
  /** A world of the test alone, in which the holder's id comes before that of the other Kubo. */
  async function startWorld(replicas: number): Promise<World> {
    const holder = await startHolder();
    const world = await startTwoBackends({ PSA_TOKEN: 'token-of-the-holder' });
    onTestFinished(async () => {
      await world.close();
      await holder.close();
    });
    const entry = (id: string, url: string) => ({ id, type: 'kubo', url, tokenSecret: 'KUBO_TOKEN' });
    const held = { id: 'aa', type: 'psa', url: holder.url, tokenSecret: 'PSA_TOKEN' };
    const entries = [entry('a', world.a.peer.url), held, entry('b', world.b.peer.url)];
    await world.restart({ PINNING_SERVICES: JSON.stringify(entries), REPLICAS: String(replicas) });
    return world;
  }
  const migrate = ({ service }: World) => client(service.url, adminToken).createMigration({ from: 'a', to: 'b' });
  const refuseRemovals = ({ a }: World): void => {
    a.peer.onCommand = async (turn) => {
      if (turn.command === 'pin/rm') return turn.answer(503, '');
      (await turn.pass()).deliver();
    };
  };

  inCi('does not keep a migration from its end', async () => {
    const world = await startWorld(3);
    const file = await world.owner.call.store('plain', randomBytes(20_000));
    await settle(world, file, { a: 'pinned', aa: 'pinned', b: 'pinned' });
    await migrate(world);
    await settle(world, file, { aa: 'pinned', b: 'pinned' });
  });

  it('lets no other one go that is the last to be read', async () => {
    const world = await startWorld(2);
    const bytes = randomBytes(20_000);
    const file = await world.owner.call.store('plain', bytes);
    await settle(world, file, { a: 'pinned', aa: 'pinned' });
    refuseRemovals(world);
    await migrate(world);
    await settle(world, file, { a: 'unpinning', aa: 'pinned', b: 'pinned' });
    await unpinBehindOurBack(world.b, file);
    world.a.peer.onCommand = undefined;
    for (let times = 0; times < 4; times += 1) await ring(world, file, day);
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
    await settle(world, file, { aa: 'pinned', b: 'pinned' });
    expect((await readBack(world, file)).equals(bytes)).toBe(true);
  });

  inCi('is not told from its backend by a fault of another one', async () => {
    const world = await startWorld(1);
    const file = await world.owner.call.store('plain', randomBytes(20_000));
    await settle(world, file, { a: 'pinned' });
    refuseRemovals(world);
    await migrate(world);
    await settle(world, file, { a: 'unpinning', b: 'pinned' });
    world.a.peer.onCommand = undefined;
    world.b.peer.onCommand = (turn) => turn.answer(503, '');
    const object = await pinObject(world.service, file.cid);
    await object.change('DELETE FROM breaker');
    for (let times = 0; times < 6; times += 1) await ring(world, file, 3_600_000);
    const faults = (await object.rows('breaker')).map((row) => row['service']);
    expect(faults).toEqual(['b']);
    world.b.peer.onCommand = undefined;
    expect((await statuses(world, file))['b']).toBe('pinned');
  });
});
