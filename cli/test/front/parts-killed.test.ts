/** Processes that are killed at each step of a request that continues an upload. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { entrySource } from '../../../testkit/programs/command-line.ts';
import { readState } from '../../local/state.ts';
import { remove, startLocal, type Running } from '../local/harness.ts';
import { uploadsTo, write } from './tus-uploads.ts';

const bytes = randomBytes(20 * leafBytes + 5);
const firstPart = 16 * leafBytes;

/** A call within the process that runs the node; `nth`: counted from 1. */
type Call = { of: 'Store.publish' | 'Catalog.pin'; when: 'before' | 'after'; nth: number };

/**
 * Steps of the request: `sent` bytes have been sent, and the process stands at `call`, where one is
 * named. Then `least` bytes are recorded.
 */
const steps: Record<string, { sent: number; least: number; call?: Call }> = {
  'before the first byte': { sent: 0, least: 0 },
  'amid a part': { sent: 5 * leafBytes + 1, least: 0 },
  'when a part is written': { sent: bytes.length, least: 0, call: { of: 'Store.publish', when: 'before', nth: 1 } },
  'when a part exists, before its report': {
    sent: bytes.length,
    least: 0,
    call: { of: 'Store.publish', when: 'after', nth: 1 },
  },
  'when a part is reported': { sent: bytes.length, least: 0, call: { of: 'Catalog.pin', when: 'before', nth: 1 } },
  'when a part is pinned': { sent: bytes.length, least: 0, call: { of: 'Catalog.pin', when: 'after', nth: 1 } },
  'when a part is recorded': { sent: firstPart + 77, least: firstPart },
  'when the last part is pinned': {
    sent: bytes.length,
    least: firstPart,
    call: { of: 'Catalog.pin', when: 'after', nth: 2 },
  },
  // Its parts are there, and its root is not pinned.
  'when all is recorded, before the answer': {
    sent: bytes.length,
    least: bytes.length,
    call: { of: 'Catalog.pin', when: 'before', nth: 3 },
  },
};

/** A module that stops its process at a call, until there is a file `resumed`. */
function stopping({ of, when, nth }: Call, dir: string): string {
  const [className = '', method = ''] = of.split('.');
  const module = new URL(`../../local/node/${className.toLowerCase()}.ts`, import.meta.url);
  return `
    import { existsSync, writeFileSync } from 'node:fs';
    import { ${className} } from ${JSON.stringify(module)};
    const own = ${className}.prototype.${method};
    let calls = 0;
    const stop = () => {
      writeFileSync(${JSON.stringify(join(dir, 'stopped'))}, '');
      const nobody = new Int32Array(new SharedArrayBuffer(4));
      while (!existsSync(${JSON.stringify(join(dir, 'resumed'))})) Atomics.wait(nobody, 0, 0, 20);
    };
    ${className}.prototype.${method} = function (...args) {
      const isThis = ++calls === ${nth};
      if (isThis && ${when === 'before'}) stop();
      const result = own.apply(this, args);
      if (!isThis || ${when === 'before'}) return result;
      if (!(result instanceof Promise)) return stop(), result;
      return result.then((value) => (stop(), value));
    };
  `;
}

/** Starts a service that stands still at a call. */
async function startedAt(call: Call | undefined): Promise<{ service: Running; dir: string }> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-killed-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  if (call === undefined) return { service: await startLocal(), dir };
  const path = join(dir, 'stopping.mjs');
  await writeFile(path, stopping(call, dir));
  const env = { NODE_OPTIONS: `--import=${pathToFileURL(path).href}` };
  return { service: await startLocal({ env, program: entrySource }), dir };
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const all = Object.keys(steps).flatMap((step) => [
  { step, killed: 'the runtime' },
  { step, killed: 'the process with the node' },
]);
const some = [
  { step: 'when a part is pinned', killed: 'the runtime' },
  { step: 'when a part exists, before its report', killed: 'the process with the node' },
  { step: 'when all is recorded, before the answer', killed: 'the process with the node' },
];

inCi.each(long ? all : some)(
  '$killed that is killed $step loses nothing that was recorded',
  async ({ step, killed }) => {
    const { sent: sentBytes, least, call } = present(steps[step]);
    const { service, dir } = await startedAt(call);
    onTestFinished(() => remove(service));
    const before = uploadsTo(service);
    const path = await before.create(bytes.length);
    const sent = before.begin(path, 0, bytes.length).setHeader('expect', '100-continue');
    const asked = once(sent, 'continue');
    sent.flushHeaders();
    await asked;
    if (call !== undefined) {
      sent.write(bytes.subarray(0, sentBytes));
      await expect.poll(() => exists(join(dir, 'stopped'))).toBe(true);
    } else if (sentBytes > 0) {
      await write(sent, bytes.subarray(0, sentBytes));
      if (least === 0) await expect.poll(before.filesOnDisk).toHaveLength(1);
      else await expect.poll(async () => (await before.stateOf(path)).offset).toBeGreaterThanOrEqual(least);
    }

    let after = before;
    if (killed === 'the runtime') {
      const { workerd } = present(await readState(service.dataDir, 'run'));
      process.kill(itemOf(workerd, 0).pid, 'SIGKILL');
      await writeFile(join(dir, 'resumed'), '');
    } else {
      await service.end('SIGKILL');
      const again = await startLocal({ dataDir: service.dataDir });
      onTestFinished(() => again.end().then(() => undefined));
      after = uploadsTo(again);
    }
    sent.destroy();

    let offset = -1;
    await expect.poll(async () => (offset = await after.offsetOf(path).catch(() => -1))).toBeGreaterThanOrEqual(least);
    expect(offset).toBeLessThanOrEqual(sentBytes);
    await after.send(path, bytes, [], offset);
    await after.expectRows();
    await after.expectStored(path, bytes);
    await after.expectRows();
  },
);
