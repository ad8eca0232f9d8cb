/** A service with two real Kubos, each behind a peer that can misbehave. */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { startKubo, type RealKubo } from '../../../testkit/programs/kubo.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import { startPeer, type Peer } from '../peer.ts';
import { newOwner, pinObject, type Owner, ownerAt } from '../stored-state.ts';
import { flip } from '../../../testkit/present.ts';

export type Backend = { kubo: RealKubo; peer: Peer };

export type World = {
  service: Service;
  owner: Owner;
  a: Backend;
  b: Backend;
  /**
   * Kills the service, as a power cut would, and starts it again.
   * @param more variables than at first
   */
  restart(more?: Record<string, string>): Promise<void>;
  close(): Promise<void>;
};

const day = 86_400_000;
/** Time after which every pin is due for its check. */
export const weekMs = 7 * day;

export async function startBackend(o?: Parameters<typeof startKubo>[0]): Promise<Backend> {
  const kubo = await startKubo(o);
  return { kubo, peer: await startPeer(() => kubo.url) };
}

/**
 * A backend, what the configuration says of it besides its Kubo or instead, and what else must be
 * closed.
 */
export type OtherBackend = Backend & { entry: Record<string, unknown>; close(): Promise<void> };

/**
 * Starts both backends and the service, which stores each file at `a` first.
 * @param vars besides the usual ones
 * @param o.second what `b` is; a Kubo if undefined @param o.first how the Kubo of `a` is started
 */
export async function startTwoBackends(
  vars: Record<string, string> = {},
  o: { second?: () => Promise<OtherBackend>; first?: Parameters<typeof startKubo>[0] } = {},
): Promise<World> {
  const second: Promise<Backend & Partial<OtherBackend>> = o.second === undefined ? startBackend() : o.second();
  const [a, b] = await Promise.all([startBackend(o.first), second]);
  const entry = (id: string, { peer }: Backend) => ({ id, type: 'kubo', url: peer.url, tokenSecret: 'KUBO_TOKEN' });
  const entries = [entry('a', a), b.entry ? { id: 'b', ...b.entry } : entry('b', b)];
  const all = { PINNING_SERVICES: JSON.stringify(entries), REPLICAS: '2', SERVICE_ID: 'us' };
  const token = { KUBO_TOKEN: a.kubo.token };
  const dir = await mkdtemp(join(tmpdir(), 'sealbackend-pin-'));
  const start = (more: Record<string, string> = {}) =>
    startService({
      dir,
      entry: 'worker/test/clock.ts',
      node: { url: a.peer.url, close: async () => undefined },
      vars: { ...token, ...all, ...vars, ...more },
    });
  const service = await start();
  const world: World = {
    service,
    owner: await newOwner(service),
    a,
    b,
    async restart(more) {
      await world.service.kill();
      world.service = await start(more);
      world.owner = ownerAt(world.service, world.owner);
    },
    async close() {
      await world.service.close();
      await rm(dir, { recursive: true, force: true });
      await Promise.all([a, b].map(async ({ kubo, peer }) => await Promise.all([peer.close(), kubo.close()])));
      await b.close?.();
    },
  };
  return world;
}

/** Returns the states of a file's pins, without times. */
export async function statuses({ owner }: World, { fileId }: StoredFile): Promise<Record<string, string>> {
  const { pins } = await owner.call.getFile({ fileId, data: false });
  return Object.fromEntries(pins.map(({ service, status }) => [service, status]));
}

/** Lets time pass for a CID, and its alarm ring. */
export async function ring({ service }: World, { cid }: StoredFile, ms: number): Promise<void> {
  await (await pinObject(service, cid)).ring(ms);
}

/** Rings until a file is where it is expected: at both backends, if nothing else is said. */
export async function settle(
  world: World,
  file: StoredFile,
  expected: Readonly<Record<string, string>> = { a: 'pinned', b: 'pinned' },
): Promise<void> {
  await expect
    .poll(
      async () => {
        await ring(world, file, 5_000);
        return await statuses(world, file);
      },
      { timeout: 30_000 },
    )
    .toEqual(expected);
}

/** Time after which each new pin is asked for once. */
const askedMs = 10_000;

/** Stores a file, and waits until both backends have it and have been asked for it. */
export async function storeAtBoth(
  world: World,
  bytes: Buffer,
  mode: 'plain' | 'encrypted' = 'plain',
): Promise<StoredFile> {
  const file = await world.owner.call.store(mode, bytes);
  await settle(world, file);
  await ring(world, file, askedMs);
  return file;
}

export async function readBack({ owner }: World, { fileId }: StoredFile): Promise<Buffer> {
  return await owner.call.getFileContent({ fileId });
}

/** Sends a command to a Kubo as its operator would. @returns its answer */
async function command(
  { kubo }: { kubo: RealKubo },
  name: string,
  query: Record<string, string> = {},
): Promise<string> {
  const headers = { Authorization: `Bearer ${kubo.token}` };
  const url = `${kubo.url}/api/v0/${name}?${new URLSearchParams(query).toString()}`;
  const answer = await fetch(url, { method: 'POST', headers });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return text;
}

/** Removes a pin and its blocks, past the service. */
export async function unpinBehindOurBack(backend: Backend, { cid }: StoredFile): Promise<void> {
  await command(backend, 'pin/rm', { arg: cid });
  await command(backend, 'repo/gc');
}

/** The names of the recursive pins of a Kubo, by CID. */
export async function names(backend: { kubo: RealKubo }): Promise<Record<string, string>> {
  const answer = await command(backend, 'pin/ls', { type: 'recursive', names: 'true' });
  const { Keys } = JSON.parse(answer) as { Keys: Record<string, { Name: string }> };
  return Object.fromEntries(Object.entries(Keys).map(([cid, { Name }]) => [cid, Name]));
}

/**
 * Changes a byte of each block file of a Kubo that has these bytes. Kubo itself does not notice.
 * @returns how many there were
 */
export async function corrupt(backend: Backend, block: Buffer): Promise<number> {
  return await changeBlocks(backend, block, async (path, bytes) => {
    flip(bytes, bytes.length - 1);
    await writeFile(path, bytes);
  });
}

/**
 * Removes each block file of a Kubo that has these bytes. Its pins stay.
 * @returns how many there were
 */
export async function removeBlock(backend: Backend, block: Buffer): Promise<number> {
  return await changeBlocks(backend, block, (path) => rm(path));
}

async function changeBlocks(
  { kubo }: Backend,
  block: Buffer,
  change: (path: string, bytes: Buffer) => Promise<void>,
): Promise<number> {
  const { RepoPath } = JSON.parse(await command({ kubo }, 'repo/stat')) as { RepoPath: string };
  const files = await readdir(join(RepoPath, 'blocks'), { recursive: true });
  let changed = 0;
  for (const file of files.filter((name) => name.endsWith('.data'))) {
    const path = join(RepoPath, 'blocks', file);
    const bytes = await readFile(path);
    if (!bytes.equals(block)) continue;
    await change(path, bytes);
    changed += 1;
  }
  return changed;
}
