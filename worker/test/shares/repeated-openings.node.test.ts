/**
 * Openings of shares that are repeated because their answers were lost: histories against a model,
 * crashes, and who may.
 */
import {
  array,
  assert,
  asyncProperty,
  constant,
  constantFrom,
  oneof,
  record as recordOf,
  tuple,
  type Arbitrary,
} from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { OpenedShare, ShareStatus } from '../../../shared/api.ts';
import type { Service } from '../../../testkit/service.ts';
import { jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { newOwner, shareObject, type Owner, ownerAt } from '../stored-state.ts';
import { ci, long } from '../../../testkit/long-run.ts';

const minuteMs = 60_000;
const repeatMinutes = 10;
const lifeMinutes = 25;
const gone = '410 gone';
const record = Buffer.alloc(500, 7).toString('base64');
const tokens = { first: crypto.randomUUID(), second: crypto.randomUUID() };

let service: Service;
let owner: Owner;
const restart = restartable('openings', (started) => (service = started));
beforeAll(async () => {
  owner = await newOwner(service);
});

async function share(opens: number): Promise<string> {
  const expiresAt = new Date(Date.now() + lifeMinutes * minuteMs).toISOString();
  const body = { record, files: [], password: false, opens, expiresAt };
  return (await owner.call.createShare(body)).id;
}

const open = (id: string, token?: string): Promise<Response> =>
  fetch(`${service.url}/v1/shares/${id}/open`, {
    method: 'POST',
    ...(token === undefined ? {} : { headers: { 'Idempotency-Key': token } }),
  });
const look = (id: string): Promise<ShareStatus> => jsonOf<ShareStatus>(fetch(`${service.url}/v1/shares/${id}`));
const isKept = async (id: string): Promise<boolean> =>
  ((await shareObject(service, id).rows('share'))[0]?.['record'] ?? null) !== null;

type Step =
  | { do: 'open'; token?: keyof typeof tokens }
  | { do: 'wait' | 'ring'; minutes: number }
  | { do: 'revoke' | 'crash' };

/** What anybody may see of a share: the rules, in minutes since it was made. */
class Model {
  now = 0;
  opened = 0;
  isRevoked = false;
  readonly until = new Map<string, number>();
  readonly opens: number;
  constructor(opens: number) {
    this.opens = opens;
  }

  get isExpired(): boolean {
    return this.now >= lifeMinutes;
  }
  /** Nothing is left of the record, but for what an alarm has not done yet. */
  get isEnded(): boolean {
    const repeatable = [...this.until.values()].some((until) => until > this.now);
    return this.isRevoked || this.isExpired || (this.opened === this.opens && !repeatable);
  }
  open(token: string | undefined): { opensLeft: number; isRepeated: boolean } | undefined {
    if (this.isEnded) return undefined;
    const isRepeated = token !== undefined && (this.until.get(token) ?? 0) > this.now;
    if (!isRepeated && this.opened === this.opens) return undefined;
    if (!isRepeated) this.opened += 1;
    if (!isRepeated && token !== undefined) this.until.set(token, this.now + repeatMinutes);
    return { opensLeft: this.opens - this.opened, isRepeated };
  }
}

const steps: Arbitrary<Step> = oneof(
  { weight: 6, arbitrary: recordOf({ do: constant('open' as const), token: constantFrom('first', 'second') }) },
  { weight: 2, arbitrary: constant<Step>({ do: 'open' }) },
  { weight: 4, arbitrary: recordOf({ do: constantFrom('wait', 'ring'), minutes: constantFrom(1, 6, 9, 11) }) },
  { weight: 1, arbitrary: constant<Step>({ do: 'revoke' }) },
) as Arbitrary<Step>;

async function run(opens: number, history: readonly Step[]): Promise<void> {
  const id = await share(opens);
  const object = shareObject(service, id);
  const model = new Model(opens);
  for (const step of history) {
    if (step.do === 'wait' || step.do === 'ring') {
      await object[step.do](step.minutes * minuteMs);
      model.now += step.minutes;
      // The alarm alone ends it, without any request.
      if (step.do === 'ring') expect(await isKept(id)).toBe(!model.isEnded);
    } else if (step.do === 'revoke') {
      const { opened, record: fate } = await owner.call.deleteShare({ shareId: id });
      expect(fate).toBe('destroyed');
      expect(opened).toEqual(model.opened);
      expect(await isKept(id)).toBe(false);
      model.isRevoked ||= !model.isEnded;
      break;
    } else if (step.do === 'open') {
      const token = step.token && tokens[step.token];
      const expected = model.open(token);
      const response = await open(id, token);
      if (expected === undefined) {
        expect(await problemOf(response)).toEqual(gone);
        continue;
      }
      expect(await jsonOf<OpenedShare>(response)).toEqual({ record, opensLeft: expected.opensLeft });
      expect(response.headers.get('Idempotency-Replayed')).toBe(expected.isRepeated ? 'true' : null);
    }
    const { state, opensLeft } = await look(id);
    const isUsedUp = model.opened === opens;
    expect(state).toEqual(isUsedUp ? 'used_up' : model.isExpired ? 'expired' : 'active');
    expect(opensLeft).toEqual(opens - model.opened);
    expect(await isKept(id)).toBe(!model.isEnded);
  }
  for (const token of [undefined, ...Object.values(tokens)])
    if (model.isEnded) expect(await problemOf(open(id, token))).toEqual(gone);
  await object.ring(0);
  const events = await owner.object.rows('event');
  const openings = events.filter(({ action, subject }) => action === 'share.opened' && subject === id);
  expect(openings.length).toBe(model.opened);
}

describe('an opening that is repeated', () => {
  it('gives the record again for 10 minutes and counts once, in any history', async () => {
    const histories = tuple(constantFrom(1, 1, 2, 3), array(steps, { minLength: 2, maxLength: 8 }));
    await assert(
      asyncProperty(histories, ([opens, history]) => run(opens, history)),
      { numRuns: long ? 400 : ci ? 40 : 20 },
    );
  });

  it.each([1, 2])('(of %i) is one opening when both requests come at once', async (opens) => {
    const id = await share(opens);
    const answers = await Promise.all([open(id, tokens.first), open(id, tokens.first), open(id, tokens.first)]);
    for (const answer of answers) expect((await jsonOf<OpenedShare>(answer)).opensLeft).toBe(opens - 1);
    expect((await look(id)).opensLeft).toBe(opens - 1);
  });

  it('survives the death of the service, and so does its end', async () => {
    const id = await share(1);
    expect((await open(id, tokens.first)).status).toBe(200);
    await restart.kill();
    owner = ownerAt(service, owner);
    expect(await jsonOf<OpenedShare>(open(id, tokens.first))).toEqual({ record, opensLeft: 0 });
    expect(await problemOf(open(id, tokens.second))).toEqual(gone);
    expect(await problemOf(open(id))).toEqual(gone);
    await shareObject(service, id).ring(11 * minuteMs);
    expect(await isKept(id)).toBe(false);
  });

  it('of a share is worth nothing at another one; what is stored of it opens nothing, and ends with it', async () => {
    const [one, other] = [await share(1), await share(1)];
    await open(one, tokens.first);
    await open(other);
    expect(await problemOf(open(other, tokens.first))).toEqual(gone);
    const [{ token } = {}] = await shareObject(service, one).rows('repeatable');
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    expect(await problemOf(open(one, String(token)))).toEqual(gone);
    await owner.call.deleteShare({ shareId: one });
    expect(await shareObject(service, one).rows('repeatable')).toEqual([]);
  });

  it.each(['', 'x', 'a'.repeat(21), 'a'.repeat(256), 'ä'.repeat(30)])(
    'with a key that is none (%s) opens nothing',
    async (key) => {
      const id = await share(1);
      const { status } = await open(id, key).catch(() => ({ status: 400 }));
      expect({ status, opensLeft: (await look(id)).opensLeft }).toEqual({ status: 400, opensLeft: 1 });
    },
  );
});
