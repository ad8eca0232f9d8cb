import { entry } from '../../../testkit/programs/command-line.ts';
/** A data directory on a disk that cannot be written. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemFailure } from '../../errno.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { temporaryDirectory } from '../environment.ts';
import { ci } from '../../../testkit/long-run.ts';

const folders: [string, string][] = [
  ['empty', ''],
  ['of a service that was used', 'mkdir -p home/local/ipfs/data; touch home/local/lock home/local/service.log'],
];
test.for(folders.slice(ci ? 0 : 1))(
  'on a read-only disk, in a directory %s, a command says so and changes nothing',
  async ([, prepare], context) => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'home'));
    const commands = ['start --port 0', 'start --port 0 --detach', 'keygen', 'contact remove ann'];
    const ran = await onSmallDisk(context, {
      disk: join(directory, 'home'),
      mebibytes: 1,
      script: `chmod 700 home; ${prepare || ':'}; mount -o remount,ro "$DISK" || exit 77
      for command in ${commands.map((command) => `'${command}'`).join(' ')}; do
        "$NODE" "$ENTRY" $command; echo "exit $?"
      done`,
      cwd: directory,
      env: { HOME: directory, ENTRY: entry, SEALPIN_HOME: join(directory, 'home') },
    });
    expect(ran.stderr).not.toMatch(/bug in sealpin|EROFS|readonly database/);
    expect(ran.stderr.match(/read-only/g)?.length).toBeGreaterThanOrEqual(3);
    expect(ran.stdout).toBe('exit 1\n'.repeat(commands.length));
  },
);

test.each([
  [{ code: 'EROFS', syscall: 'open', path: '/a' }, 'file_unwritable', '/a cannot be written: the disk is read-only'],
  [{ code: 'EACCES', syscall: 'open', path: '/a' }, 'file_unreadable', '/a cannot be read: permission denied'],
  [{ code: 'EPERM', syscall: 'mkdir', path: '/a' }, 'file_unwritable', '/a cannot be written: permission denied'],
  [{ code: 'ENOSPC', syscall: 'write', path: '/a' }, 'disk_full', '/a cannot be written: the disk is full'],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 13 }, 'disk_full', expect.stringContaining('the disk is full') as string],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 14 }, 'file_unwritable', expect.stringContaining('missing') as string],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 778 }, 'file_unwritable', expect.stringContaining('reported') as string],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 1544 }, 'file_unwritable', expect.stringContaining('read-only') as string],
])('%j is a failure of the system', (fields, code, message) => {
  expect(systemFailure(Object.assign(new Error('failed'), fields))).toMatchObject({ code, message });
});

test('anything else that nobody expected is not blamed on the system', () => {
  for (const fields of [{}, { code: 'ENOENT', syscall: 'open', path: '/a' }, { code: 'ECONNRESET', syscall: 'read' }])
    expect(systemFailure(Object.assign(new Error('failed'), fields))).toBeUndefined();
});
