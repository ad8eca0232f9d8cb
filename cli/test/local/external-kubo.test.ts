/**
 * `sealpin start --kubo-api`: which Kubo is used, what is remembered and refused, and what is said
 * of it. Embedded nodes stand in for Kubos, whose RPC they speak; cli/test/node/kubo.test.ts tries
 * the same with real ones.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, realpath, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { inCi, long } from '../../../testkit/long-run.ts';
import { isSealpinError } from '../../../shared/errors.ts';
import { control } from '../../local/control.ts';
import { askKubo, describeLeft, parseKuboWish } from '../../local/backends/external-kubo.ts';
import { heldLog, printReady } from '../../local/start-output.ts';
import { quoted } from '../../terminal/local-commands.ts';
import { readState, localPaths } from '../../local/state.ts';
import { contextIn } from '../environment.ts';
import { hostile, json } from '../hostile.ts';
import { directory, node, token } from '../node/node-harness.ts';
import { type RunningHere, api, ask, here, refusal, remove, sealpin, startHere } from './harness.ts';
import { itemOf, present } from '../../../testkit/present.ts';

const env = { SEALPIN_KUBO_TOKEN: token, SEALPIN_PASSWORD: 'a long password of the tests' };

async function started(o: Partial<Parameters<typeof startHere>[0]> = {}): Promise<RunningHere> {
  const local = await startHere({ env, dataDir: await directory(), ...o });
  onTestFinished(() => remove(local));
  return local;
}

/** Encrypts a few bytes; gives the blob ID and what was said. */
async function store(local: RunningHere, text: string): Promise<{ cid: string; said: string }> {
  const file = join(await directory(), 'file');
  await writeFile(file, text);
  const ran = await here(['encrypt', file, `--data-dir=${local.dataDir}`], env);
  expect(ran).toMatchObject({ code: 0 });
  return { cid: ran.stdout.trim(), said: ran.stderr };
}

/** Returns what a start in the background prints when the service is ready. */
async function saidWhenReady({ dataDir, url }: RunningHere): Promise<string> {
  const context = contextIn(dataDir);
  const paths = localPaths(dataDir);
  const others = await control({ dataDir }, 'status');
  await printReady(context, { url, account: '', others, keyFile: paths.secrets, stop: '' });
  return context.stderr.text;
}

const decrypt = (local: RunningHere, cid: string) => here(['decrypt', cid, '-', `--data-dir=${local.dataDir}`], env);
const status = (local: RunningHere, ...flags: string[]) => here(['status', ...flags, `--data-dir=${local.dataDir}`]);

/** A Kubo with the given responses. */
async function fake(answers: Record<string, [status: number, body: unknown]>): Promise<string> {
  const all = { version: [200, { Version: '0.43.1' }], id: [200, { ID: '12D3KooWabcdefgh' }], ...answers };
  const routes = Object.entries(all).map(([command, [code, body]]) => [
    `POST /api/v0/${command}`,
    (_: unknown, response: Parameters<typeof json>[0]) => json(response, code as number, body),
  ]);
  return (await hostile(Object.fromEntries(routes) as Parameters<typeof hostile>[0])).url;
}

const failure = async (asked: Promise<unknown>): Promise<string[]> => {
  const thrown: unknown = await asked.catch((error: unknown) => error);
  if (!isSealpinError(thrown)) throw new Error('it did not fail');
  return [thrown.code, thrown.message, thrown.hint ?? ''];
};

describe('the value of --kubo-api', () => {
  test.each([
    ['http://127.0.0.1:5001', 'http://127.0.0.1:5001'],
    ['http://127.0.0.1:5001/', 'http://127.0.0.1:5001'],
    ['http://127.0.0.1:5001/api/v0', 'http://127.0.0.1:5001'],
    ['http://[::1]:5001/api/v0/', 'http://[::1]:5001'],
    ['https://kubo.example.com/one/api/v0', 'https://kubo.example.com/one'],
  ])('%s is the address %s', (text, url) => {
    expect(parseKuboWish(text, 'secret')).toEqual({ url, token: 'secret' });
  });

  test.each([
    ['kubo', undefined, '--kubo-api is not a URL'],
    ['/ip4/127.0.0.1/tcp/5001', undefined, '--kubo-api is not a URL'],
    ['ftp://127.0.0.1', undefined, '--kubo-api is not a URL'],
    ['http://user:canary@127.0.0.1:5001', undefined, '--kubo-api contains a user or a password'],
    ['http://127.0.0.1:5001/?a=b', undefined, '--kubo-api contains a query or a fragment'],
    ['http://192.0.2.7:5001', 'canary', 'SEALPIN_KUBO_TOKEN would be sent to 192.0.2.7:5001 unencrypted'],
    [
      'http://127.0.0.1:5001',
      'canary\n',
      'SEALPIN_KUBO_TOKEN is not a bearer token: it has characters other than printable ASCII',
    ],
  ])('%s is refused, and nothing secret is repeated', (text, secret, message) => {
    expect(() => parseKuboWish(text, secret)).toThrow(expect.objectContaining({ code: 'usage', message }));
    expect(message).not.toContain('canary');
  });

  test('http: to another machine is taken without a token', () => {
    expect(parseKuboWish('http://192.0.2.7:5001', '')).toEqual({ url: 'http://192.0.2.7:5001', token: undefined });
  });
});

describe('the report of a Kubo', () => {
  test.each([
    ['its peers', { 'swarm/peers': [200, { Peers: [{}, {}] }] }, 2],
    ['no peers', { 'swarm/peers': [200, { Peers: null }] }, 0],
    ['that it is offline', { 'swarm/peers': [500, { Message: 'this action must be run in online mode, try …' }] }, 0],
    ['nothing of its peers', { 'swarm/peers': [403, {}] }, undefined],
    ['nonsense for its peers', { 'swarm/peers': [200, { Peers: 'many' }] }, undefined],
  ] as [string, Record<string, [number, unknown]>, number | undefined][])('%s', async (_, answers, peers) => {
    const url = await fake(answers);
    expect(await askKubo({ url })).toEqual({
      version: '0.43.1',
      peerId: '12D3KooWabcdefgh',
      ...(peers === undefined ? {} : { peers }),
    });
  });

  test.each([
    [
      'a refused token',
      { version: [403, {}] },
      'wrong',
      'refuses the command version (status 403)',
      'SEALPIN_KUBO_TOKEN must be',
    ],
    [
      'a missing token',
      { version: [401, {}] },
      undefined,
      'refuses the command version (status 401)',
      'set SEALPIN_KUBO_TOKEN',
    ],
    [
      'a token without id',
      { id: [403, {}] },
      'narrow',
      'refuses the command id (status 403)',
      'may use version and id',
    ],
    [
      'a gateway',
      { version: [404, '404 page not found'] },
      undefined,
      'is not the RPC address of a Kubo (status 404)',
      'port 5001',
    ],
    [
      'another service',
      { version: [200, { version: 1 }] },
      undefined,
      'is not the RPC address of a Kubo (status 200)',
      'port 5001',
    ],
    [
      'escapes in the peer ID',
      { id: [200, { ID: '\u001B[2J' }] },
      undefined,
      'is not the RPC address of a Kubo',
      'port 5001',
    ],
  ] as [string, Record<string, [number, unknown]>, string | undefined, string, string][])(
    '%s is reported',
    async (_, answers, secret, message, hint) => {
      const url = await fake(answers);
      expect(await failure(askKubo({ url, token: secret }))).toEqual([
        'config_invalid',
        expect.stringContaining(message),
        expect.stringContaining(hint),
      ]);
    },
  );

  test('an address where nothing listens is reported', async () => {
    const gone = await node();
    await gone.close();
    expect(await failure(askKubo({ url: gone.url }))).toEqual([
      'service_unreachable',
      `the Kubo at ${gone.url} cannot be reached: connection refused`,
      'is its daemon running? Start it, or go without it: --kubo-api none',
    ]);
  });
});

describe('sealpin start', () => {
  test.each([[[]], [['--detach']]])('%j does not start with a Kubo that refuses the token', async (flags) => {
    const kubo = await node();
    const dataDir = await directory();
    const ran = await here(
      ['start', '--port=0', `--kubo-api=${kubo.url}`, '--json', `--data-dir=${dataDir}`, ...flags],
      { SEALPIN_KUBO_TOKEN: 'canary' },
    );
    expect(ran).toMatchObject({ code: 1, stdout: '' });
    expect(JSON.parse(ran.stderr)).toMatchObject({ code: 'config_invalid', detail: expect.stringContaining(kubo.url) });
    expect(ran.stderr).not.toContain('canary');
    expect(await readState(dataDir, 'kubo')).toBeUndefined();
  });

  inCi('stores in the Kubo from then on, reads what either node has, and names the one that is down', async () => {
    const kubo = await node();
    let local = await started();
    const { dataDir } = local;
    const inNode = await store(local, 'in the embedded node');
    expect(inNode.said).toContain('stored on this computer only');
    await local.end();

    local = await started({ dataDir, args: [`--kubo-api=${kubo.url}/api/v0`] });
    const inKubo = await store(local, 'in the Kubo');
    expect(inKubo.said).toBe(
      `sealpin: stored in the Kubo at ${kubo.url}: if it is connected to the IPFS network, anyone with the blob ` +
        'ID can fetch the encrypted bytes\n',
    );
    expect(await decrypt(local, inNode.cid)).toMatchObject({ code: 0, stdout: 'in the embedded node' });
    expect(await decrypt(local, inKubo.cid)).toMatchObject({ code: 0, stdout: 'in the Kubo' });
    const ok = await status(local);
    expect(ok).toMatchObject({ code: 0 });
    expect(ok.stdout).toContain(`kubo      ${kubo.url}: ok (1.0.0-sealpin, number of peers unknown)\n`);
    await local.end();

    local = await started({ dataDir }); // the same Kubo without the flag
    expect((await store(local, 'more')).said).toContain(kubo.url);
    await kubo.close();
    expect(await decrypt(local, inNode.cid)).toMatchObject({ code: 0, stdout: 'in the embedded node' });
    const down = await decrypt(local, inKubo.cid);
    expect(down).toMatchObject({ code: 6, stdout: '' });
    expect(down.stderr).toContain('the pinning service kubo does not answer at the moment');
    const { files } = await api(local).listFiles({ cid: inKubo.cid });
    const read = await ask(local, 'getFile', { fileId: itemOf(files, 0).fileId });
    expect(await read.json()).toMatchObject({
      status: 503,
      code: 'pinning_unavailable',
      hint: 'the pinning service kubo does not answer at the moment',
    });
    const failing = await status(local, '--json');
    expect(failing).toMatchObject({ code: 6 });
    expect(JSON.parse(failing.stdout)).toMatchObject({
      kubo: { url: kubo.url, status: 'failing', reason: expect.stringContaining('connection refused') },
    });
    // The health is asked at most every 5 seconds: until then it may be that of the running Kubo.
    const health = async () => (await ask(local, 'getHealth')).status;
    await expect.poll(health, { timeout: 30_000, interval: 250 }).toBe(503);
    const refused = await here(['encrypt', import.meta.filename, `--data-dir=${dataDir}`], env);
    expect(refused).toMatchObject({ code: 6, stdout: '' });
    expect(refused.stderr).toContain('is degraded: a part of it does not respond, so some requests can fail');
    await local.end();

    expect(await refusal({ dataDir, env })).toContain(`the Kubo at ${kubo.url} cannot be reached`);
  });

  inCi('--kubo-api none leaves the Kubo, also later, and says what cannot be read', async () => {
    const kubo = await node();
    let local = await started({ args: [`--kubo-api=${kubo.url}`] });
    const { dataDir } = local;
    const { cid } = await store(local, 'in the Kubo');
    const both = await api(local).store('plain', 'in both');
    expect(both.pins).toEqual([{ service: 'kubo', status: 'pinned' }]);
    const { files } = await api(local).listFiles({ cid });
    await local.end();

    for (const args of [['--kubo-api=none'], []]) {
      local = await started({ dataDir, args });
      // What the first start says, the later one says because of it.
      if (!long && args.length > 0) {
        await local.end();
        continue;
      }
      const reported = await status(local);
      expect(reported).toMatchObject({ code: 0 });
      expect(reported.stdout).toContain(`kubo      ${describeLeft({ url: kubo.url, files: 2, deletions: 0 })}\n`);
      const hint = 'the bytes are at the pinning service kubo, which this service does not use at the moment';
      const unread = await decrypt(local, cid);
      expect(unread).toMatchObject({ code: 6, stdout: '' });
      expect(unread.stderr).toContain(hint);
      const answer = await ask(local, 'getFileContent', { fileId: itemOf(files, 0).fileId });
      expect(answer.status).toBe(503);
      expect(await answer.json()).toMatchObject({ code: 'pinning_unavailable', hint });
      expect((await store(local, 'here')).said).toContain('stored on this computer only');
      expect((await api(local).store('plain', 'in both')).cid).toBe(both.cid);
      expect((await api(local).getByCid({ cid: both.cid })).toString()).toBe('in both');
      await local.end();
    }
    if (!long) return;
    local = await started({ dataDir, args: [`--kubo-api=${kubo.url}`] });
    expect(await decrypt(local, cid)).toMatchObject({ code: 0, stdout: 'in the Kubo' });
  });

  inCi('says that a deletion waits for the Kubo, in its log and at a start without it', async () => {
    const kubo = await node();
    const dataDir = await directory();
    const flag = `--data-dir=${dataDir}`;
    const first = long ? undefined : await started({ dataDir, args: [`--kubo-api=${kubo.url}`] });
    // Before the data directory is removed, which says where the service is.
    onTestFinished(async () => void (await here(['stop', flag])));
    const said =
      first === undefined
        ? (await sealpin(['start', '--detach', '--port=0', `--kubo-api=${kubo.url}`, flag], env)).stderr
        : await saidWhenReady(first);
    expect(said).toContain(`new files go to the Kubo at ${kubo.url} (1.0.0-sealpin, number of peers unknown)\n`);
    const stored = await here(['encrypt', import.meta.filename, '--generate', flag]);
    await kubo.close();
    expect(await here(['delete', stored.stdout.trim(), flag])).toMatchObject({ code: 0 });
    const log = async () => first?.stderr() ?? (await readFile(join(dataDir, 'local', 'service.log'), 'utf8'));
    await expect
      .poll(log)
      .toContain(long ? 'what no file needs any more at kubo is still pinned there (' : '"event":"pin.unpin"');
    await here(['stop', flag]);

    const without = long
      ? (await sealpin(['start', '--detach', '--port=0', '--kubo-api=none', flag])).stderr
      : await saidWhenReady(await started({ dataDir, args: ['--kubo-api=none'] }));
    expect(without).toContain(
      `warning: 1 deletion of this data directory waits for the Kubo at ${kubo.url}: it is not in use; to use it ` +
        `again, start with --kubo-api ${kubo.url}\n`,
    );
  });

  inCi('another Kubo is refused while files are in the first one, and taken while none are', async () => {
    // The peer ID of an embedded node is made of its token.
    const [first, second] = [await node({ token: 'token of the first' }), await node()];
    const firstEnv = { SEALPIN_KUBO_TOKEN: 'token of the first' };
    let local = await started({ args: [`--kubo-api=${first.url}`], env: firstEnv });
    const { dataDir } = local;
    await local.end();
    local = await started({ dataDir, args: [`--kubo-api=${second.url}`] });
    const { cid } = await store(local, 'in the second');
    await local.end();

    const { peerId } = present(await readState(dataDir, 'kubo'));
    expect(await refusal({ dataDir, args: [`--kubo-api=${first.url}`], env: firstEnv })).toMatch(
      new RegExp(
        `the Kubo at ${first.url} is not the one with your files: its peer ID is \\w+, and 1 file of this data ` +
          `directory is at the Kubo ${peerId}, last seen at ${second.url}"`,
      ),
    );
    expect(await readState(dataDir, 'kubo')).toMatchObject({ url: second.url, peerId, inUse: true });

    // The same one at another address is the same one.
    await second.close();
    const moved = await node({ dir: second.dir });
    local = await started({ dataDir, args: [`--kubo-api=${moved.url}`] });
    expect(await decrypt(local, cid)).toMatchObject({ code: 0, stdout: 'in the second' });
  });

  inCi('shows its first requests below its address, and pins that are left', async () => {
    const context = contextIn(await directory());
    const log = heldLog(context);
    log.line('{"event":"request","method":"POST","route":"/v1/operator/accounts","status":201,"ms":3}');
    await printReady(context, { url: 'http://127.0.0.1:1', account: '', others: {}, keyFile: 'k', stop: 'the end' });
    log.release();
    log.line('{"event":"request","method":"GET","route":"/","status":200,"ms":1}');
    log.line('{"event":"pin.unpin","service":"kubo","error":"away"}');
    expect(context.stderr.text).toMatch(
      / listens at [^]*the end\n.* POST \/v1\/operator\/accounts 201.*\n.* GET \/ 200.*\n/,
    );
    expect(context.stderr.text).toContain(
      ' what no file needs any more at kubo is still pinned there (away); unpinning is retried later\n',
    );
  });
});

describe('beside a service that runs, sealpin start', () => {
  let local: RunningHere;
  beforeAll(async () => {
    local = await startHere({ dataDir: await realpath(await mkdtemp(join(tmpdir(), "sealpin's-test-"))) });
  });
  afterAll(() => remove(local));

  test('reports where that one is, and what was not applied', async () => {
    const flag = `--data-dir=${local.dataDir}`;
    const plain = await here(['start', '--detach', flag]);
    const named = `--data-dir ${quoted(local.dataDir)}`;
    expect(plain.stderr).toBe(
      `sealpin: error: the local service is already running at ${local.url}\n` +
        `sealpin: hint: see: sealpin status ${named}\n`,
    );
    const flags = await here(['start', '--port=0', '--kubo-api=http://127.0.0.1:1', '--json', flag]);
    expect(flags).toMatchObject({ code: 1, stdout: '' });
    expect(JSON.parse(flags.stderr)).toMatchObject({
      code: 'already_running',
      detail: `the local service is already running at ${local.url}; --port and --kubo-api were not applied`,
      hint: `stop it first with: sealpin stop ${named}`,
    });
  });

  test('prints a curl command that works in sh, without the key in it', async () => {
    const { apiKey } = local;
    const command = itemOf(
      present(/^sealpin: try the HTTP API:\n((?: {2}.*\n)+)/m.exec(await saidWhenReady(local))),
      1,
    );
    expect(command).not.toContain(apiKey);
    const { stdout } = await promisify(execFile)('sh', ['-c', command]);
    expect(JSON.parse(stdout)).toEqual({ files: [] });
  });
});
