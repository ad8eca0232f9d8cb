/**
 * The node is killed at random moments under load. What it acknowledged is whole; what it did not
 * is swept.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { add, ask, directory, fileInParts, importFile, token } from './node-harness.ts';
import { present } from '../../../testkit/present.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';

const rounds = long ? 200 : ci ? 3 : 2;

const program = `
  import { startNode } from ${JSON.stringify(fileURLToPath(new URL('../../local/node/server.ts', import.meta.url)))};
  const { url } = await startNode({ dir: process.argv[1], token: ${JSON.stringify(token)} });
  console.log(url);
`;

async function start(dir: string): Promise<{ url: string; child: ChildProcess }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, '--', dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [url] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { url, child };
}

/**
 * Waits until something was acknowledged, or the load has ended: on a busy machine the time of a
 * round may be too short for it.
 */
async function untilHeld(held: ReadonlyMap<string, unknown>, loads: Promise<unknown>): Promise<void> {
  const ended = loads.then(() => true);
  while (held.size === 0 && !(await Promise.race([ended, sleep(10, false)])));
}

inCi(
  `killed ${rounds} times under load: acknowledged files are whole, nothing else stays`,
  async () => {
    const dir = await directory();
    let child: ChildProcess | undefined;
    onTestFinished(() => void child?.kill('SIGKILL'));
    /**
     * Contents that must be there: CID to SHA-256 of the bytes. `open`: a request was under way,
     * either outcome is right.
     */
    const held = new Map<string, string>();
    const open = new Set<string>();

    for (let round = 0; round < rounds; round += 1) {
      const running = await start(dir);
      child = running.child;
      const { url } = running;

      const pins = Object.keys(present((await ask(url, 'pin/ls?type=recursive')).json().Keys));
      const expected = [...held.keys()];
      expect(
        expected.filter((cid) => !open.has(cid) && !pins.includes(cid)),
        `round ${round}: lost`,
      ).toEqual([]);
      // One file a pin: nothing of what was interrupted is left.
      expect((await readdir(join(dir, 'data'))).length).toBe(pins.length);
      for (const cid of open) if (!pins.includes(cid)) held.delete(cid);
      open.clear();
      for (const [cid, digest] of [...held].slice(-4)) {
        const reply = await ask(url, `cat?arg=${cid}`);
        expect(createHash('sha256').update(reply.text, 'latin1').digest('hex'), `round ${round}: ${cid}`).toBe(digest);
      }

      const stop = new AbortController();
      const load = async () => {
        while (!stop.signal.aborted) {
          const removed = held.size > 8 ? [...held.keys()].find((cid) => !open.has(cid)) : undefined;
          if (removed !== undefined) {
            open.add(removed);
            await ask(url, `pin/rm?arg=${removed}`);
            held.delete(removed);
            open.delete(removed);
          }
          const bytes = randomBytes(randomInt(1, 1.5 * leafBytes));
          const cid = await add(url, bytes);
          held.set(cid, createHash('sha256').update(bytes).digest('hex'));
        }
      };
      const loads = Promise.allSettled([load(), load(), load()]);
      await sleep(randomInt(20, 250));
      if (round === rounds - 1) await untilHeld(held, loads);
      child.kill('SIGKILL');
      stop.abort();
      await Promise.all([once(child, 'exit'), loads]);
    }

    const { url, child: last } = await start(dir);
    child = last;
    expect(held.size).toBeGreaterThan(0);
    for (const [cid, digest] of held) {
      if (open.has(cid)) continue;
      expect(
        createHash('sha256')
          .update((await ask(url, `cat?arg=${cid}`)).text, 'latin1')
          .digest('hex'),
      ).toBe(digest);
    }
  },
  3_600_000,
);

test(`killed ${rounds} times during uploads: acknowledged roots are whole, and removal frees the disk`, async () => {
  const dir = await directory();
  let child: ChildProcess | undefined;
  onTestFinished(() => void child?.kill('SIGKILL'));
  const held = new Map<string, Buffer>();
  /** A request was under way: either outcome is right. */
  const open = new Set<string>();

  async function expectWhole(url: string): Promise<void> {
    const pins = Object.keys(present((await ask(url, 'pin/ls?type=recursive')).json().Keys));
    for (const cid of open) if (!pins.includes(cid)) held.delete(cid);
    open.clear();
    for (const cid of held.keys()) {
      expect(pins).toContain(cid);
      expect((await ask(url, `dag/stat?arg=${cid}`)).json()).toMatchObject({ UniqueBlocks: 6 });
    }
    for (const [cid, bytes] of [...held].slice(-2))
      expect((await ask(url, `cat?arg=${cid}`)).text === bytes.toString('latin1'), cid).toBe(true);
  }

  for (let round = 0; round < rounds; round += 1) {
    const running = await start(dir);
    child = running.child;
    const { url } = running;
    await expectWhole(url);
    const stop = new AbortController();
    const load = async () => {
      while (!stop.signal.aborted) {
        const removed = held.size > 4 ? [...held.keys()].find((cid) => !open.has(cid)) : undefined;
        if (removed !== undefined) {
          open.add(removed);
          await ask(url, `pin/rm?arg=${removed}`);
          held.delete(removed);
          open.delete(removed);
        }
        const { root, bytes } = await importFile(url, fileInParts());
        held.set(root.cid.text, bytes);
      }
    };
    const loads = Promise.allSettled([load(), load()]);
    await sleep(randomInt(50, 400));
    if (round === rounds - 1) await untilHeld(held, loads);
    child.kill('SIGKILL');
    stop.abort();
    await Promise.all([once(child, 'exit'), loads]);
  }

  const { url, child: last } = await start(dir);
  child = last;
  expect(held.size).toBeGreaterThan(0);
  await expectWhole(url);
  const pins = Object.keys(present((await ask(url, 'pin/ls?type=recursive')).json().Keys));
  // A root whose response was lost stays as well, so that there may be too many for one address.
  for (let at = 0; at < pins.length; at += 50) {
    const some = pins.slice(at, at + 50).map((cid) => `arg=${cid}`);
    await ask(url, `pin/rm?${some.join('&')}`);
  }
  await ask(url, 'repo/gc');
  expect(await readdir(join(dir, 'data'))).toEqual([]);
}, 3_600_000);
