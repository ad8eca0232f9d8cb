/** `sealpin start --kubo-api` on a real Kubo: the same path, the same CIDs as the embedded node. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { kuboProgram, noKubo, startKubo } from '../../../worker/test/pinning/real.ts';
import { remove, sealpin, startLocal } from '../local/harness.ts';
import { add, directory, node } from './harness.ts';

if (kuboProgram() === undefined) {
  test.skip(noKubo);
} else {
  test('the command line stores in a real Kubo, which has the CIDs of the embedded node, and reads from it', async () => {
    const kubo = await startKubo();
    onTestFinished(() => kubo.close());
    const local = await startLocal({ args: [`--kubo-api=${kubo.url}`], env: { SEALPIN_KUBO_TOKEN: kubo.token } });
    onTestFinished(() => remove(local));
    const dir = await directory();
    const [input, password, output, car, stored] = ['in', 'password', 'out', 'export.car', 'stored'].map((name) =>
      join(dir, name),
    );
    const bytes = randomBytes(2_500_000);
    await writeFile(input!, bytes);
    await writeFile(password!, 'a password of the tests\n');
    const flags = [`--data-dir=${local.dataDir}`];

    const encrypted = await sealpin(['encrypt', input!, `--password-file=${password}`, ...flags]);
    expect(encrypted).toMatchObject({ code: 0 });
    const cid = encrypted.stdout.trim();
    expect(await kubo.ipfs('pin', 'ls', '--type=recursive', '--names')).toContain(`${cid} recursive sealpin:`);

    const decrypted = await sealpin(['decrypt', cid, output!, `--password-file=${password}`, ...flags]);
    expect(decrypted).toMatchObject({ code: 0 });
    expect((await readFile(output!)).equals(bytes)).toBe(true);

    expect(await sealpin(['export', cid, car!, ...flags])).toMatchObject({ code: 0 });
    // Not pinned by the import: it would be a pin of the user's, which the deletion below leaves alone.
    expect(await kubo.ipfs('dag', 'import', '--enc=json', '--pin-roots=false', '--stats', car!)).toContain(
      '"BlockCount":4,',
    );
    await kubo.ipfs('get', cid, '-o', stored!);
    const embedded = await node();
    expect(await add(embedded.url, await readFile(stored!))).toBe(cid);

    expect(await sealpin(['delete', cid, ...flags])).toMatchObject({ code: 0 });
    await expect.poll(() => kubo.ipfs('pin', 'ls', '--type=recursive')).not.toContain(cid);
  });

  test.runIf(process.env['SEALPIN_LONG'] === '1')(
    'a wrong token of the Kubo is told, and nothing is stored',
    async () => {
      const kubo = await startKubo();
      onTestFinished(() => kubo.close());
      await expect(
        startLocal({ args: [`--kubo-api=${kubo.url}`], env: { SEALPIN_KUBO_TOKEN: 'wrong' } }).then((local) => {
          onTestFinished(() => remove(local));
          return sealpin([
            'encrypt',
            new URL(import.meta.url).pathname,
            'a long password of the tests',
            `--data-dir=${local.dataDir}`,
          ]);
        }),
      ).resolves.toMatchObject({ code: 1, stdout: '' });
      expect(await kubo.ipfs('pin', 'ls', '--type=recursive', '--names')).not.toContain('sealpin');
    },
  );
}
