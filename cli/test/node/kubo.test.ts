/** `sealpin start --kubo-api` on a real Kubo: the same path, the same CIDs as the embedded node. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type RealKubo, kuboProgram, noKubo, startKubo } from '../../../testkit/programs/kubo.ts';
import { here, refusal, remove, startHere } from '../local/harness.ts';
import { add, directory, node } from './node-harness.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { first, present } from '../../../testkit/present.ts';

if (kuboProgram() === undefined) {
  test.skip(noKubo);
} else {
  test('the command line stores in a real Kubo with the CIDs of the embedded node, and reads from it', async () => {
    const kubo = await startKubo();
    onTestFinished(() => kubo.close());
    const env = { SEALPIN_KUBO_TOKEN: kubo.token };
    const local = await startHere({ dataDir: await directory(), args: [`--kubo-api=${kubo.url}`], env });
    onTestFinished(() => remove(local));
    const dir = await directory();
    const [input, password, output, car, stored] = ['in', 'password', 'out', 'export.car', 'stored'].map((name) =>
      join(dir, name),
    );
    const bytes = randomBytes(2_500_000);
    await writeFile(present(input), bytes);
    await writeFile(present(password), 'a password of the tests\n');
    const flags = [`--data-dir=${local.dataDir}`];

    const encrypted = await here(['encrypt', present(input), `--password-file=${password}`, ...flags]);
    expect(encrypted).toMatchObject({ code: 0 });
    expect(encrypted.stderr).toContain(
      `sealpin: stored in the Kubo at ${kubo.url}, which has no peers at the moment: once it is connected, ` +
        'anyone with the blob ID can fetch the encrypted bytes\n',
    );
    const cid = encrypted.stdout.trim();
    expect(await kubo.ipfs('pin', 'ls', '--type=recursive', '--names')).toContain(`${cid} recursive sealpin:`);

    const decrypted = await here(['decrypt', cid, present(output), `--password-file=${password}`, ...flags]);
    expect(decrypted).toMatchObject({ code: 0 });
    expect((await readFile(present(output))).equals(bytes)).toBe(true);

    expect(await here(['export', cid, present(car), ...flags])).toMatchObject({ code: 0 });
    // Not pinned by the import: it would be a pin of the user's, which the deletion below leaves
    // alone.
    expect(await kubo.ipfs('dag', 'import', '--enc=json', '--pin-roots=false', '--stats', present(car))).toContain(
      '"BlockCount":4,',
    );
    await kubo.ipfs('get', cid, '-o', present(stored));
    const embedded = await node();
    expect(await add(embedded.url, await readFile(present(stored)))).toBe(cid);

    expect(await here(['delete', cid, ...flags])).toMatchObject({ code: 0 });
    await expect.poll(() => kubo.ipfs('pin', 'ls', '--type=recursive')).not.toContain(cid);
  });

  inCi('a Kubo that is connected is said to be, and another one is not taken for it', async () => {
    const [one, two] = await Promise.all([startKubo({ online: true }), startKubo({ online: true })]);
    onTestFinished(async () => void (await Promise.all([one.close(), two.close()])));
    const { Addresses: addresses } = JSON.parse(await two.ipfs('id')) as { Addresses: string[] };
    await one.ipfs('swarm', 'connect', first(addresses));
    const env = { SEALPIN_KUBO_TOKEN: one.token };
    const local = await startHere({ dataDir: await directory(), args: [`--kubo-api=${one.url}`], env });
    onTestFinished(() => remove(local));
    const flag = `--data-dir=${local.dataDir}`;
    const encrypted = await here(['encrypt', import.meta.filename, '--generate', flag]);
    expect(encrypted.stderr).toContain(`stored in the Kubo at ${one.url}, which has 1 peer: anyone with the blob ID`);
    const status = await here(['status', '--json', flag]);
    expect(JSON.parse(status.stdout)).toMatchObject({ kubo: { url: one.url, status: 'ok', peers: 1 } });
    await local.end();

    expect(await refusal({ dataDir: local.dataDir, args: [`--kubo-api=${two.url}`], env })).toContain(
      `the Kubo at ${two.url} is not the one with your files: its peer ID is 12D3KooW`,
    );
  });

  test.each([
    ['a wrong token', (kubo: RealKubo) => kubo.url, 'wrong', 'refuses the command version (status 403)'],
    [
      'its gateway',
      (kubo: RealKubo) => kubo.gateway,
      'token-of-the-tests',
      'is not the RPC address of a Kubo (status 404)',
    ],
  ])('%s is reported before anything is started', async (_, address, token, message) => {
    const kubo = await startKubo();
    onTestFinished(() => kubo.close());
    const dataDir = await directory();
    const env = { SEALPIN_KUBO_TOKEN: token };
    expect(await refusal({ dataDir, args: [`--kubo-api=${address(kubo)}`], env })).toContain(message);
  });
}
