/**
 * A whole service is backed up, destroyed and restored: its objects by `npm run backup` and
 * `restore`, its bytes by Kubo's repository.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connect, receive } from '../../client/index.ts';
import { client } from '../../testkit/api-client.ts';
import { ci, inCi } from '../../testkit/long-run.ts';
import { itemOf } from '../../testkit/present.ts';
import { keysOf } from '../../testkit/object-stores/s3-requests.ts';
import { hasVersitygw, noVersitygw, startVersitygw } from '../../testkit/object-stores/versitygw.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../testkit/programs/kubo.ts';
import { isSealpinError } from '../../shared/errors.ts';
import { adminToken, restoreToken, startService, type Service } from '../../testkit/service.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { backup } from '../service-backup.ts';
import { operatorApi } from '../operator-api.ts';
import { parseOptions } from '../options.ts';
import { restore } from '../service-restore.ts';
import { newFolder, processWith, refusal } from './deployment.ts';

const run = promisify(execFile);

describe.skipIf(!ci || kuboProgram() === undefined)('a whole service', () => {
  let kubo: RealKubo;
  let services: Service[] = [];
  beforeAll(async () => {
    kubo = await startKubo();
  });
  afterAll(async () => {
    for (const service of services) await service.close();
    await kubo.close();
  });

  /** A service without any state at the Kubo. */
  async function startEmpty(id = 'whole-service'): Promise<Service> {
    const PINNING_SERVICES = JSON.stringify([{ id: 'kubo', type: 'kubo', url: kubo.url, tokenSecret: 'KUBO_TOKEN' }]);
    const service = await startService({ vars: { PINNING_SERVICES, KUBO_TOKEN: kubo.token, SERVICE_ID: id } });
    services.push(service);
    return service;
  }

  /**
   * The secret of a link, and pieces of it: behind `1`, the ID has 22 characters, the secret 43.
   */
  function secretsIn(link: string): string[] {
    const secret = link.slice(link.indexOf('#') + 24, link.indexOf('#') + 67);
    return [secret, secret.slice(0, 16), secret.slice(-16)];
  }

  type Stored = { apiKey: string; fileId: string; bytes: string };

  type Mode = 'plain' | 'encrypted';

  async function store(service: Service, apiKey: string, mode: Mode, bytes: string): Promise<Stored> {
    const { fileId } = await client(service.url, apiKey).store(mode, bytes);
    return { apiKey, fileId, bytes };
  }

  /**
   * Links to a file that open twice, but for the times that they have been opened; the last one is
   * revoked.
   */
  async function send(service: Service, apiKey: string): Promise<string[]> {
    const connection = connect({ service: service.url, apiKey });
    const links: string[] = [];
    for (const before of [0, 1, 2, 'revoked'] as const) {
      const { link, share } = await connection.send([{ source: 'sent', name: 'sent.txt' }], { opens: 2 });
      if (before === 'revoked') await connection.unshare(share.id);
      else for (let times = 0; times < before; times += 1) expect(await opened(link, service)).toBe('sent');
      links.push(link);
    }
    return links;
  }

  /** Opens a link at a service: returns the text of its file, or the code of the error. */
  async function opened(link: string, service: Service): Promise<string> {
    try {
      const { files } = await receive(link.replace(/^http:\/\/[^/]+/, service.url));
      return (await (await files[0]?.open())?.text()) ?? '';
    } catch (error) {
      if (isSealpinError(error)) return error.code;
      throw error;
    }
  }

  test('opens every file with the old API keys, and links, after everything at Cloudflare is gone', async () => {
    const first = await startEmpty();
    const stored: Stored[] = [];
    for (const name of ['one', 'two']) {
      const { apiKey } = await first.account();
      stored.push(await store(first, apiKey, 'plain', `plain of ${name}`));
      stored.push(await store(first, apiKey, 'encrypted', `encrypted of ${name} `.repeat(70_000)));
    }
    const links = await send(first, stored[0]?.apiKey ?? '');
    const folder = await newFolder();
    const context = processWith(folder, {});
    const dir = join(folder.dir, 'backup');
    expect(await backup(operatorApi(first.url, adminToken), first.url, dir, context)).toBe(0);
    const names = await readdir(dir);
    expect(names).toHaveLength(3);
    for (const name of names) {
      expect((await stat(join(dir, name))).mode & 0o077).toBe(0);
      const text = await readFile(join(dir, name), 'utf8');
      for (const { apiKey } of stored) expect(text).not.toContain(apiKey.slice(3));
      expect(text).not.toContain(adminToken);
      expect(text).not.toContain('encrypted of');
      for (const link of links) for (const part of secretsIn(link)) expect(text).not.toContain(part);
    }
    const again = backup(operatorApi(first.url, adminToken), first.url, dir, context);
    expect(await refusal(again)).toEqual(['usage', expect.stringContaining('complete backup'), expect.any(String)]);

    // Objects and KV are destroyed, and so is Kubo's repository, which comes back from a copy.
    await first.close();
    services = [];
    await kubo.stop();
    const copy = join(folder.dir, 'ipfs.tar');
    await run('tar', ['-C', kubo.dir, '-cf', copy, '.']);
    await rm(kubo.dir, { recursive: true });
    await mkdir(kubo.dir);
    await run('tar', ['-C', kubo.dir, '-xpf', copy]);
    expect(await kubo.ipfs('repo', 'verify')).toContain('all blocks validated');
    await kubo.start();

    const wrong = await startEmpty('another-name');
    expect(await refusal(restore(operatorApi(wrong.url, adminToken, { restoreToken }), dir, context))).toEqual([
      'conflict',
      expect.stringContaining('name of another service'),
      expect.stringContaining('SERVICE_ID to "whole-service"'),
    ]);
    await wrong.close();
    services = [];
    const second = await startEmpty();
    const api = operatorApi(second.url, adminToken, { restoreToken });
    context.lines.length = 0;
    expect(await restore(api, dir, context)).toBe(0);
    expect(context.lines).toEqual([expect.stringContaining('✓'), expect.stringContaining('✓')]);
    for (const { apiKey, fileId, bytes } of stored) {
      const read = await client(second.url, apiKey).getFileContent({ fileId });
      expect(read.toString() === bytes).toBe(true);
    }
    for (const results of [
      ['sent', 'sent', 'gone', 'not_found'],
      ['sent', 'gone', 'gone', 'not_found'],
      ['gone', 'gone', 'gone', 'not_found'],
    ])
      expect(await Promise.all(links.map((link) => opened(link, second)))).toEqual(results);
    // The pins are ours again: deleting a file removes its pin.
    const gone = itemOf(stored, 0);
    const pins = (await kubo.ipfs('pin', 'ls', '--type=recursive', '--quiet')).trim().split('\n');
    await client(second.url, gone.apiKey).deleteFile({ fileId: gone.fileId });
    expect((await kubo.ipfs('pin', 'ls', '--type=recursive', '--quiet')).trim().split('\n')).toHaveLength(
      pins.length - 1,
    );

    context.lines.length = 0;
    expect(await restore(api, dir, context)).toBe(0);
    expect(context.lines).toEqual([expect.stringContaining('– '), expect.stringContaining('– ')]);
  });

  inCi('is backed up further where a backup broke off, in the middle of a line, too', async () => {
    const service = await startEmpty('another-service');
    const { apiKey, account } = await service.account();
    await store(service, apiKey, 'plain', 'x');
    const dir = await temporaryDirectory();
    const context = processWith(await newFolder(), {});
    const api = operatorApi(service.url, adminToken);
    await backup(api, service.url, dir, context);
    const whole = join(dir, `${account.id}.ndjson`);
    const text = await readFile(whole, 'utf8');
    for (const partial of ['', text.slice(0, 100), `${text}{"format`]) {
      await rm(join(dir, 'backup.json'));
      await rename(whole, `${whole}.part`);
      await writeFile(`${whole}.part`, partial);
      expect(await refusal(restore(api, dir, context))).toEqual([
        'usage',
        expect.stringContaining('no complete backup'),
        expect.any(String),
      ]);
      expect(await backup(api, service.url, dir, context)).toBe(0);
      expect(await readFile(whole, 'utf8')).toBe(text);
    }
    // A finished account is not asked for again.
    await rm(join(dir, 'backup.json'));
    expect(await backup(api, service.url, dir, context)).toBe(0);
    expect(await readFile(whole, 'utf8')).toBe(text);
    await writeFile(join(dir, 'backup.json'), JSON.stringify({ format: 'sealpin-backup/v2' }));
    expect(await refusal(restore(api, dir, context))).toEqual([
      'usage',
      expect.stringContaining('another version'),
      expect.any(String),
    ]);
  });

  test('without its operator’s token or address is refused', async () => {
    const service = services.at(-1) ?? (await startEmpty());
    const dir = await temporaryDirectory();
    const context = processWith(await newFolder(), {});
    const api = operatorApi(service.url, 'wrong');
    expect((await refusal(backup(api, service.url, dir, context)))[0]).toBe('unauthorized');
    const nowhere = operatorApi('http://127.0.0.1:9', adminToken);
    expect(await refusal(backup(nowhere, '', dir, context))).toEqual([
      'service_unreachable',
      expect.any(String),
      'check --url',
    ]);
    for (const args of [[], ['a', 'b', '--url', service.url], ['a']])
      expect((await refusal(() => parseOptions('backup', args, '/')))[1]).toBe('backup needs --url and one folder');
  });
});

test.skipIf(!ci || !hasVersitygw())(
  'files in a bucket are read and deleted after a restoration, with the old API key',
  async () => {
    const gateway = await startVersitygw();
    onTestFinished(() => gateway.close());
    const { url, bucket, keyId, secret } = gateway;
    const entry = { id: 'store', type: 's3', url, bucket, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
    const vars = { BACKENDS: JSON.stringify([entry]), S3_KEY: keyId, S3_SECRET: secret, SERVICE_ID: 'restored' };
    const first = await startService({ vars });
    const { apiKey } = await first.account();
    const stored: { fileId: string; bytes: Buffer }[] = [];
    for (const mode of ['plain', 'encrypted'] as const) {
      const bytes = randomBytes(1_200_000);
      stored.push({ fileId: (await client(first.url, apiKey).store(mode, bytes)).fileId, bytes });
    }
    const dir = join(await temporaryDirectory(), 'backup');
    const context = processWith(await newFolder(), {});
    expect(await backup(operatorApi(first.url, adminToken), first.url, dir, context)).toBe(0);
    await first.close();

    const second = await startService({ vars });
    onTestFinished(() => second.close());
    expect(await restore(operatorApi(second.url, adminToken, { restoreToken }), dir, context)).toBe(0);
    const api = client(second.url, apiKey);
    for (const { fileId, bytes } of stored) {
      expect(Buffer.compare(await api.getFileContent({ fileId }), bytes)).toBe(0);
      expect((await api.deleteFile({ fileId })).pins).toEqual([{ service: 'store', status: 'unpinned' }]);
    }
    expect(await keysOf(gateway)).toEqual(['sealpin-restored/service']);
  },
);
if (!hasVersitygw()) test.skip(noVersitygw);

test('a backup that names an account by anything else than an ID sends nothing from beside its folder', async () => {
  const dir = await temporaryDirectory();
  await writeFile(join(dir, 'x.ndjson'), '{}\n');
  await mkdir(join(dir, 'foreign'));
  const manifest = {
    format: 'sealpin-backup/v1',
    service: 'https://files.acme.org',
    createdAt: '2026-01-01T00:00:00Z',
  };
  await writeFile(join(dir, 'foreign/backup.json'), JSON.stringify({ ...manifest, accounts: ['../x'] }));
  // Whatever it asked would fail: nothing listens there.
  const api = operatorApi('http://127.0.0.1:9', adminToken);
  const [code, message] = await refusal(restore(api, join(dir, 'foreign'), processWith(await newFolder(), {})));
  expect({ code, message }).toEqual({ code: 'usage', message: expect.stringContaining('another version') });
});

if (kuboProgram() === undefined) test.skip(noKubo);
