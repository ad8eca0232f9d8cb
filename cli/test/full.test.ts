/** S49: the disk is full. */
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { encrypt, generateKeyPair, recipientFromSpki } from '../../shared/crypto/index.ts';
import { nodeBackend } from '../crypto.ts';
import { entry } from './local.ts';
import { run, temporaryDirectory } from './world.ts';

const noDisk = 'no small disk can be made here (unshare, mount)';
const pair = await generateKeyPair(nodeBackend);

async function containerIn(directory: string, bytes: number): Promise<void> {
  const { stream } = await encrypt(new Blob([new Uint8Array(bytes)]).stream(), { format: 'sealpin', recipients: [recipientFromSpki(pair.spki)], backend: nodeBackend });
  await writeFile(join(directory, 'in'), new Uint8Array(await new Response(stream).arrayBuffer()));
  await writeFile(join(directory, 'key'), pair.privatePem, { mode: 0o600 });
}

/** Runs a shell script where /small is a file system of 1 MiB; undefined where the machine does not let us make one. */
function onSmallDisk(script: string, directory: string): { status: number | null; stdout: string; stderr: string } | undefined {
  const mount = `mount -t tmpfs -o size=1m sealpin-test "$DIRECTORY/small" || exit 77; ${script}`;
  const ran = spawnSync('unshare', ['--mount', ...(process.getuid?.() === 0 ? [] : ['--map-root-user']), 'sh', '-c', mount], {
    cwd: directory,
    env: { PATH: process.env['PATH'] ?? '', HOME: directory, DIRECTORY: directory, NODE: process.execPath, ENTRY: entry, SEALPIN_HOME: join(directory, 'home') },
    encoding: 'utf8',
  });
  return ran.status === 77 || ran.stderr?.includes('unshare') || ran.error !== undefined ? undefined : ran;
}

describe('S49: on a full disk', () => {
  test.for([
    { title: 'in the middle of the file', bytes: 4 * 1024 * 1024, fill: 0 },
    { title: 'at its first byte', bytes: 1000, fill: 1024 * 1024 },
  ])('$title: one clear error, exit 1, and nothing left', async ({ bytes, fill }, context) => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'small'));
    await containerIn(directory, bytes);
    const ran = onSmallDisk(`head -c ${fill} /dev/zero > small/filler; "$NODE" "$ENTRY" ecc-decrypt ./in small/out key; echo "exit $?"; ls -A small`, directory) ?? context.skip(noDisk);
    expect(ran.stderr).toBe('sealpin: error: small/out cannot be written: the disk is full\nsealpin: hint: free some space and try again\n');
    expect(ran.stdout).toBe('exit 1\nfiller\n');
  });

  test('the old file stays when --force was to replace it', async (context) => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'small'));
    await containerIn(directory, 4 * 1024 * 1024);
    const ran = onSmallDisk('echo old > small/out; "$NODE" "$ENTRY" ecc-decrypt ./in small/out key --force; cat small/out; ls -A small', directory) ?? context.skip(noDisk);
    expect(ran.stdout).toBe('old\nout\n');
  });

  test.runIf(existsSync('/dev/full'))('under standard output: one clear error and exit 1', async () => {
    const directory = await temporaryDirectory();
    await containerIn(directory, 1000);
    const ran = spawnSync('sh', ['-c', '"$NODE" "$ENTRY" ecc-decrypt ./in - key > /dev/full'], { cwd: directory, env: { PATH: process.env['PATH'] ?? '', HOME: directory, NODE: process.execPath, ENTRY: entry }, encoding: 'utf8' });
    expect(ran).toMatchObject({ status: 1, stderr: 'sealpin: error: the disk under the standard output is full\nsealpin: hint: free some space and try again\n' });
  });

  test.runIf(existsSync('/dev/full'))('under a new key: nothing is left', async () => {
    const directory = await temporaryDirectory();
    const ran = await run(['keygen', '--output', '/dev/full', '--data-dir', directory], directory);
    expect(ran).toMatchObject({ exit: 1, stdout: '' });
    expect(await readdir(directory)).toEqual([]);
  });
});
