/** Profiles: services with their keys, and which of all that name a service wins. */
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { contextIn, run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { findService } from '../../remote/service-choice.ts';
import { sharedLocalService } from '../local.ts';

const local = sharedLocalService();
const keyOf = (letter: string): string => `sp_${letter.repeat(71)}`;
let home: string;
beforeEach(async () => {
  home = await temporaryDirectory();
});

const sealpin = (argv: readonly string[], overrides: Overrides = {}): Promise<Ran> =>
  run([...argv, '--data-dir', home], home, overrides);
const login = (...flags: string[]): Promise<Ran> =>
  sealpin(['login', local.url, ...flags], { stdin: `${local.apiKey}\n` });

test('login checks the key, keeps it for its owner alone, and the commands then use the service', async () => {
  const wrong = await sealpin(['login', local.url], { stdin: keyOf('0') });
  expect(wrong).toMatchObject({ exit: 4, stderr: /error: / });
  expect((await sealpin(['profile', 'list', '--json'])).stdout).toBe('{"profiles":[]}\n');
  const ran = await login();
  expect(ran, ran.stderr).toMatchObject({ exit: 0 });
  expect(ran.stderr + ran.stdout).not.toContain(local.apiKey);
  const file = join(home, 'profiles/profiles.json');
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readFile(file, 'utf8')).toContain(local.apiKey);
  await writeFile(join(home, 'letter'), 'Dear Ann');
  expect(await sealpin(['encrypt', 'letter', '--generate', '--quiet'])).toMatchObject({ exit: 0 });
  const status = JSON.parse((await sealpin(['status', '--json'])).stdout) as { remote: object };
  expect(status.remote).toMatchObject({ profile: new URL(local.url).host, service: new URL(local.url).href });
  const listed = await sealpin(['profile', 'list']);
  expect(listed.stdout).toBe(`* ${new URL(local.url).host}  ${new URL(local.url).href}\n`);
});

test('a profile for another service is not replaced without --force, and is forgotten by remove', async () => {
  await mkdir(join(home, 'profiles'));
  const other = { v: 1, profiles: { office: { service: 'https://office.example/', apiKey: keyOf('1') } } };
  await writeFile(join(home, 'profiles/profiles.json'), JSON.stringify(other));
  expect(await login('--name', 'office')).toMatchObject({
    exit: 1,
    stderr: /the profile office is for https:\/\/office/,
  });
  expect(await login('--name', 'office', '--force')).toMatchObject({ exit: 0 });
  expect(await sealpin(['profile', 'use', 'offcie'])).toMatchObject({ exit: 3, stderr: /did you mean office/ });
  expect(await sealpin(['profile', 'use'])).toMatchObject({ exit: 0 });
  expect((await sealpin(['profile', 'list'])).stdout).toMatch(/^ {2}office/);
  expect(await sealpin(['list', '--profile', 'office'])).toMatchObject({ exit: 0 });
  expect(await sealpin(['profile', 'remove', 'office'])).toMatchObject({ exit: 0 });
  expect(await readFile(join(home, 'profiles/profiles.json'), 'utf8')).not.toContain(local.apiKey);
});

test('a second login keeps what the profile has besides its key, unless it is for another service', async () => {
  await mkdir(join(home, 'profiles'));
  const path = join(home, 'profiles/profiles.json');
  const before = (service: string) => ({ service, apiKey: keyOf('1'), sign: true });
  const profiles = { here: before(new URL(local.url).href), office: before('https://office.example/') };
  await writeFile(path, JSON.stringify({ v: 1, profiles }));
  expect(await login('--name', 'here')).toMatchObject({ exit: 0 });
  expect(await login('--name', 'office', '--force')).toMatchObject({ exit: 0 });
  const renewed = { service: new URL(local.url).href, apiKey: local.apiKey };
  const kept = JSON.parse(await readFile(path, 'utf8')) as object;
  expect(kept).toEqual({ v: 1, current: 'office', profiles: { here: { ...renewed, sign: true }, office: renewed } });
});

test('a damaged file of profiles stays as it is', async () => {
  await mkdir(join(home, 'profiles'));
  await writeFile(join(home, 'profiles/profiles.json'), '{');
  expect(await login()).toMatchObject({ exit: 1, stderr: /profiles.json is damaged/ });
  expect(await readFile(join(home, 'profiles/profiles.json'), 'utf8')).toBe('{');
});

test.each([
  { title: '--service', service: 'https://flag.example', profile: undefined, variable: true, key: keyOf('e') },
  { title: '--profile, with its own key', service: undefined, profile: 'b', variable: true, key: keyOf('b') },
  { title: 'SEALPIN_SERVICE', service: undefined, profile: undefined, variable: true, key: keyOf('e') },
  { title: 'the profile in use', service: undefined, profile: undefined, variable: false, key: keyOf('a') },
])('$title comes before what is less specific', async ({ title, service, profile, variable, key }) => {
  await mkdir(join(home, 'profiles'));
  const profiles = {
    a: { service: 'https://a.example/', apiKey: keyOf('a') },
    b: { service: 'https://b.example/', apiKey: keyOf('b') },
  };
  await writeFile(join(home, 'profiles/profiles.json'), JSON.stringify({ v: 1, current: 'a', profiles }));
  const config = { v: 1, service: 'https://config.example', apiKey: keyOf('c') };
  await writeFile(join(home, 'config.json'), JSON.stringify(config));
  await chmod(join(home, 'config.json'), 0o600);
  const env = variable ? { SEALPIN_SERVICE: 'https://variable.example', SEALPIN_API_KEY: keyOf('e') } : {};
  const found = await findService({ ...contextIn(home, { env }), service, profile });
  const hosts: Record<string, string> = {
    '--service': 'flag.example',
    '--profile, with its own key': 'b.example',
    SEALPIN_SERVICE: 'variable.example',
    'the profile in use': 'a.example',
  };
  expect({ host: found.url?.host, apiKey: found.apiKey }).toEqual({ host: hosts[title], apiKey: key });
});

test('the key of a profile goes to its own service only', async () => {
  await login();
  const found = await findService({ ...contextIn(home), service: 'https://elsewhere.example' });
  expect(found.apiKey).toBeUndefined();
  const same = await findService({ ...contextIn(home), service: local.url });
  expect(same.apiKey).toBe(local.apiKey);
});
