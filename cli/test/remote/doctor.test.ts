/** `doctor` and `events`: what they see, and what they say of it. */
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SealpinError } from '../../../shared/errors.ts';
import { loadSecrets, makeLocal } from '../../local/state.ts';
import { run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { account, health, hostile, json, someApiKey } from '../hostile.ts';
import { itemOf } from '../../../testkit/present.ts';

const env = { SEALPIN_API_KEY: someApiKey };
type Routes = Parameters<typeof hostile>[0];

async function doctor(routes: Routes, directory: string, overrides: Overrides = {}): Promise<Ran> {
  const { url } = await hostile({ 'GET /v1/health': health(), ...routes });
  return run(['doctor', '--service', url, '--data-dir', 'home'], directory, { env, ...overrides });
}

describe('doctor', () => {
  test.each([
    { ms: 3_600_000, says: 'wrong  clock     60 minutes ahead of that of the service', exit: 1 },
    { ms: -600_000, says: 'wrong  clock     10 minutes behind that of the service', exit: 1 },
    { ms: 60_000, says: 'ok     clock     as that of the service', exit: 0 },
  ])('compares the clock with that of the service: $ms', async ({ ms, says, exit }) => {
    const ran = await doctor({}, await temporaryDirectory(), { now: () => Date.now() + ms });
    expect(ran, ran.stderr).toMatchObject({ exit });
    expect(ran.stdout).toContain(says);
  });

  test('sees halves of different pairs, and settings that cannot be read', async () => {
    const directory = await temporaryDirectory();
    for (const home of ['home', 'other']) await run(['keygen', '--quiet', '--data-dir', home], directory);
    const shown = async (): Promise<string> => (await doctor({}, directory)).stdout;
    expect(await shown()).toContain('ok     key pair  there, and both halves belong together');
    const other = (await run(['keygen', '--quiet', '--output', 'third'], directory)).stdout;
    await writeFile(join(directory, 'home/public.key'), other);
    const ran = await doctor({}, directory);
    expect(ran.stdout).toContain('wrong  key pair  ');
    expect(ran.stdout).toContain('is not the public half of private.key');
    expect(ran.exit).toBe(2);
    await writeFile(join(directory, 'home/config.json'), '{"v": 1,');
    expect(await shown()).toContain('wrong  settings  ');
  });

  test.each([
    { subject: 'settings', path: 'config.json' },
    { subject: 'settings', path: 'profiles/profiles.json' },
    { subject: 'key pair', path: 'private.key' },
    { subject: 'key pair', path: 'public.key' },
  ])('names $path in the data directory where the system does not give it, and goes on', async ({ subject, path }) => {
    const directory = await temporaryDirectory();
    await run(['keygen', '--quiet', '--data-dir', 'home'], directory);
    const whole = join(directory, 'home', path);
    await rm(whole, { force: true });
    await mkdir(whole, { recursive: true });
    const looked = async (): Promise<void> => {
      const { stdout, stderr, exit } = await doctor({}, directory);
      expect(stdout, stderr).toContain(`wrong  ${subject.padEnd(8)}  `);
      expect(stdout).toContain(whole);
      expect(stdout).toMatch(/^(?:ok   |wrong)  service /m);
      expect(exit).toBeGreaterThan(0);
    };
    await looked();
    await rm(whole, { recursive: true });
    // Nobody but root can read it.
    await writeFile(whole, '', { mode: 0 });
    if (process.getuid?.() !== 0) await looked();
  });

  test('names a data directory that the system does not give, and goes on', async () => {
    const directory = await temporaryDirectory();
    await symlink('loop', join(directory, 'loop'));
    const looped = await run(['doctor', '--data-dir', 'loop/home'], directory, { env });
    expect(looped.stdout).toMatch(/^wrong  data .*loop\/home cannot be read: symbolic link loop$/m);
    expect(looped.stdout).toMatch(/^wrong  service /m);
  });

  test('goes on after each fault, and says of a service that does not answer nothing but that', async () => {
    const directory = await temporaryDirectory();
    const { url } = await hostile({ '': (request) => request.socket.destroy() });
    const ran = await run(['doctor', '--service', url, '--json'], directory, {
      env: { ...env, SEALPIN_HOME: directory },
    });
    const { findings } = JSON.parse(ran.stdout) as { findings: { subject: string; state: string; code?: string }[] };
    expect(findings.map(({ subject }) => subject)).toEqual(['data', 'settings', 'key pair', 'service']);
    expect(itemOf(findings, -1)).toMatchObject({ state: 'wrong', code: 'service_unreachable' });
    expect(ran.exit).toBe(6);
  });

  test('says of a local service that does not run how to start it, and elsewhere how to get one', async () => {
    const directory = await temporaryDirectory();
    const shown = async (): Promise<string> => (await run(['doctor', '--data-dir', 'home'], directory)).stdout;
    expect(await shown()).toMatch(/wrong {2}service .*\n *-> log in to one with: sealpin login/);
    const home = join(directory, 'home');
    await makeLocal(home);
    await loadSecrets(home);
    expect(await shown()).toMatch(
      /wrong {2}service .* is not running\n *-> start it with: sealpin start --data-dir '.*home'; or/,
    );
  });

  test('says how full an account is', async () => {
    const routes: Routes = {
      'GET /v1/account': (request, response) => {
        const answer = {
          writeHead: () => answer,
          end: (text: string) =>
            json(response, 200, { ...(JSON.parse(text) as object), usage: { files: 1, bytes: 95 }, quotaBytes: 100 }),
        };
        account()(request, answer as never);
      },
    };
    expect((await doctor(routes, await temporaryDirectory())).stdout).toContain(
      'note   API key   95 B of 100 B are used',
    );
  });
});

describe('events', () => {
  const event = (id: string): object => ({ id, time: '2026-01-02T03:04:05.000Z', action: 'file.stored' });

  test('follow one another in pages, and with --follow are waited for from where they ended', async () => {
    const pages = [
      { events: [event('1'), event('2')], cursor: '2', more: true },
      { events: [event('3')], cursor: '3', more: false },
      { events: [], cursor: '3', more: false },
    ];
    const stop = new AbortController();
    let asked = 0;
    const service = await hostile({
      'GET /v1/events': (_request, response) => {
        json(response, 200, pages[Math.min(asked, 2)]);
        asked += 1;
        if (asked === 3) stop.abort(new SealpinError('interrupted', 'interrupted by SIGINT'));
      },
    });
    const ran = await run(['events', '--follow', '--json', '--service', service.url], '/', {
      env,
      signal: stop.signal,
    });
    expect(ran.exit).toBe(130);
    const ids = ran.stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { id: string }).id);
    expect(ids).toEqual(['1', '2', '3']);
    expect(service.seen.map(({ url }) => new URL(url, 'http://h').searchParams.get('after'))).toEqual([null, '2', '3']);
  });

  test('of a service whose list does not end are refused', async () => {
    const service = await hostile({
      'GET /v1/events': (_request, response) => json(response, 200, { events: [event('1')], cursor: '1', more: true }),
    });
    const ran = await run(['events', '--service', service.url], '/', { env });
    expect(ran).toMatchObject({ exit: 6 });
    expect(ran.stderr).toContain('never ends');
  });
});
