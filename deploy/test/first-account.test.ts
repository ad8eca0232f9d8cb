/** The first account of a service that was set up, against the service itself. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { adminToken, startService, type Service } from '../../testkit/service.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { firstAccount } from '../first-account.ts';
import { operatorApi, type OperatorApi } from '../operator-api.ts';
import { refusal } from './deployment.ts';

let service: Service;
let api: OperatorApi;
beforeAll(async () => {
  service = await startService();
  api = operatorApi(service.url, adminToken);
});
afterAll(() => service.close());

const nobody = () => Promise.resolve(undefined);

/** What is printed. */
async function made(
  apiKeyFile: string,
  account?: string,
  ask: () => Promise<string | undefined> = nobody,
): Promise<string[]> {
  const lines: string[] = [];
  await firstAccount(api, { account, apiKeyFile }, ask, { print: (line) => void lines.push(line) });
  return lines;
}

test('the first account is made once, with its key in a file that only its owner reads', async () => {
  const path = join(await temporaryDirectory(), 'key.txt');
  // Nobody says what it is called.
  for (const ask of [nobody, () => Promise.resolve('')])
    expect(await made(path, undefined, ask)).toEqual([expect.stringContaining('npm run setup -- --account <label>')]);

  await writeFile(path, 'something else');
  expect(await refusal(made(path, 'research'))).toEqual([
    'usage',
    `${path} exists, and stays as it is`,
    'name another file with --api-key-file',
  ]);
  const nowhere = join(path, 'below');
  expect(await refusal(made(nowhere, 'research'))).toEqual([
    'usage',
    `${nowhere} cannot be made (ENOTDIR)`,
    'name another file with --api-key-file',
  ]);
  // A label that the service refuses leaves no file behind.
  const key = `${path}.2`;
  expect((await refusal(made(key, 'x'.repeat(101))))[0]).toBe('invalid_request');

  const [line] = await made(key, undefined, () => Promise.resolve('research'));
  const apiKey = (await readFile(key, 'utf8')).trim();
  expect([line?.includes(key), line?.includes(apiKey), (await stat(key)).mode & 0o777]).toEqual([true, false, 0o600]);
  const about = await fetch(`${service.url}/v1/account`, { headers: { Authorization: `Bearer ${apiKey}` } });
  expect(await about.json()).toMatchObject({ account: { label: 'research' } });

  expect(await made(`${path}.3`, 'press')).toEqual([expect.stringContaining('sealpin account create makes more')]);
  expect(await made(`${path}.3`)).toEqual([]);
});
