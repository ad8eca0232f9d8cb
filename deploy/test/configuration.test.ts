/** The configuration of a deployment: what is found wrong with it, and how setup changes it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { bareEnv } from '../../testkit/run-cache.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { codes, SealpinError } from '../../shared/errors.ts';
import { faultIn, faultsOf, neededSecrets, readConfiguration } from '../configuration.ts';
import { editConfiguration } from '../edit-configuration.ts';
import { failure } from '../finding.ts';
import { newConfiguration } from '../new-configuration.ts';
import { parseOptions, usage } from '../options.ts';
import { newFolder, refusal } from './deployment.ts';

const kubo = (url: string, more = {}) =>
  JSON.stringify([{ id: 'kubo', type: 'kubo', url, tokenSecret: 'KUBO_TOKEN', ...more }]);
const complete = {
  name: 'sealpin',
  accountId: undefined,
  kvId: undefined,
  domain: undefined,
  vars: { PINNING_SERVICES: kubo('https://kubo.acme.org') },
  buckets: [],
};
const whats = (vars: Record<string, string>): string[] =>
  faultsOf({ ...complete, vars: { ...complete.vars, ...vars } }).map(({ what }) => what);

describe('the configuration', () => {
  test('as it is shipped lacks the place for bytes only', async () => {
    const { config } = await newFolder();
    const shipped = readConfiguration(config);
    expect(shipped).toMatchObject({ name: 'sealpin', kvId: undefined, domain: undefined });
    expect(faultsOf(shipped)).toEqual([
      {
        what: 'BACKENDS has the placeholder https://kubo.example.com/',
        todo: expect.stringContaining('npm run setup'),
      },
    ]);
    expect(neededSecrets(shipped)).toEqual(['ADMIN_TOKEN', 'KUBO_TOKEN']);
    expect(faultsOf(complete)).toEqual([]);
  });

  test.each([
    [{ PINNING_SERVICES: '' }, 'BACKENDS is not JSON'],
    [{ PINNING_SERVICES: kubo('ftp://kubo.acme.org') }, 'url must be an http: or https: address'],
    [{ PINNING_SERVICES: kubo('https://ipfs.test') }, 'placeholder https://ipfs.test/'],
    [{ PINNING_SERVICES: kubo('http://kubo.acme.org') }, 'sends the token in the clear'],
    [{ PINNING_SERVICES: kubo('https://kubo.acme.org', { type: 'disk' }) }, 'type must be one of'],
    [{ PINNING_SERVICES: kubo('https://kubo.acme.org', { tokenSecret: 'ADMIN_TOKEN' }) }, 'the secret ADMIN_TOKEN has'],
    [{ REPLICAS: '2' }, 'REPLICAS is 2, and there are 1 backends'],
    [{ REPLICAS: 'two' }, 'REPLICAS is not a whole number'],
    [{ SERVICE_ID: 'a b' }, 'SERVICE_ID is not'],
    [{ MAX_UPLOAD_BYTES: '95 MiB' }, 'MAX_UPLOAD_BYTES is not'],
    [{ MAX_FILE_BYTES: '0' }, 'MAX_FILE_BYTES is not'],
    [{ UPLOAD_IDLE_SECONDS: '-1' }, 'UPLOAD_IDLE_SECONDS is not'],
    [{ RECOVERY_DAYS: 'x' }, 'RECOVERY_DAYS is not'],
    [{ BACKUP_DAYS: '3651' }, 'BACKUP_DAYS is not'],
    [{ SHARE_MAX_OPENS: 'x' }, 'SHARE_MAX_OPENS is not'],
    [{ KEY_LIMIT_POLICY: '600/30' }, 'KEY_LIMIT_POLICY is not'],
    [{ ADDRESS_LIMIT_POLICY: '60' }, 'ADDRESS_LIMIT_POLICY is not'],
    [{ PUBLIC_GATEWAY: 'yes' }, 'PUBLIC_GATEWAY is neither on nor off'],
    [{ CORS_ORIGINS: 'https://app.acme.org/' }, 'which is not an origin'],
  ])('with %o is refused', (vars: Record<string, string>, what) => {
    expect(whats(vars)).toEqual([expect.stringContaining(what)]);
  });

  test.each(['wrangler.toml', 'wrangler.jsonc', 'wrangler.TOML', 'wrangler.toml.staging', 'wrangler'])(
    'in a form that cannot be changed is as before: %s',
    async (name) => {
      const path = join(await temporaryDirectory(), name);
      const text = '{ "name": "of a form that setup does not write" }\n';
      await writeFile(path, text);
      await editConfiguration(path, { name: 'sealpin-other', domain: 'files.acme.org' }).catch(() => undefined);
      expect(await readFile(path, 'utf8')).toBe(text);
      expect(await readdir(dirname(path))).toEqual([name]);
    },
  );

  test('with a bucket is complete with its binding, and not without', async () => {
    const { config } = await newFolder();
    const backends = [{ id: 'r2', type: 'r2', binding: 'FILES' }];
    await editConfiguration(config, { backends });
    expect(faultsOf(readConfiguration(config))).toEqual([
      {
        what: 'there is no binding FILES in wrangler.toml',
        todo: expect.stringMatching(/^add \[\[r2_buckets\]\] with binding = "FILES"/),
      },
    ]);
    await editConfiguration(config, { backends, bucket: { binding: 'FILES', bucket: 'ours' } });
    expect(faultsOf(readConfiguration(config))).toEqual([]);
    expect(neededSecrets(readConfiguration(config))).toEqual(['ADMIN_TOKEN']);
  });

  test.each(['not json', '[]', '5', 'null', '{}', '[1]', '[{}]', '[{"id":"a"}]', '[{"type":"kubo"}]'])(
    'with the list %s is refused, and its operator is not sent to anybody else',
    (BACKENDS) => {
      const faults = faultsOf({ ...complete, vars: { BACKENDS, MAX_FILE_BYTES: 'all' } });
      expect(faults.map(({ what }) => what)).toEqual([
        expect.stringMatching(/^BACKENDS/),
        expect.stringMatching(/^MAX_/),
      ]);
      for (const { todo } of faults) expect(todo).toContain('docs/operating.md');
    },
  );

  test.each(codes)('no advice for clients of the API stands below an error: %s', (code) => {
    expect(failure(new SealpinError(code), 'do this')).toMatchObject({ ok: false, todo: 'do this' });
    expect(failure(new SealpinError(code, 'x', { hint: 'do that' }), 'do this')).toMatchObject({ todo: 'do that' });
    expect(
      faultIn(() => {
        throw new SealpinError(code);
      }),
    ).toMatchObject([{ todo: expect.stringContaining('docs/operating.md') }]);
  });

  test('with both lists is refused, and names the one in use', () => {
    expect(whats({ BACKENDS: kubo('https://kubo.acme.org') })).toEqual(['BACKENDS and PINNING_SERVICES are both set']);
    const list = kubo('http://kubo.acme.org');
    expect(whats({ PINNING_SERVICES: '', BACKENDS: list })).toEqual([expect.stringMatching(/^BACKENDS has http:/)]);
  });

  test('with a placeholder for KV or a name that no Worker has is refused', () => {
    expect(faultsOf({ ...complete, kvId: '0'.repeat(32), name: 'My Worker' }).map(({ what }) => what)).toEqual([
      'name is not 1 to 63 of a-z, 0-9 and -',
      'the id of the KV namespace is a placeholder',
    ]);
  });

  test.each([
    ['that wrangler cannot read', () => 'name = \n'],
    ['with a list for a text', (text: string) => text.replace(/^CORS_ORIGINS = .*/m, 'CORS_ORIGINS = ["*"]')],
  ])('%s is refused', async (_, change) => {
    const { config, write } = await newFolder();
    await write(change);
    expect(await refusal(() => readConfiguration(config))).toEqual([
      'misconfigured',
      expect.stringContaining(config),
      expect.stringContaining('fresh checkout'),
    ]);
  });
});

describe('setup writes the configuration', () => {
  const backends = [{ id: 'kubo', type: 'kubo', url: "https://kubo.acme.org/it's", tokenSecret: 'KUBO_TOKEN' }];
  const changes = { name: 'files', domain: 'files.acme.org', backends };

  test('with its comments, and once', async () => {
    const folder = await newFolder();
    await folder.write((text) => text.replace('binding = "API_KEYS"', `$&\nid = "${'0'.repeat(32)}"`));
    const before = await folder.read();
    expect(await editConfiguration(folder.config, changes)).toBe(true);
    const written = readConfiguration(folder.config);
    expect(written).toMatchObject({ name: 'files', domain: 'files.acme.org', kvId: undefined });
    expect(JSON.parse(written.vars['BACKENDS'] ?? '')).toEqual(backends);
    const comments = (text: string) => text.split('\n').filter((line) => line.startsWith('#'));
    expect(comments(await folder.read())).toEqual(comments(before));
    expect(await editConfiguration(folder.config, changes)).toBe(false);
    for (const serviceId of ['first', 'second', 'second']) {
      await editConfiguration(folder.config, { serviceId });
      expect(readConfiguration(folder.config).vars).toEqual({ ...written.vars, SERVICE_ID: serviceId });
    }
    expect((await folder.read()).match(/^SERVICE_ID/gm)).toHaveLength(1);
  });

  test('under the name that is in use, and not where both are', async () => {
    const folder = await newFolder();
    await folder.write((text) => text.replace(/^BACKENDS = /m, 'PINNING_SERVICES = '));
    expect(await editConfiguration(folder.config, changes)).toBe(true);
    const { vars } = readConfiguration(folder.config);
    expect(JSON.parse(vars['PINNING_SERVICES'] ?? '')).toEqual(backends);
    expect(vars).not.toHaveProperty('BACKENDS');
    await folder.write((text) => text.replace(/^PINNING_SERVICES = .*$/m, "$&\nBACKENDS = '[]'"));
    const both = await folder.read();
    expect(await refusal(editConfiguration(folder.config, changes))).toEqual([
      'misconfigured',
      'BACKENDS and PINNING_SERVICES are both set',
      expect.any(String),
    ]);
    expect(await folder.read()).toBe(both);
  });

  test('not where it has another form', async () => {
    const folder = await newFolder();
    await folder.write((text) => text.replace(/^BACKENDS = .*$/m, "BACKENDS = '''\n[]'''"));
    const before = await folder.read();
    expect(await refusal(editConfiguration(folder.config, changes))).toEqual([
      'misconfigured',
      expect.stringContaining('it is as before'),
      expect.stringContaining('BACKENDS'),
    ]);
    expect(await folder.read()).toBe(before);
  });
});

describe('the configuration of a further service', () => {
  test('is a copy that shares nothing with the first but the pinning services', async () => {
    const folder = await newFolder();
    const shared = ['"7420"', '"7421"', '0123456789abcdef', 'files.acme.org', 'SERVICE_ID = "first"'];
    await folder.write((text) =>
      text
        .replace('binding = "API_KEYS"', '$&\nid = "0123456789abcdef"')
        .replace('REPLICAS = ""', '$&\nSERVICE_ID = "first"')
        .replace('kubo.example.com', 'kubo.acme.org')
        .concat('\n[[routes]]\npattern = "files.acme.org"\ncustom_domain = true\n'),
    );
    for (const each of shared) expect(await folder.read()).toContain(each);
    const config = join(folder.dir, 'wrangler.staging.toml');
    for (const name of [undefined, 'sealpin'])
      expect(await refusal(newConfiguration({ config, name }))).toEqual([
        'usage',
        expect.stringContaining('needs a name of its own'),
        expect.stringContaining('--name sealpin-staging'),
      ]);
    expect(await newConfiguration({ config, name: 'sealpin-staging' })).toBe(true);
    const text = await readFile(config, 'utf8');
    for (const each of shared) expect(text).not.toContain(each);
    // Its two rate limits share no counters, either.
    const namespaces = Array.from(text.matchAll(/^namespace_id = "(\d+)"$/gm), ([, id]) => id);
    expect(namespaces.length).toBe(2);
    expect(new Set(namespaces).size).toBe(2);
    const { name, kvId, domain, vars } = readConfiguration(config);
    expect({ name, kvId, domain, services: vars['BACKENDS'] }).toEqual({
      name: 'sealpin-staging',
      kvId: undefined,
      domain: undefined,
      services: readConfiguration(folder.config).vars['BACKENDS'],
    });
    expect(faultsOf(readConfiguration(config))).toEqual([]);
    // One that is there stays as it is.
    expect(await newConfiguration({ config, name: 'another' })).toBe(false);
    expect(await readFile(config, 'utf8')).toBe(text);
    const nowhere = join(await temporaryDirectory(), 'wrangler.staging.toml');
    expect((await refusal(newConfiguration({ config: nowhere, name: 'x' })))[1]).toBe(`${nowhere} does not exist`);
  });
});

describe('the flags', () => {
  test('are parsed, paths from the working directory', () => {
    expect(
      parseOptions('doctor', ['--config', 'a/wrangler.toml', '--url', 'https://files.acme.org/x'], '/srv'),
    ).toEqual({
      account: undefined,
      apiKeyFile: '/srv/a/api-key.txt',
      folder: undefined,
      config: '/srv/a/wrangler.toml',
      adminTokenFile: '/srv/a/admin-token.txt',
      metricsTokenFile: '/srv/a/metrics-token.txt',
      url: 'https://files.acme.org',
      backend: undefined,
      bucket: undefined,
      s3Url: undefined,
      region: undefined,
      kuboUrl: undefined,
      publicGateway: undefined,
      name: undefined,
      domain: undefined,
    });
  });

  test('of a further service name secret files of its own', () => {
    const names = ['', 'wrangler.', 'wrangler-'].map((start) => `${start}staging.toml`);
    const others = ['wrangler.jsonc', '../two/wrangler.toml', '/two/wrangler.staging.toml'];
    const found = [undefined, 'wrangler.toml', ...names, ...others].map((config) => {
      const args = config === undefined ? [] : ['--config', config];
      const { adminTokenFile, metricsTokenFile, apiKeyFile } = parseOptions('setup', args, '/srv');
      const [prefix = ''] = adminTokenFile.split('admin-token.txt');
      expect(metricsTokenFile).toBe(`${prefix}metrics-token.txt`);
      expect(apiKeyFile).toBe(`${prefix}api-key.txt`);
      return prefix;
    });
    const ofNames = ['staging.toml-', 'staging-', 'wrangler-staging.toml-', 'wrangler.jsonc-'];
    expect(found).toEqual(['', '', ...ofNames].map((prefix) => `/srv/${prefix}`).concat('/two/', '/two/staging-'));
  });

  test('name secret files that git ignores, wherever they are', () => {
    for (const config of ['wrangler.toml', 'two/wrangler.toml', 'two/wrangler.staging.toml']) {
      const { adminTokenFile, metricsTokenFile, apiKeyFile } = parseOptions(
        'setup',
        ['--config', config],
        packageRoot(),
      );
      const files = [adminTokenFile, metricsTokenFile, apiKeyFile];
      const ignored = execFileSync('git', ['check-ignore', ...files], { cwd: packageRoot(), encoding: 'utf8' });
      expect(ignored.trim().split('\n')).toEqual(files);
    }
  });

  test('empty ones are refused, each of them, and so is an empty folder', async () => {
    const [, , hint = ''] = await refusal(() => parseOptions('setup', ['--token', 'x'], '/'));
    const flags = new Set(hint.match(/--[a-z][a-z\d]*(?:-[a-z]+)*/g));
    expect(flags.size).toBeGreaterThan(7);
    for (const flag of flags)
      expect((await refusal(() => parseOptions('setup', [`${flag}=`], '/')))[1]).toBe(`${flag} is empty`);
    for (const command of ['backup', 'restore'] as const)
      expect((await refusal(() => parseOptions(command, ['--url', 'https://files.acme.org', ''], '/')))[1]).toBe(
        'the folder is empty',
      );
  });

  test.each([
    [['--kubo-url', 'kubo.acme.org'], '--kubo-url is not'],
    [['--kubo-url', 'https://me:secret@kubo.acme.org'], '--kubo-url is not'],
    [['--url', 'files'], '--url is not'],
    [['--domain', 'https://files.acme.org'], '--domain is not'],
    [['--s3-url', 'http://s3.acme.org'], 'unencrypted'],
    [['--backend', 'disk'], '--backend is none of r2, s3, kubo'],
    [['--public-gateway', 'yes'], '--public-gateway is none of on, off'],
    [['--token', 'x'], "Unknown option '--token'"],
  ])('%o are refused', async (flags, what) => {
    const [code, message, hint] = await refusal(() => parseOptions('setup', flags, '/'));
    expect({ code, message }).toEqual({ code: 'usage', message: expect.stringContaining(what) });
    expect(hint).toBeDefined();
    expect(message).not.toContain('secret@');
  });

  test('name a file that the system refuses: a sentence, and no stack', async () => {
    const dir = await temporaryDirectory();
    const flags = ['--url', 'http://127.0.0.1:9', '--admin-token-file', dir, join(dir, 'backup')];
    const argv = ['--no-warnings', join(import.meta.dirname, '../index.ts'), 'backup', ...flags];
    const { status, stdout, stderr } = spawnSync(process.execPath, argv, { encoding: 'utf8', env: bareEnv() });
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toMatch(/^✗ the system refuses: EISDIR: .*\n$/);
  });

  // They are shown before a command is looked for. That the program starts, other tests of it show.
  test.each(['setup', 'doctor', 'backup', 'restore'])('are shown by %s, which then does nothing', async (command) => {
    const { argv } = process;
    const print = vi.spyOn(console, 'log').mockReturnValue();
    const complain = vi.spyOn(console, 'error').mockReturnValue();
    // They listen to signals.
    vi.spyOn(process, 'once').mockReturnValue(process);
    onTestFinished(() => {
      vi.restoreAllMocks();
      process.argv = argv;
    });
    process.argv = [...argv.slice(0, 2), command, '--help'];
    // By its name alone it would run once in this process.
    const program = `${join(import.meta.dirname, '../index.ts')}?${command}`;
    await import(program);
    expect(print.mock.calls).toEqual([[usage]]);
    expect(complain).not.toHaveBeenCalled();
    expect(process.exitCode).toBeUndefined();
  });
});
