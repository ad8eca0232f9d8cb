/** `sealpin migrate` between the built-in node and a real Kubo, which run side by side. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Migration } from '../../../shared/api.ts';
import { type RealKubo, kuboProgram, noKubo, startKubo } from '../../../testkit/programs/kubo.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { here, remove, type RunningHere, startHere } from '../local/harness.ts';

/** More than is copied in one step. */
const bytes = randomBytes(9 * 1_048_576);

describe.skipIf(kuboProgram() === undefined)('a migration on the local service', () => {
  let kubo: RealKubo;
  let local: RunningHere;
  let dir: string;
  let cid: string;
  const env = { SEALPIN_PASSWORD: 'a password of the tests' };

  const sealpin = (...args: string[]) => here([...args, `--data-dir=${local.dataDir}`], env);
  /** The CIDs that the Kubo has pinned for us. */
  const pinned = async () => await kubo.ipfs('pin', 'ls', '--type=recursive', '--names');
  const status = async () => {
    const { migrations } = JSON.parse((await sealpin('migrate', '--status', '--json')).stdout) as {
      migrations: Migration[];
    };
    return migrations.map(({ from, to, state }) => `${from} to ${to} ${state}`);
  };
  async function isReadable(): Promise<void> {
    const output = join(dir, `output-${randomBytes(4).toString('hex')}`);
    expect(await sealpin('decrypt', cid, output)).toMatchObject({ code: 0 });
    expect((await readFile(output)).equals(bytes)).toBe(true);
  }

  beforeAll(async () => {
    [kubo, dir] = await Promise.all([startKubo(), mkdtemp(join(tmpdir(), 'sealpin-test-'))]);
    local = await startHere({ args: [`--kubo-api=${kubo.url}`], env: { SEALPIN_KUBO_TOKEN: kubo.token } });
    const input = join(dir, 'input');
    await writeFile(input, bytes);
    cid = (await sealpin('encrypt', input)).stdout.trim();
  });
  afterAll(async () => {
    await remove(local);
    await kubo.close();
    await rm(dir, { recursive: true, force: true });
  });

  inCi('moves everything out of the Kubo, and into it, and shows how far it is', async () => {
    const out = await sealpin('migrate', 'kubo', 'local');
    expect(out).toMatchObject({ code: 0 });
    expect(out.stdout).toMatch(/^kubo to local  done  0 of 1 left  since 20/);
    expect(out.stderr).toContain('sealpin: done: kubo holds nothing of ours any more\n');
    expect(await pinned()).not.toContain('sealpin');
    await isReadable();

    const back = await sealpin('migrate', '--json');
    expect(JSON.parse(back.stdout)).toMatchObject({
      migration: { from: 'local', to: 'kubo', state: 'done', total: 1, left: 0, failed: 0 },
    });
    expect(await pinned()).toContain(`${cid} recursive sealpin`);
    expect(await status()).toContain('local to kubo done');
  });

  inCi('into a Kubo that is away continues until it is cancelled; then the Kubo can be left', async () => {
    expect(await sealpin('migrate', 'kubo', 'local')).toMatchObject({ code: 0 });
    await kubo.stop();
    const begun = await sealpin('migrate', '--background');
    expect(begun).toMatchObject({ code: 0 });
    expect(begun.stdout).toMatch(/^local to kubo  running  1 of 1 left  since 20/);
    expect(begun.stderr).toContain('continues in the background; progress: sealpin migrate --status\n');
    expect(await status()).toContain('local to kubo running');
    const ended = await sealpin('migrate', '--cancel');
    expect(ended.stderr).toContain('cancelled: what has moved stays at kubo, and the rest at local\n');
    expect(await status()).toContain('local to kubo cancelled');
    await local.end();
    local = await startHere({ dataDir: local.dataDir, args: ['--kubo-api=none'] });
    await isReadable();
  });
});

if (kuboProgram() === undefined) test.skip(noKubo);
