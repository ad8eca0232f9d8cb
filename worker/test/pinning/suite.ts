/** The contract of a pinning service as tests: what an honest one does. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bytesOf, type Scenario } from './scenario.ts';
import type { Runtime } from './runtimes.ts';

export type Honest = { url: string; token: string; close(): Promise<void> };

type Rest<T> = T extends unknown ? Omit<T, 'url' | 'token'> : never;

const latin1 = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');

/** Two leaves, 1 byte and nothing, by `unixfs-v1-2025`. */
const files = [
  { bytes: 1_500_000, cid: 'bafybeih2kan3l26ikzwuahxt5bfqhr6iicyswpmlehj74ycn3xdtaxrwru' },
  { bytes: 1, cid: 'bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu' },
  { bytes: 0, cid: 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku' },
];

/** Runs the contract against a service that is started for it. */
export function contract(open: () => Promise<Runtime>, start: () => Promise<Honest>): void {
  let runtime: Runtime;
  let honest: Honest;
  beforeAll(async () => {
    [runtime, honest] = await Promise.all([open(), start()]);
  });
  afterAll(async () => {
    await runtime.close();
    await honest.close();
  });
  const play = (scenario: Rest<Scenario>) => runtime.play({ ...scenario, url: honest.url, token: honest.token });

  test.each(files)('put, stat, block, read and unpin of $bytes bytes', async ({ bytes, cid }) => {
    for (const announced of [bytes, undefined]) {
      expect(await play({ method: 'put', bytes, ...(announced !== undefined && { announced }) })).toEqual({
        value: { cid },
        last: true,
        cancelled: false,
      });
      expect((await play({ method: 'stat', cid })).value).toEqual({ pin: 'ours' });
      const whole = latin1(bytesOf(bytes));
      if (bytes < 1_048_576) expect((await play({ method: 'block', cid })).value).toBe(whole);
      for (const [offset, length] of [
        [0, bytes],
        [1_048_576, 400_000],
        [bytes, 1],
      ] as const) {
        if (offset > bytes || length === 0) continue;
        expect(
          (await play({ method: 'read', cid, offset, length })).value === whole.slice(offset, offset + length),
          `${length} from ${offset}`,
        ).toBe(true);
      }
      expect((await play({ method: 'unpin', cid })).value).toBe('removed');
      expect((await play({ method: 'unpin', cid })).value).toBe('absent');
      expect((await play({ method: 'stat', cid })).value).toEqual({ pin: 'absent' });
    }
  });

  test('put twice is one pin', async () => {
    const [{ bytes, cid }] = [files[1]!];
    await play({ method: 'put', bytes });
    await play({ method: 'put', bytes });
    expect((await play({ method: 'unpin', cid })).value).toBe('removed');
    expect((await play({ method: 'stat', cid })).value).toEqual({ pin: 'absent' });
  });

  test.each<[string, Rest<Scenario>, { code?: string; message?: string }]>([
    ['a body that breaks', { method: 'put', bytes: 1_500_000, body: 'breaks' }, { message: 'the body broke' }],
    [
      'a body that breaks at its announced end',
      { method: 'put', bytes: 1_500_000, announced: 1_500_000, body: 'breaks' },
      { message: 'the body broke' },
    ],
    [
      'an upload that is aborted before its last bytes',
      { method: 'put', bytes: 1_500_000, last: 'abort' },
      { message: 'it was aborted' },
    ],
    [
      'an upload that is aborted, its length announced',
      { method: 'put', bytes: 1_500_000, announced: 1_500_000, last: 'abort' },
      { message: 'it was aborted' },
    ],
    [
      'a caller who leaves before the last bytes',
      { method: 'put', bytes: 1_500_000, announced: 1_500_000, last: 'leave' },
      { message: 'the caller left' },
    ],
    [
      'a body shorter than announced',
      { method: 'put', bytes: 1_500_000, announced: 1_500_001 },
      { code: 'body_incomplete' },
    ],
    [
      'a body longer than announced',
      { method: 'put', bytes: 1_500_000, announced: 1_499_999 },
      { code: 'body_incomplete' },
    ],
    [
      'a caller who leaves',
      { method: 'put', bytes: 1_500_000, body: 'stalls', abortAfterMs: 100 },
      { message: 'the caller left' },
    ],
  ])('S69: %s pins nothing', async (_, scenario, error) => {
    const cid = 'bafybeih2kan3l26ikzwuahxt5bfqhr6iicyswpmlehj74ycn3xdtaxrwru';
    expect((await play(scenario)).error).toMatchObject(error);
    expect((await play({ method: 'stat', cid })).value).toEqual({ pin: 'absent' });
    // Nor does it appear later.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await play({ method: 'stat', cid })).value).toEqual({ pin: 'absent' });
  });

  test('a block that it does not hold is reported at once', async () => {
    const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
    expect((await play({ method: 'block', cid })).error).toMatchObject({ code: 'pinning_lost' });
    expect((await play({ method: 'read', cid, offset: 0, length: 5 })).error).toMatchObject({ code: 'pinning_lost' });
  });

  test('ping returns the version; a wrong token has an error of its own', async () => {
    expect((await play({ method: 'ping' })).value).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    for (const scenario of [
      { method: 'ping' },
      { method: 'put', bytes: 3_000_000 },
      { method: 'stat', cid: files[1]!.cid },
    ] as Rest<Scenario>[]) {
      const { error } = await runtime.play({ ...scenario, url: honest.url, token: 'wrong' });
      expect(error).toMatchObject({
        code: 'misconfigured',
        message: expect.stringMatching(`^tested at ${honest.url}: it refused our credentials for .* \\(403\\)$`),
        hint: expect.stringContaining('refused the credentials'),
      });
    }
  });
}
