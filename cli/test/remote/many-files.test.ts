/**
 * `verify --all`, `verify --local` and `repair` on a service with many files, at the embedded node
 * and at an object store: nothing is missed, also by a run that was stopped and one that continues.
 */
import { spawnSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { client, type Client } from '../../../testkit/api-client.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { adminToken, startService } from '../../../testkit/service.ts';
import { here, remove, sealpin, startHere, startLocal } from '../local/harness.ts';
import { entry } from '../../../testkit/programs/command-line.ts';

const files = long ? 10_000 : 150;
const pageItems = 100;
const lanes = 8;

type Kind = 'embedded node' | 'R2';
type Started = {
  url: string;
  call: Client;
  env: Record<string, string>;
  /** Where the command line finds it. */
  at: string[];
  close(): Promise<void>;
};

const start: Readonly<Record<Kind, () => Promise<Started>>> = {
  async 'embedded node'() {
    const service = await (long ? startLocal : startHere)();
    const { url, apiKey, dataDir } = service;
    return {
      url,
      call: client(url, apiKey),
      env: {},
      at: [`--data-dir=${dataDir}`],
      close: () => remove(service),
    };
  },
  async R2() {
    const BACKENDS = JSON.stringify([{ id: 'r2', type: 'r2', binding: 'BUCKET' }]);
    const service = await startService({ vars: { BACKENDS } });
    const { apiKey } = await service.account();
    return {
      url: service.url,
      call: client(service.url, apiKey),
      env: { SEALPIN_API_KEY: apiKey, SEALPIN_ADMIN_TOKEN: adminToken },
      at: [`--service=${service.url}`],
      close: () => service.close(),
    };
  },
};

type Verified = { files?: number; next?: string };

/** Has a process say at its end how much memory it had at most, in KiB. */
const tellsMemory = `--import=data:text/javascript,${encodeURIComponent(
  'process.on("exit",()=>process.stderr.write(`maxrss=${process.resourceUsage().maxRSS}`))',
)}`;

describe.each<Kind>(long ? ['embedded node', 'R2'] : ['embedded node'])('%s', (kind) => {
  let service: Started;
  beforeAll(async () => {
    service = await start[kind]();
  });
  afterAll(() => service.close());

  /** Runs a command to its end, and in the long form says what it took. */
  async function said<T>(...args: string[]): Promise<T & { seconds: number }> {
    const started = performance.now();
    const env = { ...service.env, ...(long && { NODE_OPTIONS: tellsMemory }) };
    const { code, stdout, stderr } = await (long ? sealpin : here)([...args, '--json', ...service.at], env);
    const seconds = (performance.now() - started) / 1000;
    expect(code, stderr).toBe(0);
    const mib = Math.round(Number(/maxrss=(\d+)/.exec(stderr)?.[1]) / 1024);
    const took = `${seconds.toFixed(1)} s, ${mib} MiB; load ${loadavg()[0]?.toFixed(1)}`;
    if (long) process.stdout.write(`${kind}, ${files} files: ${args.join(' ')}: ${took}\n`);
    return { ...(JSON.parse(stdout) as T), seconds };
  }

  /** What a command has done that is stopped after some time, with the position. */
  function stoppedAfter(seconds: number, ...args: string[]): Verified {
    const command = [process.execPath, entry, ...args, '--json', ...service.at];
    const env = { ...process.env, ...service.env };
    const { stdout } = spawnSync('timeout', ['-s', 'INT', String(seconds), ...command], { env, encoding: 'utf8' });
    return JSON.parse(stdout) as Verified;
  }

  inCi('is verified and repaired as a whole', async () => {
    const numbers = Array.from({ length: files }, (_, at) => at);
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        for (let at = numbers.pop(); at !== undefined; at = numbers.pop())
          await service.call.store('plain', `file ${at} ${'x'.repeat(at % 3000)}`);
      }),
    );
    const all = await said<Verified>('verify', '--all');
    expect(all).toMatchObject({ files, bad: [] });
    expect(await said('repair')).toMatchObject({ pins: files, copying: 0, waiting: 0, bad: [] });
    // A position is the cursor of a page.
    const { cursor } = await service.call.listFiles({ limit: pageItems, order: 'asc' });
    const rest = await said('verify', '--all', `--after=${present(cursor)}`);
    expect(rest).toMatchObject({ files: files - pageItems, bad: [] });
    const local = kind === 'R2' ? undefined : await said<Verified>('verify', '--local');
    if (local !== undefined) expect(local).toMatchObject({ bad: 0 });
    if (!long) return;
    const part = stoppedAfter(all.seconds / 2, 'verify', '--all');
    const { files: left = 0 } = await said<Verified>('verify', '--all', `--after=${present(part.next)}`);
    // The page in which it stopped is read again.
    const read = left + (part.files ?? 0);
    expect(read).toBeGreaterThanOrEqual(files);
    expect(read).toBeLessThan(files + pageItems);
  });
});
