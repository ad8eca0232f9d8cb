/**
 * S61: planted secrets, and everything that Sealpin says or keeps in the clear searched for them.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readState } from '../../local/state.ts';
import { sealpin as start } from '../local/harness.ts';
import { run, temporaryDirectory, type Overrides } from '../environment.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';

const password = 'canary-password-violet-anchor-tundra';
const wrong = 'canary-wrong-password-mosaic-harbor';
const plaintext = 'canary-plaintext-of-the-file';

test('S61: no password, key, API key or plaintext gets into words, logs or the history', async () => {
  const directory = await temporaryDirectory();
  const local = { dataDir: join(directory, 'home') };
  expect(await start(['start', '--detach', '--port=0', `--data-dir=${local.dataDir}`])).toMatchObject({ code: 0 });
  onTestFinished(async () => void (await start(['stop', `--data-dir=${local.dataDir}`])));
  // It must not open a debugger, which gives every user of this machine all of the memory.
  process.kill(present(await readState(local.dataDir, 'run')).service.pid, 'SIGUSR1');
  let said = '';
  const sealpin = async (argv: readonly string[], overrides: Overrides = {}): Promise<string> => {
    const ran = await run([...argv, '--data-dir', local.dataDir], directory, overrides);
    said += ran.stdout + ran.stderr;
    return ran.stdout.trim();
  };
  await writeFile(join(directory, 'in'), plaintext);
  await writeFile(join(directory, 'pass'), password, { mode: 0o644 });
  await writeFile(join(directory, 'not-utf8'), Buffer.concat([Buffer.from('canary-bytes'), Buffer.from([0xff])]), {
    mode: 0o600,
  });
  await writeFile(join(directory, 'bad.json'), '');
  const env = { SEALPIN_PASSWORD: password };

  await sealpin(['keygen']);
  await sealpin(['keygen']);
  await sealpin(['keygen', '--protect', '--output', 'protected'], { env });
  const stored: string[] = [];
  for (const argv of [
    ['encrypt', 'in', password],
    ['encrypt', 'in', '--password-file', 'pass'],
    ['chacha-encrypt', 'in'],
    ['ecc-encrypt', 'in', join(local.dataDir, 'public.key')],
  ])
    stored.push(await sealpin(argv, { env: argv.length > 2 ? {} : env }));
  for (const argv of [
    ['encrypt', 'in', '--password-file', 'not-utf8'],
    ['encrypt', 'in', password, '--password-file', 'pass'],
    ['encrypt', 'in', password, password],
    ['encrypt', 'in', `--pasword-file=${password}`],
    ['encrypt', 'missing', password],
    ['encrypt', 'in', password, '--service', 'http://127.0.0.1:1'],
    ['encrypt', 'in', password, '--service', `http://user:${password}@127.0.0.1:1`],
    ['decrypt', first(stored), 'wrong.out', wrong],
    ['decrypt', first(stored), 'wrong.out', wrong, '--json'],
    ['decrypt', itemOf(stored, 3), 'wrong.out', wrong],
    ['decrypt', first(stored), 'out', password],
    ['decrypt', password, 'out2', password],
    ['ecc-decrypt', itemOf(stored, 3), 'out2', (await readFile(join(local.dataDir, 'private.key'), 'utf8')).trim()],
    ['ecc-decrypt', itemOf(stored, 3), 'wrong.out', 'protected/private.key'],
    ['ecc-decrypt', first(stored), 'wrong.out'],
    ['ecc-decrypt', itemOf(stored, 3), 'wrong.out', 'pass'],
    ['ecc-encrypt', 'in', join(local.dataDir, 'private.key')],
    ['ecc-encrypt', 'in', (await readFile(join(local.dataDir, 'private.key'), 'utf8')).trim()],
    ['list'],
    ['list', '--json'],
    ['key', 'list', '--json'],
    ['key', 'export', 'account.key'],
    ['delete', itemOf(stored, 1)],
    ['delete', password],
    ['status'],
    ['status', '--json'],
  ]) {
    await sealpin(argv);
  }
  expect(await readdir(directory)).not.toContain('wrong.out');
  expect(await readFile(join(directory, 'out'), 'utf8')).toBe(plaintext);

  const { apiKey, adminToken, metricsToken, rpcToken } = JSON.parse(
    await readFile(join(local.dataDir, 'local', 'secrets.json'), 'utf8'),
  ) as Record<string, string>;
  const pem = (text: string): string => present(text.split('\n').find((line) => line.length === 64));
  const canaries = {
    password,
    wrong,
    plaintext,
    apiKey: present(apiKey),
    adminToken: present(adminToken),
    metricsToken: present(metricsToken),
    rpcToken: present(rpcToken),
    bytes: 'canary-bytes',
    privateKey: pem(await readFile(join(local.dataDir, 'private.key'), 'utf8')),
    accountKey: pem(await readFile(join(directory, 'account.key'), 'utf8')),
  };
  const kept = {
    words: said,
    service: await readFile(join(local.dataDir, 'local', 'service.log'), 'utf8'),
    history: await readFile(join(local.dataDir, 'history'), 'utf8'),
    run: await readFile(join(local.dataDir, 'local', 'run.json'), 'utf8'),
  };
  expect(kept.service).not.toMatch(/debugger|inspector/i);
  for (const [where, text] of Object.entries(kept)) {
    expect(text.length, where).toBeGreaterThan(100);
    for (const [canary, secret] of Object.entries(canaries))
      expect(text.includes(secret), `${canary} in ${where}`).toBe(false);
  }
  // On the disk of the service is neither the plaintext, nor an account's private key, nor an API
  // key outside of its file.
  const der = Buffer.from(canaries.accountKey, 'base64');
  for (const file of await readdir(join(local.dataDir, 'local'), { recursive: true, withFileTypes: true })) {
    if (!file.isFile() || file.name === 'secrets.json') continue;
    const bytes = await readFile(join(file.parentPath, file.name));
    for (const secret of [plaintext, password, present(apiKey), canaries.accountKey])
      expect(bytes.includes(secret), file.name).toBe(false);
    expect(bytes.includes(der.subarray(-20)), file.name).toBe(false);
  }
});
