import { entry } from '../../../testkit/programs/command-line.ts';
/**
 * The recipe "Three teams" of docs/operating.md, run as it stands there: twenty processes, so in
 * the long form only.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import type { AccountList } from '../../../shared/api.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { adminToken, startService } from '../../../testkit/service.ts';
import { temporaryDirectory } from '../environment.ts';
import { long } from '../../../testkit/long-run.ts';
import { client } from '../../../testkit/api-client.ts';

const manual = readFileSync(join(import.meta.dirname, '../../../docs/operating.md'), 'utf8');
const recipe = manual.split(/^## /m).find((section) => section.startsWith('Three teams\n')) ?? '';
const [byOperator = '', byTeam = '', later = '', ...more] = Array.from(
  recipe.matchAll(/^```sh\n(.*?)^```$/gms),
  ([, script]) => script,
);

withProgram('bash', { probe: ['--version'] }, () => {
  test.skipIf(!long)('three teams share a service, and the operator keeps no key of theirs (long form)', async () => {
    expect(more).toEqual([]);
    const service = await startService();
    onTestFinished(() => service.close());
    const dir = await temporaryDirectory();
    const bin = join(dir, 'bin');
    await mkdir(bin);
    await writeFile(join(bin, 'sealpin'), `#!/bin/sh\nexec '${process.execPath}' '${entry}' "$@"\n`, { mode: 0o755 });
    await writeFile(join(dir, 'admin-token.txt'), `${adminToken}\n`);
    for (const team of ['research', 'design', 'press'])
      await writeFile(
        join(dir, `${team}-public.key`),
        'age1tag1qwndfwcq7uahk8styyyq3l6lqcpxvzj6g5xhlza7hf43r5tts0xc7fza0sc\n',
      );
    const shown = (name: string): string => `sealpin account list --json > ${name}.json\n`;
    await promisify(execFile)('bash', ['-eu', '-c', `${byOperator}${shown('made')}${byTeam}${later}${shown('end')}`], {
      cwd: dir,
      env: {
        ...bareEnv(),
        HOME: dir,
        SEALPIN_HOME: join(dir, 'home'),
        SERVICE: service.url,
        PATH: [bin, process.env['PATH']].join(delimiter),
      },
    });

    const accounts = async (name: string): Promise<[string, number | undefined, boolean][]> => {
      const list = JSON.parse(await readFile(join(dir, `${name}.json`), 'utf8')) as AccountList;
      return list.accounts.map(({ label, quotaBytes, disabled }) => [label, quotaBytes, disabled]);
    };
    expect(await accounts('made')).toEqual([
      ['research', 50e9, false],
      ['design', 20e9, false],
      ['press', 10e6, false],
    ]);
    expect(await accounts('end')).toEqual([
      ['research', 50e9, false],
      ['design', 20e9, false],
    ]);
    const holderOf = async (key: string) =>
      client(service.url, (await readFile(join(dir, `${key}-key.txt`), 'utf8')).trim());
    for (const [key, status] of [
      ['research', 401],
      ['press', 401],
      ['design', 200],
      ['backup', 200],
    ] as const)
      expect((await (await holderOf(key)).ask('getAccount')).status, key).toEqual(status);
    const lead = await holderOf('lead');
    const { keys } = await lead.listKeys();
    expect(keys.map(({ label, scopes, limits }) => [label, scopes.length, limits])).toEqual([
      ['research lead', 5, undefined],
      ['nightly backup', 1, { files: 1000, bytes: 40e9 }],
    ]);
    const { account } = await lead.getAccount();
    expect(account.recovery).toMatch(/^age1tag1/);
    expect((await stat(join(dir, 'lead-key.txt'))).mode & 0o777).toBe(0o600);
  });
});
