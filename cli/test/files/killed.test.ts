/**
 * Interrupted and killed at any moment: nothing half-done keeps a final name, and the service keeps
 * nothing.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { encrypt, generateKeyPair, recipientFromSpki } from '../../../shared/crypto/index.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { recall } from '../../files/history.ts';
import { localService } from '../local.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

const local = localService();
const mib = 1024 * 1024;
// Keys and not passwords: deriving one takes longer than all the rest.
const pair = await generateKeyPair(nodeProvider);

type Ended = {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
};

/** Runs the command line as a process and sends it a signal when a condition holds. */
async function kill(
  argv: readonly string[],
  signal: NodeJS.Signals,
  when: () => Promise<boolean>,
  cwd: string,
): Promise<Ended> {
  const child = spawn(process.execPath, [entry, ...argv], {
    cwd,
    env: { ...process.env, SEALPIN_HOME: local.dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const closed = once(child, 'close') as Promise<[number | null, string | null]>;
  while (child.exitCode === null && !(await when())) await sleep(2);
  child.kill(signal);
  const [code, ended] = await closed;
  return { code, signal: ended, stdout, stderr };
}

/** Makes an attempt again that was over before its signal came, as on busy cores. */
async function interrupted(attempt: () => Promise<Ended>): Promise<Ended> {
  let ended = await attempt();
  for (let more = 0; ended.code === 0 && more < 5; more += 1) ended = await attempt();
  return ended;
}

const files = async (): Promise<string[]> =>
  (
    JSON.parse((await run(['list', '--json', '--data-dir', local.dataDir], '/')).stdout) as {
      files: { blobId: string; state: string }[];
    }
  ).files.flatMap(({ blobId, state }) => (state === 'stored' ? [blobId] : []));

/** Counts the files of the IPFS node. */
const blocks = async (): Promise<number> =>
  (await readdir(join(local.dataDir, 'local', 'ipfs'), { recursive: true, withFileTypes: true })).filter((file) =>
    file.isFile(),
  ).length;

/** So much that a decryption takes longer than it takes to notice it. */
const fileBytes = 48 * mib;
let container: Uint8Array;
beforeAll(async () => {
  const { stream } = await encrypt(new Blob([randomBytes(fileBytes)]).stream(), {
    format: 'sealpin',
    recipients: [recipientFromSpki(pair.spki)],
    provider: nodeProvider,
  });
  container = new Uint8Array(await new Response(stream).arrayBuffer());
});

/** A container and the key that opens it, as `in` and `key`. */
async function containerIn(directory: string): Promise<void> {
  await writeFile(join(directory, 'in'), container);
  await writeFile(join(directory, 'key'), pair.privatePem, { mode: 0o600 });
}

/**
 * Checks whether a decryption has begun to write: there is a temporary file with something in it.
 */
async function writing(directory: string): Promise<boolean> {
  const [name] = (await readdir(directory)).filter((name) => name.startsWith('.sealpin-'));
  return (
    name !== undefined &&
    (await stat(join(directory, name)).then(
      ({ size }) => size > 0,
      () => false,
    ))
  );
}

describe('decrypt', () => {
  const signals = [
    { signal: 'SIGTERM' as const, code: 143 },
    { signal: 'SIGINT' as const, code: 130 },
  ];

  // An encryption is interrupted by the other one.
  test.each(long ? signals : signals.slice(0, 1))(
    'S52: $signal removes what was written and ends with $code',
    async ({ signal, code }) => {
      const directory = await temporaryDirectory();
      await containerIn(directory);
      const ended = await interrupted(async () => {
        await rm(join(directory, 'out'), { force: true });
        return await kill(['ecc-decrypt', './in', 'out', 'key'], signal, () => writing(directory), directory);
      });
      expect(ended).toMatchObject({ code, stdout: '' });
      expect(ended.stderr).toMatch(RegExp(`^sealpin: error: interrupted by ${signal}\nsealpin: hint: .*\n$`));
      expect((await readdir(directory)).toSorted()).toEqual(['in', 'key']);
    },
  );

  test('S50: SIGKILL at random moments leaves no file of the final name, and the next run cleans up', async () => {
    const directory = await temporaryDirectory();
    const aside = await temporaryDirectory();
    await containerIn(directory);
    let killedWhileWriting = 0;
    for (let round = 0; round < (long ? 100 : 1) || (killedWhileWriting === 0 && round < 10); round += 1) {
      const delayMs = Math.random() * 40;
      const soonAfterItWrites = async (): Promise<boolean> => {
        if (!(await writing(directory))) return false;
        await sleep(delayMs);
        return true;
      };
      const ended = await kill(['ecc-decrypt', './in', 'out', 'key'], 'SIGKILL', soonAfterItWrites, directory);
      const names = await readdir(directory);
      if (ended.code !== 0 && !names.includes('out')) killedWhileWriting += 1;
      else {
        // It was through, or between its last two steps: then the file is whole.
        expect((await stat(join(directory, 'out'))).size).toBe(fileBytes);
        await rm(join(directory, 'out'));
      }
      // What it left would count as writing in the next round.
      for (const name of names)
        if (name.startsWith('.sealpin-')) await rename(join(directory, name), join(aside, name));
    }
    expect(killedWhileWriting).toBeGreaterThan(0);
    for (const name of await readdir(aside)) await rename(join(aside, name), join(directory, name));
    const last = await run(['ecc-decrypt', './in', 'out', 'key', '--force', '--data-dir', local.dataDir], directory);
    expect(last.exit).toBe(0);
    expect((await readdir(directory)).toSorted()).toEqual(['in', 'key', 'out']);
  });

  inCi('S52: when the reader closes standard output, it exits with 1 and without a stack trace', async () => {
    const directory = await temporaryDirectory();
    await containerIn(directory);
    const child = spawn(
      'sh',
      ['-c', '{ "$NODE" "$ENTRY" ecc-decrypt ./in - key; echo "exit $?" >&2; } | head -c 10 >/dev/null'],
      {
        cwd: directory,
        env: { ...process.env, NODE: process.execPath, ENTRY: entry, SEALPIN_HOME: directory },
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    await once(child, 'close');
    expect(stderr).toBe('sealpin: error: the program that reads the output has closed it\nexit 1\n');
  });
});

describe('encrypt', () => {
  test.each([
    { signal: 'SIGINT' as const, code: 130 },
    { signal: 'SIGKILL' as const, code: null },
  ])('S50, S69: $signal while it uploads leaves nothing at the service', async ({ signal, code }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), randomBytes(32 * mib));
    let before: string[] = [];
    let blocksBefore = 0;
    const uploading = async (): Promise<boolean> => (await blocks()) > blocksBefore;
    const ended = await interrupted(async () => {
      before = await files();
      blocksBefore = await blocks();
      return await kill(['ecc-encrypt', 'in', pair.recipient], signal, uploading, directory);
    });
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(await files()).toEqual(before);
    await expect.poll(blocks).toBe(blocksBefore);
    expect((await recall(local.dataDir)).damagedLines).toEqual([]);
  });

  inCi('S59: two at once on one data directory lose no entry', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'plain text');
    const before = (await recall(local.dataDir)).entries.length;
    const never = async (): Promise<boolean> => false;
    const ended = await Promise.all([
      kill(['ecc-encrypt', 'in', pair.recipient], 'SIGKILL', never, directory),
      kill(['ecc-encrypt', 'in', pair.recipient], 'SIGKILL', never, directory),
    ]);
    for (const { code, stdout } of ended) {
      expect(code).toBe(0);
      expect(await readFile(join(local.dataDir, 'history'), 'utf8')).toContain(stdout.trim());
    }
    expect((await recall(local.dataDir)).entries).toHaveLength(before + 2);
  });
});
