/**
 * The examples of worker/README.md, and those of the operator's routes in docs/operating.md, run in
 * their order.
 */
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { eventDays, maxSignedSeconds, receiptDays, usageDays, type BackupPage } from '../../../shared/api.ts';
import { generateKeyPair, newAccountId, open, parseIdentities } from '../../../shared/crypto/index.ts';
import { carHeader, carSection, cidOf, sha256 } from '../../../shared/ipfs/index.ts';
import { concat } from '../../../shared/streams/concat.ts';
import type { Route } from '../../openapi/route.ts';
import { routes } from '../../routes/table.ts';
import { bytesOf, client } from '../../../testkit/api-client.ts';
import { programPath } from '../../../testkit/programs/programs.ts';
import { startNode } from '../../../testkit/node.ts';
import { adminToken, metricsToken, restoreToken, rpcToken, startService } from '../../../testkit/service.ts';
import { present } from '../../../testkit/present.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';

function has(program: string): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

// sign-url.py needs a package that Debian's own Python may lack.
const python = programPath('cryptography-python');
const runnable = has('curl') && has('bash') && python !== undefined;
if (!runnable && process.env['SEALPIN_REQUIRE_ALL'] === '1')
  throw new Error('curl, bash and .ci/cryptography are needed');

const read = (path: string): string => readFileSync(join(import.meta.dirname, '../../..', path), 'utf8');
const api = read('worker/README.md');
const operating = /^## The operator's routes\n.*?(?=^## )/ms.exec(read('docs/operating.md'))?.[0] ?? '';
/** What comes first on the page: all that most programs need. */
const [, , firstScreen = ''] = /^```sh\n(.*?)^```.*?^```sh\n(.*?)^```$/ms.exec(api) ?? [];

/**
 * The routes in the table of a manual: `METHOD path: access`, without HEAD. `…/x` abbreviates a
 * path beside the one before.
 */
function listedRoutes(text: string): string[] {
  return [...text.matchAll(/^\| (\[`[A-Z].*?) \| (.*?) \|/gm)].flatMap(([, calls = '', who = '']) => {
    const scopes = [...who.matchAll(/`(\w+)`/g)].map(([, scope]) => scope);
    const access = scopes.length > 0 ? scopes.join(' ') : (/operator|key\b/.exec(who)?.[0] ?? 'anybody');
    const found: string[] = [];
    let methods: string[] = [];
    for (const [, method, path, sibling] of calls.matchAll(/`(?:([A-Z]+)(?: (\/[^`]+))?|…(\/[^`]+))`/g)) {
      if (method !== undefined) methods.push(method);
      if (path === undefined && sibling === undefined) continue;
      const previous = found.at(-1)?.split(/[: ]+/) ?? [];
      if (sibling !== undefined) found.push(`${previous[0]} ${previous[1]?.replace(/\/[^/]+$/, sibling)}: ${access}`);
      else for (const each of methods) if (each !== 'HEAD') found.push(`${each} ${path}: ${access}`);
      methods = [];
    }
    return found;
  });
}

it.each([
  ['worker/README.md', api, false],
  ['docs/operating.md', operating, true],
])('%s lists every route of its readers with its access, and no other', (_, manual, isOperators) => {
  const access = (route: Route): string => {
    if (route.who === 'key') return [...(route.scopes ?? ['key']), ...(route.instead ?? [])].join(' ');
    if (route.who === 'monitor') return 'METRICS_TOKEN';
    return route.who === 'operator' ? 'operator' : 'anybody';
  };
  expect(listedRoutes(manual).toSorted()).toEqual(
    routes
      .filter(({ method, path }) => method !== 'head' && path.startsWith('/v1/operator/') === isOperators)
      .map((route) => `${route.method.toUpperCase()} ${route.path}: ${access(route)}`)
      .toSorted(),
  );
});

it.each([
  [`The receipt can be fetched for ${receiptDays} days.`],
  [`- **${eventDays} days.** A cursor after which events`],
  [`What each API key used on a day of UTC, for ${usageDays} days`],
  [`at most ${maxSignedSeconds / 86_400} days ahead`],
])('the manual says what is kept: %s', (sentence) => {
  expect(api).toContain(sentence);
});

it.skipIf(!runnable)('the first screen stores, reads, lists, shares and deletes in five calls of curl', async () => {
  expect(api.indexOf(firstScreen)).toBeLessThan(1500);
  const dir = mkdtempSync(join(tmpdir(), 'sealpin-first-'));
  const service = await startService();
  try {
    const { apiKey } = await service.account();
    writeFileSync(join(dir, 'key.txt'), `Authorization: Bearer ${apiKey}\n`);
    writeFileSync(join(dir, 'report.pdf'), randomBytes(3000));
    service.log.length = 0;
    const env = { PATH: process.env['PATH'], SERVICE: service.url };
    await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', firstScreen], { cwd: dir, env });
    expect(readFileSync(join(dir, 'report.copy'))).toEqual(readFileSync(join(dir, 'report.pdf')));
    const seen = service.log.map((line) => JSON.parse(line) as { event: string; method: string; status: number });
    const requests = seen.filter(({ event }) => event === 'request').map(({ method, status }) => `${method} ${status}`);
    expect(requests).toEqual(['POST 201', 'GET 200', 'GET 200', 'POST 201', 'DELETE 200']);
  } finally {
    await service.close();
    rmSync(dir, { recursive: true, force: true });
  }
});

(ci ? it.skipIf(!runnable) : inCi)(
  'every example of the manual works, and every route has one (needs curl, bash and .ci/cryptography)',
  async () => {
    const dir = mkdtempSync(join(tmpdir(), 'sealpin-readme-'));
    const node = await startNode({ dir: join(dir, 'ipfs'), token: rpcToken });
    const old = await startNode({ dir: join(dir, 'old'), token: rpcToken });
    const entry = (id: string, { url }: { url: string }) => ({ id, type: 'kubo', url, tokenSecret: 'KUBO_TOKEN' });
    const PINNING_SERVICES = JSON.stringify([entry('node', node), entry('old', old)]);
    const service = await startService({ node, vars: { PINNING_SERVICES } });
    try {
      const pair = await generateKeyPair();
      const { account, apiKey } = await client(service.url, adminToken).createAccount({
        label: 'x',
        recovery: pair.recipient,
      });
      const call = client(service.url, apiKey);
      const recoveryText = async (): Promise<string> => {
        const bytes = await bytesOf(call.ask('getRecoveryFile', { id: account.id }));
        const recovery = await open(new Blob([bytes]).stream());
        if (recovery.kind !== 'age') throw new Error(recovery.kind);
        return await new Response(await recovery.decrypt(parseIdentities(pair.privatePem))).text();
      };
      const report = randomBytes(300_000);
      writeFileSync(join(dir, 'report.pdf'), report);
      const cid = cidOf('raw', await sha256(report));
      writeFileSync(join(dir, 'report.car'), concat(carHeader(), carSection(cid, report.length), report));
      cpSync(join(import.meta.dirname, '../../../docs/clients/sign-url.py'), join(dir, 'sign-url.py'));
      writeFileSync(join(dir, '.curlrc'), 'fail-with-body\n');
      const file = await call.store('encrypted', report, { filename: 'report.pdf' });
      const spare = await call.createKey({ label: 'spare', scopes: ['write'] });
      // An account of before, of which nothing is left here.
      const lost = newAccountId();
      const page = await client(service.url, adminToken).backUpAccount({ id: account.id });
      const lostPage: BackupPage = { ...page, accountId: lost, keys: [], files: [] };
      writeFileSync(join(dir, 'lost-page.json'), JSON.stringify(lostPage));
      service.log.length = 0;

      const env = {
        ...process.env,
        PATH: `${dirname(python ?? '')}:${process.env['PATH'] ?? ''}`,
        CURL_HOME: dir,
        SERVICE: service.url,
        ADMIN_TOKEN: adminToken,
        METRICS_TOKEN: metricsToken,
        RESTORE_TOKEN: restoreToken,
        KEY: apiKey,
        ACCOUNT: account.id,
        LOST_ACCOUNT: lost,
        FILE: file.fileId,
        CID: file.cid,
        KEY_ID: spare.key.id,
      };
      for (const [, script] of `${api}\n${operating}`.matchAll(/^```sh\n(.*?)^```$/gms)) {
        // Another example has replaced the recovery file.
        if (script?.includes('recover.json') === true)
          writeFileSync(join(dir, 'recover.json'), JSON.stringify({ privateKey: await recoveryText() }));
        await promisify(execFile)('bash', ['-eu', '-c', present(script)], { cwd: dir, env }).catch(
          (error: { stdout?: string; stderr?: string }) => {
            throw new Error(`${script}\n${error.stdout}\n${error.stderr}`);
          },
        );
      }
      expect(Buffer.compare(readFileSync(join(dir, 'report.copy')), report)).toBe(0);
      expect(Buffer.compare(readFileSync(join(dir, 'report.start')), report.subarray(0, 100))).toBe(0);
      expect(existsSync(join(dir, 'report.sealpin'))).toBe(true);
      // Other users can see arguments: no key stands in one, and the files that hold keys are
      // closed to them.
      const commands = [...`${api}\n${operating}`.matchAll(/\bcurl\b(?:[^\n`]|\\\n)*/g)].map(([command]) => command);
      expect(commands.length).toBeGreaterThan(20);
      expect(commands.filter((command) => /Bearer|\$\{?(KEY|[A-Z]+_TOKEN)\b/.test(command))).toEqual([]);
      for (const name of ['key.txt', 'operator.txt']) expect(statSync(join(dir, name)).mode & 0o777).toBe(0o600);

      const seen = service.log
        .map((line) => JSON.parse(line) as { event: string; method: string; route: string; status: number })
        .filter((line) => line.event === 'request');
      expect(seen.filter((line) => line.status >= 300)).toEqual([]);
      const shown = new Set(seen.map((line) => `${line.method.toLowerCase()} ${line.route}`));
      // The responses to OPTIONS are all the same.
      const needed = routes.filter(({ method, path }) => method !== 'options' || path === '/v1/uploads');
      expect(needed.map((each) => `${each.method} ${each.path}`).filter((each) => !shown.has(each))).toEqual([]);
    } finally {
      await service.close();
      await node.close();
      await old.close();
      rmSync(dir, { recursive: true, force: true });
    }
  },
);
