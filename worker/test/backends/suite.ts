/** The contract of a pinning service as tests: what an honest one does. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bytesOf, type Scenario } from './scenario.ts';
import type { Runtime } from './runtimes.ts';
import { first, itemOf } from '../../../testkit/present.ts';
import { inCi } from '../../../testkit/long-run.ts';

export type Honest = Pick<Scenario, 'url' | 'cluster'> & { token: string; close(): Promise<void> };

/** Actions of others at a service, past the adapter. */
export type Others<H> = {
  collect(service: H): Promise<unknown>;
  pin(service: H, cid: string, name: string): Promise<unknown>;
  unpin(service: H, cid: string): Promise<unknown>;
};

export type Rest<T> = T extends unknown ? Omit<T, 'url' | 'token' | 'cluster'> : never;

const latin1 = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');

/** Two leaves, 1 byte and nothing, by `unixfs-v1-2025`. */
const files = [
  { bytes: 1_500_000, cid: 'bafybeih2kan3l26ikzwuahxt5bfqhr6iicyswpmlehj74ycn3xdtaxrwru' },
  { bytes: 1, cid: 'bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu' },
  { bytes: 0, cid: 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku' },
];

/** The first file, which has blocks to lose. */
const { bytes, cid } = first(files);

/** A Kubo that is online must not search for a missing block for as long as a pin may take. */
const timeouts = { pinMs: 300_000 };

/** Sends a command to a node as its user would. */
export async function ask(
  { url, token }: Honest,
  command: string,
  query: Record<string, string> = {},
): Promise<string> {
  const response = await fetch(`${url}/api/v0/${command}?${new URLSearchParams(query).toString()}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}` },
  });
  const answer = await response.text();
  expect(response.status, answer).toBe(200);
  return answer;
}

/** Others, by the RPC of Kubo. */
const byRpc: Others<Honest> = {
  collect: (node) => ask(node, 'repo/gc'),
  pin: (node, cid, name) => ask(node, 'pin/add', { arg: cid, name }),
  unpin: (node, cid) => ask(node, 'pin/rm', { arg: cid }),
};

/** Runs the contract against a service that speaks Kubo's RPC and is started for it. */
export function contract(open: () => Promise<Runtime>, start: () => Promise<Honest>): void {
  contractWith(open, start, byRpc);
}

/** Runs the contract against a service that is started for it. */
export function contractWith<H extends Honest>(
  open: () => Promise<Runtime>,
  start: () => Promise<H>,
  others: Others<H>,
): void {
  const ours = { pin: 'ours' };
  let runtime: Runtime;
  let honest: H;
  beforeAll(async () => {
    [runtime, honest] = await Promise.all([open(), start()]);
  });
  afterAll(async () => {
    await runtime.close();
    await honest.close();
  });
  const play = (scenario: Rest<Scenario>, token = honest.token) => {
    const { url, cluster } = honest;
    return runtime.play({ ...scenario, url, token, ...(cluster && { cluster }) });
  };
  const collect = () => others.collect(honest);

  test.each(files)('import, pin, stat, block, read and unpin of $bytes bytes', async (file) => {
    expect(await play({ method: 'import', bytes: file.bytes })).toEqual({ value: file.cid });
    expect((await play({ method: 'stat', cid: file.cid })).value).toEqual({ pin: 'absent' });
    expect(await play({ method: 'pin', ...file })).toEqual({});
    expect((await play({ method: 'stat', cid: file.cid })).value).toEqual(ours);
    await collect();
    const whole = latin1(bytesOf(file.bytes));
    if (file.bytes < 1_048_576) expect((await play({ method: 'block', cid: file.cid })).value).toBe(whole);
    for (const [offset, length] of [
      [0, file.bytes],
      [1_048_576, 400_000],
      [file.bytes, 1],
    ] as const) {
      if (offset > file.bytes || length === 0) continue;
      expect(
        (await play({ method: 'read', cid: file.cid, offset, length })).value === whole.slice(offset, offset + length),
        `${length} from ${offset}`,
      ).toBe(true);
    }
    expect((await play({ method: 'unpin', cid: file.cid })).value).toBe('removed');
    expect((await play({ method: 'unpin', cid: file.cid })).value).toBe('absent');
    expect((await play({ method: 'stat', cid: file.cid })).value).toEqual({ pin: 'absent' });
  });

  test('a file imported and pinned twice has one pin', async () => {
    for (let round = 0; round < 2; round += 1) expect(await play({ method: 'store', bytes })).toEqual({ value: cid });
    expect((await play({ method: 'unpin', cid })).value).toBe('removed');
    expect((await play({ method: 'stat', cid })).value).toEqual({ pin: 'absent' });
  });

  test('a block that comes twice counts twice, and an import of nothing is complete', async () => {
    // The values of bytes repeat from the 256th on.
    expect((await play({ method: 'import', bytes: 300, blockBytes: 1 })).error).toBeUndefined();
    expect((await play({ method: 'import', bytes: 1, fault: 'none' })).error).toBeUndefined();
  });

  test.each<[string, Rest<Scenario>, { code?: string; message?: string }]>([
    ['is aborted', { method: 'import', bytes, fault: 'abort' }, { message: 'it was aborted' }],
    ['loses its caller', { method: 'import', bytes, fault: 'leave' }, { message: 'the caller left' }],
    [
      'stalls until its caller leaves',
      { method: 'import', bytes, fault: 'stall', abortAfterMs: 200 },
      { message: 'the caller left' },
    ],
    ['has a block that is not of its CID', { method: 'import', bytes, fault: 'mangled' }, { code: 'pinning_failed' }],
  ])('S69: an import that %s is not complete, and nothing is pinned', async (_, scenario, error) => {
    expect((await play(scenario)).error).toMatchObject(error);
    expect((await play({ method: 'stat', cid })).value).toEqual({ pin: 'absent' });
  });

  inCi('a missing block is unavailable, to be sent again; the next pin does not wait for it', async () => {
    await collect();
    expect((await play({ method: 'import', bytes, fault: 'first' })).error).toBeUndefined();
    const missing = await play({ method: 'pin', cid, bytes, timeouts });
    expect(missing.error).toMatchObject({ code: 'pinning_unavailable', retryAfterSeconds: expect.any(Number) });
    expect((await play({ method: 'stat', cid })).value).toEqual({ pin: 'absent' });
    expect(await play({ method: 'store', bytes: 1, timeouts })).toEqual({ value: itemOf(files, 1).cid });
    expect(await play({ method: 'store', bytes, timeouts })).toEqual({ value: cid });
    for (const each of [cid, itemOf(files, 1).cid])
      expect((await play({ method: 'unpin', cid: each })).value).toBe('removed');
  });

  inCi('what is collected between import and pin is unavailable, to be sent again', async () => {
    await play({ method: 'import', bytes });
    await collect();
    for (const beside of [false, true]) {
      const { error } = await play({ method: 'pin', cid, bytes, beside, timeouts });
      expect(error).toMatchObject({
        code: 'pinning_unavailable',
        retryAfterSeconds: expect.any(Number),
        hint: expect.stringContaining('send them again'),
      });
    }
    expect(await play({ method: 'store', bytes })).toEqual({ value: cid });
    await collect();
    expect((await play({ method: 'read', cid, offset: 0, length: 1 })).value).toBe('\0');
    await play({ method: 'unpin', cid });
  });

  test.each(['my-backup', ''])('a pin of somebody else, named "%s", stays as it is', async (name) => {
    await play({ method: 'import', bytes });
    await others.pin(honest, cid, name);
    const foreign = { pin: 'foreign', name };
    expect((await play({ method: 'stat', cid })).value).toEqual(foreign);
    for (let round = 0; round < 2; round += 1)
      expect(await play({ method: 'store', bytes, beside: true })).toEqual({ value: cid });
    expect((await play({ method: 'stat', cid })).value).toEqual(foreign);
    expect((await play({ method: 'unpin', cid })).value).toBe('foreign');
    for (let round = 0; round < 2; round += 1)
      expect((await play({ method: 'unpinBeside', cid })).value).toBe('foreign');
    expect((await play({ method: 'stat', cid })).value).toEqual(foreign);
    await others.unpin(honest, cid);
    expect((await play({ method: 'unpinBeside', cid })).value).toBe('absent');
  });

  test('somebody else removes their pin: the bytes stay by the one beside it, until that is removed, too', async () => {
    const theirs = { owner: 'other' };
    expect(await play({ method: 'store', bytes, ...theirs })).toEqual({ value: cid });
    const foreign = { pin: 'foreign', name: 'sealpin:other' };
    expect((await play({ method: 'stat', cid })).value).toEqual(foreign);
    expect(await play({ method: 'store', bytes, beside: true })).toEqual({ value: cid });
    expect((await play({ method: 'unpin', cid, ...theirs })).value).toBe('removed');
    await collect();
    expect((await play({ method: 'read', cid, offset: 1_400_000, length: 1 })).value).toHaveLength(1);
    expect((await play({ method: 'unpinBeside', cid })).value).toBe('absent');
    await collect();
    const lost = { code: 'pinning_lost' };
    expect((await play({ method: 'read', cid, offset: 1_400_000, length: 1 })).error).toMatchObject(lost);
  });

  test('a block that it does not hold is reported at once', async () => {
    const unknown = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
    const lost = { code: 'pinning_lost' };
    expect((await play({ method: 'block', cid: unknown })).error).toMatchObject(lost);
    expect((await play({ method: 'read', cid: unknown, offset: 0, length: 5 })).error).toMatchObject(lost);
  });

  test('ping returns the version; a wrong token has an error of its own', async () => {
    expect((await play({ method: 'ping' })).value).toMatchObject({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    // An import goes to any of the peers.
    const addresses = honest.cluster?.peers.map(({ url }) => url) ?? [honest.url];
    for (const scenario of [
      { method: 'ping' },
      { method: 'import', bytes: 3_000_000 },
      { method: 'pin', cid: itemOf(files, 1).cid, bytes: 1 },
      { method: 'stat', cid: itemOf(files, 1).cid },
    ] as Rest<Scenario>[]) {
      const { error } = await play(scenario, 'wrong');
      expect(error).toMatchObject({
        code: 'misconfigured',
        message: expect.stringMatching(
          `^tested at (?:${addresses.join('|')}): it refused our credentials for .* \\(40[13]\\)(: .+)?$`,
        ),
        hint: expect.stringContaining('refused the credentials'),
      });
      expect(error?.message).not.toContain('wrong');
    }
  });
}
