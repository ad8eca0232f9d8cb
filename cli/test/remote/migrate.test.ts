/**
 * Tests of how `sealpin migrate` follows a migration of a deployed service; what moves is in
 * `node/kubo-migration.test.ts`.
 */
import { describe, expect, test } from 'vitest';
import type { Migration, SurveyedPin } from '../../../shared/api.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { hostile, json, type Hostile } from '../hostile.ts';
import { Collector, type Overrides, type Ran, run } from '../environment.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';

const own: Migration = {
  from: 'a',
  to: 'b',
  state: 'running',
  startedAt: '2026-01-02T03:04:05.000Z',
  total: 10,
  left: 8,
  failed: 0,
};
const reason = 'invalid_request';
const detail = 'the file has too many small blocks for an object store';
const refusedPin: SurveyedPin = {
  cid: `bafybei${'a'.repeat(52)}`,
  service: 'b',
  state: 'failed',
  reason,
  detail,
  attempts: 3,
  files: [1, 2].map((n) => ({ account: '0'.repeat(22), fileId: `3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b1${n}` })),
};
const failedPins = [{ ...refusedPin, service: 'c' }, refusedPin];
/** One that the same service began before. */
const earlier: Migration = { ...own, to: 'c', state: 'cancelled', total: 3, left: 3 };

/**
 * A service that says these things, one after the other, when it is asked how far the migrations
 * are.
 */
function serviceThatSays(...answers: readonly (Migration[] | (() => void))[]): Promise<Hostile> {
  return serviceWith({ failed: failedPins }, answers);
}

/** Such a service, with pins in these states. */
async function serviceWith(
  { failed = [], lost = [] }: { failed?: SurveyedPin[]; lost?: SurveyedPin[] },
  answers: readonly (Migration[] | (() => void))[],
): Promise<Hostile> {
  const rest = [...answers];
  return hostile({
    'GET /v1/operator/pins?state=failed': (_request, response) => json(response, 200, { pins: failed }),
    'GET /v1/operator/pins?state=lost': (_request, response) => json(response, 200, { pins: lost }),
    'POST /v1/operator/migrations': (_request, response) => json(response, 202, own),
    'GET /v1/operator/migrations': (_request, response) => {
      const answer = rest.shift();
      if (typeof answer === 'function') answer();
      else if (answer === undefined) response.writeHead(502).end();
      else json(response, 200, { migrations: answer });
    },
  });
}

const migrate = ({ url }: Hostile, o: Overrides = {}): Promise<Ran> =>
  run(['migrate', 'a', 'b', '--service', url], '/', { env: { SEALPIN_ADMIN_TOKEN: 'secret' }, ...o });

describe('a migration that is followed', () => {
  test('shows how many blobs have moved, those before the command included, until all have', async () => {
    const moved = [{ left: 4 }, { left: 1, failed: 1 }, { left: 0, failed: 1, state: 'done' as const }];
    const service = await serviceThatSays(...moved.map((each) => [earlier, { ...own, ...each }]));
    const stderr = new Collector();
    stderr.isTTY = true;
    let now = Date.now();
    const ran = await migrate(service, { stderr, now: () => (now += 1000) });
    expect(ran).toMatchObject({
      exit: 0,
      stdout: expect.stringMatching(/^a to b {2}done {2}0 of 10 left, 1 failed so far {2}/),
    });
    expect(Array.from(ran.stderr.matchAll(/(\d+ of 10)/g), ([, share]) => share)).toEqual([
      '2 of 10',
      '6 of 10',
      '9 of 10',
      '10 of 10',
    ]);
    expect(ran.stderr).toContain('done: a holds nothing of ours any more\n');
    expect(service.seen.map(({ headers }) => headers.authorization)).toEqual(service.seen.map(() => 'Bearer secret'));
  });

  test('ends where all that is left was refused, and names each file with the reason', async () => {
    const left = { ...own, left: 1, failed: 1 };
    const ran = await migrate(
      await serviceThatSays([{ ...own, failed: 1 }], ...Array.from({ length: 5 }, () => [left])),
    );
    expect(ran).toMatchObject({ exit: 1, stdout: expect.stringContaining('1 of 10 left, 1 failed so far') });
    expect(ran.stderr).toBe(
      `sealpin: warning: ${refusedPin.cid} (file ${refusedPin.files[0]?.fileId} and 1 more): b does not take it: ` +
        `${detail}; it stays where it is; store its bytes again, as they are, to have it there\n` +
        'sealpin: continues in the background; progress: sealpin migrate --status\n',
    );
    const service = await serviceThatSays([left]);
    const env = { SEALPIN_ADMIN_TOKEN: 'secret' };
    const status = await run(['migrate', '--status', '--service', service.url, '--json'], '/', { env });
    expect(status.exit).toBe(0);
    expect(JSON.parse(status.stdout)).toEqual({ migrations: [left], refused: [refusedPin] });
  });

  const others: [string, { lost?: SurveyedPin[] }, number][] = [
    ['lost where it was moved to', { lost: [{ ...refusedPin, state: 'lost' }] }, 1],
    ['tried again by now', {}, 0],
  ];
  test.each(ci ? others : others.slice(0, 1))(
    'ends where all that is left was not copied, and fails: %s',
    async (_, pins, named) => {
      const left = { ...own, left: 1, failed: 1 };
      const ran = await migrate(
        await serviceWith(
          pins,
          Array.from({ length: 5 }, () => [left]),
        ),
      );
      expect(ran).toMatchObject({ exit: 1, stdout: expect.stringContaining('1 of 10 left, 1 failed so far') });
      expect(ran.stderr.split('sealpin: warning: ')).toHaveLength(1 + named);
    },
  );

  test('and is cancelled meanwhile, or gives way to another one, fails', async () => {
    for (const answer of [[{ ...own, state: 'cancelled' as const }], [earlier]]) {
      const ran = await migrate(await serviceThatSays(answer));
      expect(ran).toMatchObject({ exit: 1, stdout: '' });
      expect(ran.stderr).toContain('the migration from a to b was cancelled meanwhile');
    }
  });

  inCi('continues at the service when the command is interrupted or loses the service, and it says so', async () => {
    const goesOn = 'the migration continues without this command; how far it is: sealpin migrate --status\n';
    const lost = await migrate(await serviceThatSays([own]));
    expect(lost).toMatchObject({ exit: 6, stdout: '' });
    expect(lost.stderr).toContain(goesOn);
    const stop = new AbortController();
    const interrupted = await migrate(await serviceThatSays([own], () => stop.abort(new SealpinError('interrupted'))), {
      signal: stop.signal,
    });
    expect(interrupted).toMatchObject({ exit: 130, stdout: '' });
    expect(interrupted.stderr).toContain(goesOn);
  });
});

test('a cancellation that is refused is not taken for a migration that is not there', async () => {
  const refusal = { type: 'about:blank', title: 'Forbidden', status: 403, code: 'forbidden', detail: 'not from here' };
  const { url } = await hostile({
    'DELETE /v1/operator/migrations/a/b': (_request, response) => json(response, 403, refusal),
  });
  const ran = await run(['migrate', 'a', 'b', '--cancel', '--service', url], '/', {
    env: { SEALPIN_ADMIN_TOKEN: 'secret' },
  });
  expect(ran).toMatchObject({ exit: 4, stdout: '', stderr: expect.stringContaining('not from here') });
});

test('a service that is not the local one is asked to move nothing without both names', async () => {
  const service = await serviceThatSays();
  for (const ids of [[], ['a']]) {
    const argv = ['migrate', ...ids, '--service', service.url];
    const ran = await run(argv, '/', { env: { SEALPIN_ADMIN_TOKEN: 'secret' } });
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain('give both IDs, as in BACKENDS');
  }
  expect(service.seen).toEqual([]);
});
