/** Backups of a service that limits requests, and whose accounts change meanwhile. */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { faultyProxy } from '../../testkit/faulty-proxy.ts';
import { AccountList, NewAccountResponse } from '../../shared/api.ts';
import { adminToken, restoreToken, startService, type Service } from '../../testkit/service.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { operatorApi, type OperatorApi } from '../operator-api.ts';
import { Manifest, backup } from '../service-backup.ts';
import { restore } from '../service-restore.ts';
import { newFolder, processWith } from './deployment.ts';
import * as v from 'valibot';
import { inCi } from '../../testkit/long-run.ts';

let first: Service;
let second: Service;
beforeAll(async () => {
  [first, second] = await Promise.all([
    startService({ vars: { SERVICE_ID: 'busy' } }),
    startService({ vars: { SERVICE_ID: 'busy' } }),
  ]);
});
afterAll(() => Promise.all([first.close(), second.close()]));

const accountsIn = async (dir: string): Promise<string[]> =>
  v.parse(Manifest, JSON.parse(await readFile(join(dir, 'backup.json'), 'utf8'))).accounts;

/** The service behind what refuses every other request until it is sent again. */
async function limited(service: Service): Promise<string> {
  const problem = {
    type: 'about:blank',
    title: 'Too many requests',
    status: 429,
    code: 'rate_limited',
    requestId: 'x',
  };
  const answer = {
    kind: 'answer',
    status: 429,
    headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
    body: JSON.stringify(problem),
  } as const;
  return (
    await faultyProxy(
      () => service.url,
      (_, before) => (before.length % 2 === 0 ? answer : undefined),
    )
  ).url;
}

test('requests that the service refuses for a while are sent again', async () => {
  const { account } = await first.account();
  const dir = join(await temporaryDirectory(), 'backup');
  const context = processWith(await newFolder(), {});
  const from = await limited(first);
  expect(await backup(operatorApi(from, adminToken, context), from, dir, context)).toBe(0);
  expect(await accountsIn(dir)).toContain(account.id);
  expect(context.lines).toContain('  too many requests: trying again in 1 s …');
  const to = await limited(second);
  expect(await restore(operatorApi(to, adminToken, { restoreToken, ...context }), dir, context)).toBe(0);
  expect(context.lines).toContain(`✓ ${account.id}`);
});

test('a signal ends no request that makes something, whose response has the only key of it', async () => {
  const ending = new AbortController();
  const api = operatorApi(first.url, adminToken, { signal: ending.signal });
  const make = () => api.post('/v1/operator/accounts', JSON.stringify({ label: 'made' }), NewAccountResponse);
  const made = make();
  const listed = api.get('/v1/operator/accounts', AccountList);
  ending.abort(new Error('ended by the user'));
  await expect(listed).rejects.toThrow('ended by the user');
  expect((await made).apiKey).toMatch(/^sp_/);
  await expect(make()).rejects.toThrow('ended by the user');
});

inCi('a response that breaks off is asked for again, and nothing that changes something is sent twice', async () => {
  const { account } = await first.account();
  const paths: string[] = [];
  const { url, passed } = await faultyProxy(
    () => first.url,
    ({ path, method }) => {
      if (method === 'GET' && paths.includes(path)) return undefined;
      paths.push(path);
      return { kind: 'cut', afterBytes: 2 };
    },
  );
  const dir = join(await temporaryDirectory(), 'backup');
  const context = processWith(await newFolder(), {});
  const api = operatorApi(url, adminToken, context);
  expect(await backup(api, url, dir, context)).toBe(0);
  expect(await accountsIn(dir)).toContain(account.id);
  expect(context.lines).toContain(`  ${url} stopped in the middle of its response: trying again …`);
  const changing = passed.length;
  for (const method of ['post', 'put'] as const)
    await expect(api[method]('/v1/operator/accounts', '{}', AccountList)).rejects.toMatchObject({
      code: 'service_unreachable',
      reason: 'broken_off',
    });
  expect(passed.slice(changing).map(({ method }) => method)).toEqual(['POST', 'PUT']);
});

test('an account that is deleted meanwhile is left out, and the others are backed up', async () => {
  const accounts = [await first.account(), await first.account(), await first.account()].map(
    ({ account }) => account.id,
  );
  const api = operatorApi(first.url, adminToken);
  const [, removed = ''] = accounts;
  const changing: OperatorApi = {
    ...api,
    async get(path, shape) {
      if (path.startsWith(`/v1/operator/accounts/${removed}/`))
        await fetch(`${first.url}/v1/operator/accounts/${removed}`, {
          method: 'DELETE',
          headers: { Authorization: `Bearer ${adminToken}` },
        });
      return await api.get(path, shape);
    },
  };
  const dir = join(await temporaryDirectory(), 'backup');
  const context = processWith(await newFolder(), {});
  expect(await backup(changing, first.url, dir, context)).toBe(0);
  const kept = await accountsIn(dir);
  expect(accounts.filter((id) => !kept.includes(id))).toEqual([removed]);
  expect(context.lines).toContain(`– ${removed} was deleted`);
  expect((await readdir(dir)).filter((name) => name.startsWith(removed))).toEqual([]);
});

test('an interruption ends the wait', async () => {
  const answer = { kind: 'answer', status: 503, headers: { 'Retry-After': '250' } } as const;
  const { url } = await faultyProxy(
    () => first.url,
    () => answer,
  );
  const stop = new AbortController();
  const context = processWith(await newFolder(), {});
  const print = (): void => stop.abort(new Error('interrupted'));
  const running = backup(
    operatorApi(url, adminToken, { signal: stop.signal, print }),
    url,
    join(await temporaryDirectory(), 'x'),
    context,
  );
  await expect(running).rejects.toThrow('interrupted');
});
