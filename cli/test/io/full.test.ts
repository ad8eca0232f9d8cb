import { entry } from '../../../testkit/programs/command-line.ts';
/** S49: the disk is full. */
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, type TestContext } from 'vitest';
import { encrypt, generateKeyPair, recipientFromSpki } from '../../../shared/crypto/index.ts';
import { long } from '../../../testkit/long-run.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { temporaryDirectory } from '../environment.ts';

const pair = await generateKeyPair(nodeProvider);

async function containerIn(directory: string, bytes: number): Promise<void> {
  const { stream } = await encrypt(new Blob([new Uint8Array(bytes)]).stream(), {
    format: 'sealpin',
    recipients: [recipientFromSpki(pair.spki)],
    provider: nodeProvider,
  });
  await writeFile(join(directory, 'in'), new Uint8Array(await new Response(stream).arrayBuffer()));
  await writeFile(join(directory, 'key'), pair.privatePem, { mode: 0o600 });
}

/** Runs a shell script in a folder whose `small` is a file system of 1 MiB. */
const run1MiB = (context: TestContext, script: string, directory: string) =>
  onSmallDisk(context, {
    disk: join(directory, 'small'),
    mebibytes: 1,
    script,
    cwd: directory,
    env: { HOME: directory, ENTRY: entry, SEALPIN_HOME: join(directory, 'home') },
  });

describe('S49: on a full disk', () => {
  test.for([
    { title: 'in the middle of the file', bytes: 4 * 1024 * 1024, fill: 0 },
    { title: 'at its first byte', bytes: 1000, fill: 1024 * 1024 },
  ])('$title: one clear error, exit 7, and nothing left', async ({ bytes, fill }, context) => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'small'));
    await containerIn(directory, bytes);
    const ran = await run1MiB(
      context,
      `head -c ${fill} /dev/zero > small/filler
      "$NODE" "$ENTRY" ecc-decrypt - small/out key < in; echo "exit $?"; ls -A small`,
      directory,
    );
    expect(ran.stderr).toBe(
      'sealpin: error: small/out cannot be written: the disk is full\nsealpin: hint: free some space and try again\n',
    );
    expect(ran.stdout).toBe('exit 7\nfiller\n');
  });

  test('one whose size is known is refused before a byte is written', async (context) => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'small'));
    await containerIn(directory, 4 * 1024 * 1024);
    const ran = await run1MiB(context, '"$NODE" "$ENTRY" ecc-decrypt ./in small/out key; echo "exit $?"', directory);
    expect(ran.stderr).toMatch(/^sealpin: error: small\/out needs up to 4\.0 MiB, and \S+ .?i?B are free there\n/);
    expect(ran.stdout).toBe('exit 7\n');
  });

  test('the old file stays when --force was to replace it', async (context) => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'small'));
    await containerIn(directory, 4 * 1024 * 1024);
    const ran = await run1MiB(
      context,
      'echo old > small/out; "$NODE" "$ENTRY" ecc-decrypt - small/out key --force < in; cat small/out; ls -A small',
      directory,
    );
    expect(ran.stdout).toBe('old\nout\n');
  });

  test.runIf(existsSync('/dev/full'))('under standard output: one clear error and exit 7', async () => {
    const directory = await temporaryDirectory();
    await containerIn(directory, 1000);
    const ran = spawnSync('sh', ['-c', '"$NODE" "$ENTRY" ecc-decrypt ./in - key > /dev/full'], {
      cwd: directory,
      env: { ...bareEnv(), HOME: directory, NODE: process.execPath, ENTRY: entry },
      encoding: 'utf8',
    });
    expect(ran).toMatchObject({
      status: 7,
      stderr:
        'sealpin: error: the disk that standard output writes to is full\n' +
        'sealpin: hint: free some space and try again\n',
    });
  });

  test.for(long ? ['', '--post-quantum'] : [''])(
    'under a new key: one clear error, and nothing is left (keygen %s)',
    async (flag, context) => {
      const directory = await temporaryDirectory();
      await mkdir(join(directory, 'small'));
      const ran = await run1MiB(
        context,
        `mkdir small/keys; head -c 2M /dev/zero > small/filler 2>/dev/null
        "$NODE" "$ENTRY" keygen --output small/keys ${flag}; echo "exit $?"; ls -A small/keys`,
        directory,
      );
      expect(ran.stderr.split('\n')).toEqual([
        expect.stringMatching(/^sealpin: error: \S*small\/keys\/private\.key cannot be written: the disk is full$/),
        'sealpin: hint: free some space and try again',
        '',
      ]);
      expect(ran.stdout).toBe('exit 7\n');
    },
  );
});
