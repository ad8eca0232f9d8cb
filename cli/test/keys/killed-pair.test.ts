/** A pair is written, and the process is killed, or the disk is full. */
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { entry } from '../../../testkit/programs/command-line.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { inCi } from '../../../testkit/long-run.ts';

/** Copies a folder before each change of a name in it: that is what a kill leaves there. */
const copying = `
  import fs from 'node:fs/promises';
  import { cpSync } from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  let steps = 0;
  for (const name of ['link', 'rename', 'rm']) {
    const own = fs[name];
    fs[name] = (...args) => {
      cpSync(process.env.FROM, process.env.TO + '/' + String(++steps), { recursive: true });
      return own(...args);
    };
  }
  syncBuiltinESMExports();`;

type Finding = { state: string; text: string; todo?: string };

/** What doctor says of the pair in a data directory. */
async function pairIn(dataDir: string): Promise<Finding> {
  const { stdout } = await run(['doctor', '--json', '--data-dir', dataDir], dataDir);
  const { findings } = JSON.parse(stdout) as { findings: (Finding & { subject: string })[] };
  return findings.find(({ subject }) => subject === 'key pair') ?? { state: 'none', text: '' };
}

test.each([
  { words: 'keygen', had: false },
  { words: 'keygen --force --yes', had: true },
  { words: 'key rotate', had: true },
])('$words that is killed leaves a pair, or says how to get one', async ({ words, had }) => {
  const folder = await temporaryDirectory();
  const [dataDir, to] = [join(folder, 'home'), join(folder, 'killed')];
  await mkdir(dataDir, { mode: 0o700 });
  await mkdir(to);
  if (had) await run(['keygen', '--data-dir', dataDir], folder);
  const before = had ? await readFile(join(dataDir, 'private.key'), 'utf8') : '';
  const preload = `data:text/javascript,${encodeURIComponent(copying)}`;
  await promisify(execFile)(
    process.execPath,
    ['--import', preload, entry, ...words.split(' '), '--data-dir', dataDir],
    { env: { ...bareEnv(), FROM: dataDir, TO: to, HOME: folder } },
  );
  await cp(dataDir, join(to, 'end'), { recursive: true });
  const left = await readdir(to);
  expect(left.length).toBeGreaterThan(2);
  for (const name of left) {
    const killed = join(to, name);
    const text = await readFile(join(killed, 'private.key'), 'utf8').catch(() => '');
    if (words === 'key rotate') expect(text, name).toContain(before.trim());
    const pair = await pairIn(killed);
    if (pair.state === 'ok') continue;
    if (text === '') {
      expect(pair, name).toMatchObject({ state: 'note', text: 'none: passwords only' });
      continue;
    }
    expect(pair, name).toMatchObject({ state: 'wrong', todo: expect.stringContaining('sealpin key rotate') as string });
    const again = await run(['keygen', '--data-dir', killed], folder);
    expect(again.stderr, name).toContain('its public.key is missing');
    expect(await run(['key', 'rotate', '--data-dir', killed], folder), name).toMatchObject({ exit: 0 });
    expect(await pairIn(killed), name).toMatchObject({ state: 'ok' });
    expect(await readFile(join(killed, 'private.key'), 'utf8'), name).toContain(text.trim());
  }
});

inCi('on a full disk the pair before stays', async (context) => {
  const folder = await temporaryDirectory();
  await mkdir(join(folder, 'home'), { mode: 0o700 });
  const ran = await onSmallDisk(context, {
    disk: join(folder, 'home'),
    mebibytes: 1,
    script: `chmod 700 home; sealpin() { "$NODE" "$ENTRY" "$@" --quiet; }
      sealpin keygen; mkdir before; cp home/*.key before
      cat /dev/zero > home/filler 2> full; truncate -s -4096 home/filler
      for command in 'keygen --force --yes' 'key rotate'; do
        sealpin $command; echo "exit $?"; cmp before/private.key home/private.key; cmp before/public.key home/public.key
      done`,
    cwd: folder,
    env: { HOME: folder, ENTRY: entry, SEALPIN_HOME: join(folder, 'home') },
  });
  expect(ran.stdout.split('\n').slice(1)).toEqual(['exit 7', 'exit 7', '']);
  expect(ran.stderr.match(/public\.key cannot be written: the disk is full/g)).toHaveLength(2);
});
