/**
 * Uploads whose service and whose Kubo are killed at random moments: what was acknowledged is
 * there, and nothing else is pinned.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../../testkit/programs/kubo.ts';
import { rpcToken, startService, type Service } from '../../../testkit/service.ts';
import { startPeer, type Peer } from '../peer.ts';
import { create, mib, modes, offsetOf, patch, stateOf, type Mode } from '../uploads/tus-client.ts';
import { askNode, newOwner, pinned, pinObject, sweep, type Owner, ownerAt } from '../stored-state.ts';
import { present } from '../../../testkit/present.ts';

const long = process.env['SEALPIN_LONG'] === '1';
const rounds = 20;
const fileBytes = 40 * mib;
/** Length of each request of an upload in several. */
const requestBytes = 16 * mib;
/**
 * Time of the latest kill after the beginning, about as long as two uploads take on a quiet
 * machine.
 */
const latestKillMs = 2500;
/** Number of times that a client continues an upload. */
const attempts = 60;

let dir: string;
let kubo: RealKubo;
let peer: Peer;
let service: Service;
let owner: Owner;
/** Kubo's own. */
let pinnedBefore: string[];

const start = (): Promise<Service> =>
  startService({ entry: 'worker/test/clock.ts', dir, node: kubo, through: () => peer.url });
const atKubo = (): Service => ({ ...service, node: kubo.url });

beforeAll(async () => {
  if (!long || kuboProgram() === undefined) return;
  dir = await mkdtemp(join(tmpdir(), 'sealpin-kills-'));
  kubo = await startKubo({ token: rpcToken });
  peer = await startPeer(() => kubo.url);
  service = await start();
  owner = await newOwner(service);
  pinnedBefore = await pinned(atKubo());
});
afterAll(async () => {
  await service?.close();
  await peer?.close();
  await kubo?.close();
  if (dir) await rm(dir, { recursive: true, force: true });
});

async function killService(): Promise<void> {
  await service.kill();
  service = await start();
  owner = ownerAt(service, owner);
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** A file whose client was told that it is stored. */
type Acknowledged = { fileId: string; sha256: string };

/** One request, which nobody repeats. @returns undefined where it was not acknowledged */
async function post(mode: Mode): Promise<Acknowledged | undefined> {
  const bytes = randomBytes(fileBytes);
  const headers = { 'Content-Disposition': 'attachment; filename=x' };
  try {
    const response = await owner.call(`/v1/storage/${mode}`, { method: 'POST', headers, body: bytes });
    if (response.status !== 201) return undefined;
    return { fileId: (await response.json<StoredFile>()).fileId, sha256: sha256(bytes) };
  } catch {
    return undefined;
  }
}

/** Several requests, each repeated until it succeeds. */
async function resume(mode: Mode): Promise<Acknowledged> {
  const bytes = randomBytes(fileBytes);
  let path: string | undefined;
  // Of creations whose answer is lost, a key may have ten.
  const headers = { 'Idempotency-Key': crypto.randomUUID() };
  for (let attempt = 1; ; attempt += 1) {
    try {
      path ??= (await create(owner.call, mode, bytes.length, { headers })).path;
      const offset = await offsetOf(owner.call, path);
      const rest = bytes.subarray(offset, offset + requestBytes);
      if (rest.length > 0) await patch(owner.call, path, offset, rest);
      const { state, file } = await stateOf(owner.call, path);
      if (state === 'done') return { fileId: present(file).fileId, sha256: sha256(bytes) };
    } catch (error) {
      if (attempt === attempts) throw error;
    }
    if (attempt === attempts) throw new Error(`the upload did not end in ${attempts} attempts`);
    await sleep(100);
  }
}

const killKubo = async (): Promise<void> => {
  await kubo.kill();
  await kubo.start();
};
const collect = async (): Promise<void> => void (await (await askNode(atKubo(), 'repo/gc')).text());

/** The CIDs of the rows of the account's files. */
async function cidsOfFiles(): Promise<string[]> {
  return (await owner.object.rows('file')).map((row) => String(row['cid'])).toSorted();
}

it.runIf(long && kuboProgram() !== undefined)(
  `S81 S82: all acknowledged of ${rounds} × 2 uploads are there, and after the sweep each pin has a row`,
  async () => {
    const acknowledged: Acknowledged[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const [one, other] = round % 2 === 0 ? modes : modes.toReversed();
      const uploads = Promise.all([post(present(one)), resume(present(other))]);
      uploads.catch(() => undefined);
      const kills = round % 2 === 0 ? [killService, killKubo] : [killKubo, killService];
      for (const kill of kills) {
        await sleep((Math.random() * latestKillMs) / kills.length);
        await kill();
        await collect();
      }
      const stored = (await uploads).filter((each) => each !== undefined);
      acknowledged.push(...stored);
    }
    // Nothing runs any more. A service that was not there when a pin was to be removed is asked
    // again.
    await sweep(atKubo(), [owner], []);
    for (const cid of await pinned(atKubo())) await (await pinObject(atKubo(), cid)).ring(3_600_000);
    await sweep(atKubo(), [owner], []);
    expect(await owner.object.rows('part')).toEqual([]);
    expect(await owner.object.rows('outbox')).toEqual([]);
    const pins = (await pinned(atKubo())).filter((cid) => !pinnedBefore.includes(cid));
    expect(pins.toSorted()).toEqual(await cidsOfFiles());
    await collect();
    for (const { fileId, sha256: expected } of acknowledged) {
      const read = owner.call.read(fileId);
      expect(sha256(await read)).toBe(expected);
    }
  },
);
if (kuboProgram() === undefined) it.skip(noKubo);
