/** `sealpin start --backends`: the adapters of the Worker on a machine of one's own. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasVersitygw, noVersitygw, startVersitygw, type Versitygw } from '../../../testkit/object-stores/versitygw.ts';
import { keysOf } from '../../../testkit/object-stores/s3-requests.ts';
import { documentedSettings } from '../../../testkit/documented-settings.ts';
import { startNode, type RunningNode } from '../../local/node/server.ts';
import { parseBackends, settingsIn } from '../../local/backends/worker-vars.ts';
import { present } from '../../../testkit/present.ts';
import { ask, refusal, remove, startHere, store } from './harness.ts';
import { ci } from '../../../testkit/long-run.ts';

let directory: string;
let second: RunningNode;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sealpin-backends-'));
  second = await startNode({ dir: join(directory, 'second'), token: 'token-of-second' });
});
afterAll(async () => {
  await second.close();
  await rm(directory, { recursive: true, force: true });
});

async function fileWith(entries: unknown): Promise<string> {
  const path = join(directory, `${crypto.randomUUID()}.json`);
  await writeFile(path, typeof entries === 'string' ? entries : JSON.stringify(entries));
  return `--backends=${path}`;
}

// The name that the manual has for the Kubo of a cluster.
const node = () => ({ id: 'second', type: 'kubo', url: second.url, tokenSecret: 'IPFS_TOKEN' });
/** The settings that such a service takes from its environment. */
const taken = Object.keys(settingsIn(Object.fromEntries(documentedSettings.map((name) => [name, '1']))).settings);
const env = { IPFS_TOKEN: 'token-of-second', REPLICAS: '2' };

describe('a service with backends of its own', () => {
  test('stores in the first, copies to the next, and reads what the built-in node has had', async () => {
    const before = await startHere();
    const data = new Uint8Array(5000).fill(1);
    const earlier = await store(before, 'plain', data);
    await before.end();
    const local = await startHere({ dataDir: before.dataDir, args: [await fileWith([node()])], env });
    try {
      const later = await store(local, 'plain', data.fill(2));
      for (const { fileId } of [earlier, later]) expect((await ask(local, 'getFile', { fileId })).status).toBe(200);
      const backends = async () => {
        const view = (await (await ask(local, 'getFile', { fileId: later.fileId })).json()) as {
          pins: { service: string; status: string }[];
        };
        return view.pins.map(({ service, status }) => `${service} ${status}`);
      };
      await expect.poll(backends).toEqual(['second pinned', 'local pinned']);
    } finally {
      await remove(local);
    }
  });

  const refused: [string, unknown, string][] = [
    ['what is no JSON', '{', 'it is not JSON'],
    ['what is no list', {}, 'it is not a list of at least one backend'],
    ['nothing', [], 'it is not a list of at least one backend'],
    ['R2', [{ id: 'a', type: 'r2', binding: 'FILES' }], 'R2 is bound to a Worker at Cloudflare'],
    [
      'the name of the built-in node',
      [{ id: 'local', type: 'kubo', url: 'http://127.0.0.1:1' }],
      'the id local is that of the built-in node',
    ],
    [
      'a secret that is not set',
      [{ id: 'a', type: 'kubo', url: 'http://127.0.0.1:1', tokenSecret: 'NOT_SET' }],
      'the secret NOT_SET is not set',
    ],
    [
      'a secret by a name that is its own',
      [{ id: 'a', type: 'kubo', url: 'http://127.0.0.1:1', tokenSecret: 'ADMIN_TOKEN' }],
      'the secret ADMIN_TOKEN has the name of one of the service itself',
    ],
    [
      'a secret by a name that only this machine has',
      [{ id: 'a', type: 'kubo', url: 'http://127.0.0.1:1', tokenSecret: 'LOCAL_CONTROL' }],
      'the secret LOCAL_CONTROL has a name of the service itself',
    ],
    ['a type that there is not', [{ id: 'a', type: 'ftp' }], 'type must be one of'],
    ['an entry without what its type needs', [{ id: 'a', type: 'kubo' }], 'BACKENDS[0] (a): url'],
  ];
  test.each(refused.filter((_, at) => ci || at % 4 === 1))('is refused with %s', async (_, entries, says) => {
    expect(await refusal({ args: [await fileWith(entries)], env: { ADMIN_TOKEN: 'theirs' } })).toContain(says);
  });

  test('is refused beside a Kubo of --kubo-api, and without its file', async () => {
    expect(await refusal({ args: [await fileWith([node()]), '--kubo-api=http://127.0.0.1:1'], env })).toContain(
      'exclude each other',
    );
    expect(await refusal({ args: [`--backends=${join(directory, 'none.json')}`] })).toContain('none.json');
  });
});

describe.skipIf(!hasVersitygw())(hasVersitygw() ? 'an object store' : noVersitygw, () => {
  let versitygw: Versitygw;
  beforeAll(async () => {
    versitygw = await startVersitygw();
  });
  afterAll(() => versitygw.close());

  test('keeps the files of a service on a server', async () => {
    const { url, region, bucket, keyId, secret } = versitygw;
    const s3 = { id: 's3', type: 's3', url, region, bucket, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
    const local = await startHere({ args: [await fileWith([s3])], env: { S3_KEY: keyId, S3_SECRET: secret } });
    try {
      const { fileId, cid } = await store(local, 'plain', new Uint8Array(100_000).fill(3));
      expect((await keysOf(versitygw)).filter((key) => key.endsWith(`cid/${cid}`))).toHaveLength(1);
      expect((await ask(local, 'getFile', { fileId })).status).toBe(200);
    } finally {
      await remove(local);
    }
  });
});

test('a start with wrong settings names each of them, and says where they are described', async () => {
  const wrong = Object.fromEntries(taken.map((name) => [name, name === 'BACKUP_DAYS' ? '' : 'a word']));
  const said = await refusal({ args: [await fileWith([node()])], env: { ...wrong, IPFS_TOKEN: 'token-of-second' } });
  const [refused] = said.split('\n').flatMap((line) => (line.includes('"config_invalid"') ? [line] : []));
  const { detail, hint } = JSON.parse(present(refused)) as { detail: string; hint: string };
  const named = detail.split('; ').map((each) => /^\w+/.exec(each)?.[0] ?? '');
  expect(named.toSorted()).toEqual(taken.filter((name) => name !== 'BACKUP_DAYS').toSorted());
  expect(hint).toContain('docs/operating.md');
});

test('secrets are those that entries name, and settings those of the manual', () => {
  const entries = [
    { id: 'a', type: 's3', keySecret: 'A', secretSecret: 'B' },
    { id: 'b', type: 'cluster', tokenSecret: 'A', ipfsTokenSecret: 'C' },
  ];
  const all = { A: '1', B: '2', C: '3', D: '4', REPLICAS: '2', ADMIN_TOKEN: 'mine', SERVICE_ID: 'mine', PATH: '/bin' };
  expect(parseBackends(JSON.stringify(entries), 'b.json', all).secrets).toEqual({ A: '1', B: '2', C: '3' });
  expect(settingsIn(all)).toEqual({ settings: { REPLICAS: '2' }, ignored: ['SERVICE_ID', 'ADMIN_TOKEN'] });
  const documented = Object.fromEntries(documentedSettings.map((name) => [name, '1']));
  const { settings, ignored } = settingsIn(documented);
  expect([...Object.keys(settings), ...ignored].toSorted()).toEqual([...documentedSettings].toSorted());
});
