/**
 * Pinata as the second service, played by a server of its OpenAPI documents: a file is sent there
 * as one CAR.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { kuboProgram, noKubo } from '../../../testkit/programs/kubo.ts';
import { hasTusd, noTusd } from '../../../testkit/programs/tusd.ts';
import { startPinata, type PinataServer } from '../backends/documented/pinata-server.ts';
import { startBackend, startTwoBackends, storeAtBoth, type World } from './two-backends.ts';
import { flip } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

function asSecond(): void {
  let world: World;
  let server: PinataServer;
  beforeAll(async () => {
    server = await startPinata();
    const { url, uploads } = server;
    const entry = { type: 'pinata', tokenSecret: 'PINATA_JWT', url, uploads };
    const second = async () => ({ ...(await startBackend()), entry, close: server.close });
    world = await startTwoBackends({ PINATA_JWT: server.token }, { second });
  });
  afterAll(() => world.close());

  test.each([0, 1, 20_000_000])('a file of %i bytes goes there, and is deleted there with the file', async (bytes) => {
    const file = await storeAtBoth(world, randomBytes(bytes));
    expect(server.files).toMatchObject([{ name: `sealpin:us:${file.cid}`, cid: file.cid }]);
    const receipt = await world.owner.call.deleteFile({ fileId: file.fileId });
    expect(receipt.pins.map(({ service, status }) => [service, status])).toEqual([
      ['a', 'unpinned'],
      ['b', 'unpinned'],
    ]);
    expect(server.files).toEqual([]);
    expect(server.problems).toEqual([]);
  });

  test('a source that gives a wrong block is found out, and nothing wrong is sent', async () => {
    world.a.peer.onCommand = async (turn) => {
      const { body, deliver } = await turn.pass();
      if (turn.command === 'cat' || turn.command === 'block/get') flip(body, 0);
      deliver(body);
    };
    const file = await world.owner.call.store('plain', randomBytes(2_000_000));
    await expect.poll(() => world.a.peer.seen.includes('block/get')).toBe(true);
    expect(server.files).toEqual([]);
    world.a.peer.onCommand = undefined;
    await world.owner.call.ask('deleteFile', { fileId: file.fileId });
  });
}

if (kuboProgram() === undefined) test.skip(noKubo);
else if (!hasTusd()) test.skip(noTusd);
else if (long) describe('Pinata as the second', asSecond);
else test.skip('Pinata as the second: in the long form');
