/**
 * `npm run setup` and `npm run doctor` with the real wrangler, which talks to a Cloudflare in
 * memory, and a real Kubo.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { client } from '../../testkit/api-client.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../testkit/programs/kubo.ts';
import { metricsToken, startService } from '../../testkit/service.ts';
import { missingTerminal, runAtTerminal } from '../../testkit/programs/terminal.ts';
import { readConfiguration } from '../configuration.ts';
import { doctor } from '../check-deployment.ts';
import { parseOptions } from '../options.ts';
import { setup } from '../setup.ts';
import { accountsOf, secretNames, wranglerWith } from '../wrangler.ts';
import { accountId, startCloudflare, type Cloudflare } from './cloudflare.ts';
import { newFolder, processWith, refusal } from './deployment.ts';
import { inCi, long } from '../../testkit/long-run.ts';

// A process of wrangler costs up to 2 s of CPU, and a run of setup takes eight.

let cloudflare: Cloudflare;
beforeAll(async () => {
  cloudflare = await startCloudflare();
});
afterAll(() => cloudflare.close());

inCi('wrangler without a login, and a Worker that is not there, are told apart', async () => {
  const folder = await newFolder();
  const { env } = processWith(folder, { CLOUDFLARE_API_BASE_URL: cloudflare.url });
  const [none, nobody] = await Promise.all([
    secretNames(wranglerWith(folder.config, { ...env, ...cloudflare.env })),
    refusal(accountsOf(wranglerWith(folder.config, env))),
  ]);
  expect(none).toBeUndefined();
  expect(nobody).toEqual([
    'unauthorized',
    'wrangler is not logged in',
    'run npx wrangler login, or set CLOUDFLARE_API_TOKEN to a valid token',
  ]);
});

inCi('the Worker is deployed without what else lies in its folder', async () => {
  const folder = await newFolder();
  const notes = join(folder.dir, 'dist', 'notes');
  await mkdir(notes);
  await writeFile(join(notes, 'secret.txt'), 'not for Cloudflare');
  const wrangler = wranglerWith(folder.config, processWith(folder, cloudflare.env).env);
  expect(await wrangler(['deploy', '--name', 'alone'])).toMatchObject({ ok: true });
  expect(cloudflare.workers.get('alone')?.modules).toEqual(['worker.js']);
});

inCi('Ctrl-C ends setup before its next step, and the same command continues', async () => {
  const folder = await newFolder();
  const entry = join(packageRoot(), 'deploy', 'index.ts');
  const { env } = processWith(folder, cloudflare.env);
  const asked = cloudflare.requests.length;
  const argv = [
    entry,
    'setup',
    '--config',
    folder.config,
    '--name',
    'stopped',
    '--backend',
    'r2',
    '--public-gateway',
    'on',
  ];
  const child = spawn(process.execPath, argv, { cwd: folder.dir, env, stdio: ['ignore', 'ignore', 'pipe'] });
  const [stderr, ended] = [text(child.stderr), once(child, 'close')];
  await expect.poll(() => cloudflare.requests.length, { timeout: 60_000 }).toBeGreaterThan(asked);
  child.kill('SIGINT');
  expect(await ended).toEqual([130, null]);
  expect(await stderr).toContain('→ what has a ✓ is done: the same command continues');
  const changes = cloudflare.requests.slice(asked).filter((request) => !request.startsWith('GET '));
  expect({ changes, deployed: cloudflare.workers.has('stopped') }).toEqual({ changes: [], deployed: false });
});

describe.skipIf(!long)('setup with a bucket of R2 (long form)', () => {
  test.skipIf(missingTerminal() !== undefined)('needs three times Enter, and ends with a link', async () => {
    const folder = await newFolder();
    const admin = 'token-of-the-operator';
    await writeFile(join(folder.dir, 'admin-token.txt'), `${admin}\n`);
    await writeFile(join(folder.dir, 'metrics-token.txt'), `${metricsToken}\n`);
    const service = await startService({ vars: { ADMIN_TOKEN: admin, SERVICE_ID: 'ours' } });
    onTestFinished(service.close);
    onTestFinished(() => void cloudflare.workers.delete('sealpin'));
    await folder.write((text) => text.replace('REPLICAS = ""', '$&\nSERVICE_ID = "ours"'));
    const entry = join(packageRoot(), 'deploy', 'index.ts');
    const argv = [process.execPath, entry, 'setup', '--config', folder.config, '--url', service.url];
    const env = { ...cloudflare.env, npm_config_registry: 'http://127.0.0.1:9' };
    const steps = ['Name of the Worker [sealpin]', 'Backend [r2]', 'Whether anyone who knows a CID'].map((after) => ({
      after,
      type: '\r',
    }));
    const { exit, screen } = await runAtTerminal(argv, { cwd: folder.dir, env, steps });
    expect({ exit, screen }).toMatchObject({ exit: 0 });
    expect(screen).toContain('created the R2 bucket sealpin-files');
    expect(screen).toContain('a file was sent, received by its link');
    expect([...cloudflare.buckets.keys()]).toContain('sealpin-files');
    const { buckets, vars } = readConfiguration(folder.config);
    expect(buckets).toEqual([{ binding: 'FILES', bucket: 'sealpin-files' }]);
    expect(JSON.parse(vars['BACKENDS'] ?? '')).toEqual([{ id: 'r2', type: 'r2', binding: 'FILES' }]);
    const worker = cloudflare.workers.get('sealpin');
    expect(worker?.bindings).toContainEqual(
      expect.objectContaining({ name: 'FILES', type: 'r2_bucket', bucket_name: 'sealpin-files' }),
    );
    expect([...(worker?.secrets.keys() ?? [])].toSorted()).toEqual(['ADMIN_TOKEN', 'METRICS_TOKEN']);
    // Nothing of the trial is left.
    const apiKey = (await readFile(join(folder.dir, 'api-key.txt'), 'utf8')).trim();
    expect(await client(service.url, apiKey).listFiles()).toMatchObject({ files: [] });
    // Nothing is asked again, and nothing changes.
    const written = await folder.read();
    const again = await runAtTerminal(argv, { cwd: folder.dir, env, steps: [] });
    expect({ exit: again.exit, screen: again.screen }).toMatchObject({ exit: 0 });
    expect(await folder.read()).toBe(written);
    const context = processWith(folder, env);
    expect(await doctor(parseOptions('doctor', ['--config', folder.config], folder.dir), context)).toBe(0);
    expect(context.lines.at(-1)).toBe('nothing is wrong in what was tried');
  });
});

describe.skipIf(!long || kuboProgram() === undefined)('setup (long form)', () => {
  let kubo: RealKubo;
  beforeAll(async () => {
    kubo = await startKubo({ setUp: join(packageRoot(), 'docs/kubo/allow-sealpin.sh') });
  });
  afterAll(() => kubo.close());

  test('deploys into an empty account, and changes nothing when it runs again', async () => {
    const folder = await newFolder();
    const env = { ...cloudflare.env, KUBO_TOKEN: kubo.token };
    const flags = ['--config', folder.config, '--name', 'files', '--domain', 'files.acme.org', '--kubo-url', kubo.url];
    // Its CORS_ORIGINS and token are those of the configuration; only its address is not.
    const run = async () => {
      const context = processWith(folder, env);
      const token = join(folder.dir, 'admin-token.txt');
      const options = parseOptions(
        'setup',
        [...flags, '--url', 'http://127.0.0.1:9', '--admin-token-file', token],
        '/',
      );
      return { exit: await setup(options, context), lines: context.lines };
    };
    const first = await run();
    // Nobody deploys anything for real here: the service itself is not reached.
    expect(first.exit).toBe(1);
    expect(first.lines.filter((line) => line.startsWith('✗'))).toEqual([
      expect.stringContaining('http://127.0.0.1:9 does not respond'),
    ]);
    const worker = cloudflare.workers.get('files');
    const isOurs = ([, title]: [string, string]) => title === 'files-api-keys';
    const namespace = [...cloudflare.namespaces].find(isOurs);
    expect(worker?.bindings).toContainEqual({
      name: 'API_KEYS',
      type: 'kv_namespace',
      namespace_id: namespace?.[0],
    });
    expect(cloudflare.domains).toEqual(new Map([['files.acme.org', 'files']]));
    const file = join(folder.dir, 'admin-token.txt');
    const admin = (await readFile(file, 'utf8')).trim();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const metrics = (await readFile(join(folder.dir, 'metrics-token.txt'), 'utf8')).trim();
    const secrets = { KUBO_TOKEN: kubo.token, ADMIN_TOKEN: admin, METRICS_TOKEN: metrics };
    expect(worker?.secrets).toEqual(new Map(Object.entries(secrets)));
    expect(JSON.stringify([first.lines, cloudflare.requests, await folder.read()])).not.toContain(admin);
    expect(JSON.stringify([first.lines, cloudflare.requests, await folder.read()])).not.toContain(kubo.token);

    const configuration = await folder.read();
    const second = await run();
    expect(second.lines.filter((line) => /wrote|_TOKEN is in/.test(line))).toEqual([]);
    expect(await folder.read()).toBe(configuration);
    expect((await readFile(file, 'utf8')).trim()).toBe(admin);
    expect([...cloudflare.namespaces].filter(isOurs)).toEqual([namespace]);
    const again = cloudflare.workers.get('files');
    expect(again?.deployments).toBe(2);
    expect(again?.secrets).toEqual(worker?.secrets);
    expect(again?.bindings).toEqual(worker?.bindings);

    const SERVICE_ID = /^SERVICE_ID = "([0-9a-f]{32})"$/m.exec(configuration)?.[1] ?? '';
    expect(worker?.bindings).toContainEqual({ name: 'SERVICE_ID', type: 'plain_text', text: SERVICE_ID });
    // A service that is there without one keeps the ID that its pins have.
    await folder.write((text) => text.replace(/^SERVICE_ID = .*\n/m, ''));
    await run();
    expect(await folder.read()).not.toMatch(/^SERVICE_ID = /m);
    await folder.write(() => configuration);

    const service = await startService({ vars: { ADMIN_TOKEN: admin, METRICS_TOKEN: metrics, SERVICE_ID } });
    try {
      const context = processWith(folder, env);
      const options = parseOptions('doctor', ['--config', folder.config, '--url', service.url], folder.dir);
      expect(await doctor(options, context)).toBe(0);
      expect(context.lines.filter((line) => line.startsWith('✗'))).toEqual([]);
      expect(context.lines.at(-1)).toBe('nothing is wrong');
    } finally {
      await service.close();
    }
  });

  test('deploys nothing where something is missing or does not work', async () => {
    const folder = await newFolder();
    const before = { folder: await folder.read(), worker: cloudflare.workers.get('sealpin') };
    const tried = (env: Record<string, string>, ...flags: string[]) =>
      refusal(
        setup(parseOptions('setup', ['--config', folder.config, ...flags], folder.dir), processWith(folder, env)),
      );
    const { env } = cloudflare;
    expect(await tried(env)).toEqual([
      'usage',
      'where bytes are kept is not said, and there is no terminal to ask at',
      'name it with --backend: r2, s3, kubo',
    ]);
    expect(await tried(env, '--backend', 'kubo')).toEqual([
      'usage',
      expect.stringContaining('address of your Kubo is missing'),
      'name it with --kubo-url',
    ]);
    expect(await tried(env, '--kubo-url', kubo.url)).toEqual([
      'usage',
      expect.stringContaining('KUBO_TOKEN is missing'),
      'set KUBO_TOKEN in the environment',
    ]);
    expect(await tried({ ...env, KUBO_TOKEN: 'wrong' }, '--kubo-url', kubo.url)).toEqual([
      'misconfigured',
      expect.stringContaining('nothing was deployed'),
      expect.any(String),
    ]);
    expect(await tried(env, '--kubo-url', 'https://kubo.example.org')).toEqual([
      'misconfigured',
      expect.stringContaining('placeholder'),
      expect.stringContaining('npm run setup'),
    ]);
    cloudflare.accounts.push({ id: accountId.replace('0', 'f'), name: 'Another' });
    expect(await tried(env)).toEqual([
      'usage',
      expect.stringContaining('several Cloudflare accounts'),
      expect.stringContaining('CLOUDFLARE_ACCOUNT_ID'),
    ]);
    cloudflare.accounts.pop();
    expect({ folder: await folder.read(), worker: cloudflare.workers.get('sealpin') }).toEqual(before);
  });

  test('says what to do where Cloudflare refuses the Worker or its secrets, and resumes from there', async () => {
    const folder = await newFolder();
    const env = { ...cloudflare.env, KUBO_TOKEN: kubo.token };
    const flags = [
      '--config',
      folder.config,
      '--name',
      'refused',
      '--kubo-url',
      kubo.url,
      '--url',
      'http://127.0.0.1:9',
    ];
    const run = (context = processWith(folder, env)) => setup(parseOptions('setup', flags, folder.dir), context);
    cloudflare.refusals.set('PUT /workers/scripts/refused', {
      code: 100_328,
      message: 'CPU limits are not supported for the Free plan.',
    });
    expect(await refusal(run())).toEqual([
      'service_unreachable',
      expect.stringMatching(/^wrangler deploy failed: .*CPU limits are not supported/),
      expect.stringMatching(/Workers Paid.*run npm run setup again/),
    ]);
    expect(cloudflare.workers.has('refused')).toBe(false);
    cloudflare.refusals.clear();
    // wrangler has created the namespace before, and would fail if it were to create it again.
    const [kvId] = [...cloudflare.namespaces].find(([, title]) => title === 'refused-api-keys') ?? [];
    cloudflare.refusals.set('PATCH /workers/scripts/refused/secrets-bulk', {
      code: 10_013,
      message: 'An unknown error.',
    });
    expect(await refusal(run())).toEqual([
      'service_unreachable',
      expect.stringMatching(/^wrangler secret bulk failed: /),
      'the Worker is deployed, without these secrets: run npm run setup again',
    ]);
    expect(cloudflare.workers.get('refused')?.secrets).toEqual(new Map());
    expect(cloudflare.workers.get('refused')?.bindings).toContainEqual({
      name: 'API_KEYS',
      type: 'kv_namespace',
      namespace_id: kvId,
    });
    cloudflare.refusals.clear();
    // The operator's token that the first run made is the one that counts.
    const [token, metrics] = await Promise.all(
      ['admin-token.txt', 'metrics-token.txt'].map(async (name) =>
        (await readFile(join(folder.dir, name), 'utf8')).trim(),
      ),
    );
    expect(await run()).toBe(1);
    expect(cloudflare.workers.get('refused')?.secrets).toEqual(
      new Map(Object.entries({ KUBO_TOKEN: kubo.token, ADMIN_TOKEN: token, METRICS_TOKEN: metrics })),
    );
  });

  test.skipIf(missingTerminal() !== undefined)(
    'asks at a terminal for what is missing, and hides the token',
    async () => {
      const folder = await newFolder();
      const admin = 'token-of-the-operator';
      await writeFile(join(folder.dir, 'admin-token.txt'), `${admin}\n`);
      await writeFile(join(folder.dir, 'metrics-token.txt'), `${metricsToken}\n`);
      const service = await startService({ vars: { ADMIN_TOKEN: admin, SERVICE_ID: 'ours' } });
      await folder.write((text) => text.replace('REPLICAS = ""', '$&\nSERVICE_ID = "ours"'));
      try {
        const entry = join(packageRoot(), 'deploy', 'index.ts');
        const argv = [
          process.execPath,
          entry,
          'setup',
          '--config',
          folder.config,
          '--name',
          'asked',
          '--url',
          service.url,
        ];
        const { exit, screen } = await runAtTerminal(argv, {
          cwd: folder.dir,
          env: { ...cloudflare.env, npm_config_registry: 'http://127.0.0.1:9' },
          steps: [
            { after: 'Backend [r2]', type: 'kubo\r' },
            { after: 'The https: address of your Kubo', type: `${kubo.url}\r` },
            { after: 'Whether anyone who knows a CID', type: 'off\r' },
            { after: 'The secret KUBO_TOKEN', type: `${kubo.token}\r` },
          ],
        });
        expect({ exit, screen }).toMatchObject({ exit: 0 });
        expect(screen).toContain('a file was sent, received by its link');
        expect(readConfiguration(folder.config).vars['PUBLIC_GATEWAY']).toBe('off');
        const wrong = [
          { after: 'Name of the Worker [sealpin]', type: '\r' },
          { after: 'Backend [r2]', type: 'kubo\r' },
          { after: 'The https: address of your Kubo', type: 'kubo.acme.org\r' },
        ];
        const fresh = (await newFolder()).config;
        const mistyped = await runAtTerminal([process.execPath, entry, 'setup', '--config', fresh], {
          cwd: folder.dir,
          env: cloudflare.env,
          steps: wrong,
        });
        expect(mistyped.exit).toBe(2);
        expect(mistyped.screen).toContain('the answer is not an https: address');
        expect(mistyped.screen).toContain('such as https://files.example.com');
        const apiKey = (await readFile(join(folder.dir, 'api-key.txt'), 'utf8')).trim();
        for (const secret of [kubo.token, admin, apiKey]) expect(screen).not.toContain(secret);
        expect(cloudflare.workers.get('asked')?.secrets.get('KUBO_TOKEN')).toBe(kubo.token);
        expect(await client(service.url, apiKey).getAccount()).toMatchObject({ account: { label: 'asked' } });
      } finally {
        await service.close();
      }
    },
  );

  test('doctor reports what an account lacks, and the command ends with its exit code', async () => {
    const folder = await newFolder();
    await folder.write((text) =>
      text.replace('kubo.example.com', 'kubo.acme.org').replace('binding = "API_KEYS"', `$&\nid = "${'b'.repeat(32)}"`),
    );
    const context = processWith(folder, cloudflare.env);
    expect(await doctor(parseOptions('doctor', ['--config', folder.config], folder.dir), context)).toBe(1);
    expect(context.lines.filter((line) => line.startsWith('✗'))).toEqual([
      `✗ the account has no KV namespace ${'b'.repeat(32)}`,
      '✗ there is no Worker sealpin yet',
    ]);
    cloudflare.workers.set('sealpin', {
      bindings: [],
      secrets: new Map([['ADMIN_TOKEN', 'x']]),
      deployments: 1,
      modules: [],
    });
    const entry = join(packageRoot(), 'deploy', 'index.ts');
    const ended = promisify(execFile)(process.execPath, [entry, 'doctor', '--config', folder.config], {
      cwd: folder.dir,
      env: context.env,
    });
    await expect(ended).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringContaining('the secret KUBO_TOKEN is not set'),
    });
    cloudflare.workers.delete('sealpin');
    const misused = promisify(execFile)(process.execPath, [entry, 'doctor', '--nonsense'], {
      cwd: folder.dir,
      env: context.env,
    });
    await expect(misused).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('→ npm run setup') });
  });
});
if (kuboProgram() === undefined) test.skip(noKubo);
