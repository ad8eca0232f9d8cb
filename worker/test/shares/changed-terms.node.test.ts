/**
 * Changes of a share's terms: histories of requests that come at once, beside a model; who may, and
 * what becomes of what an invitation stored.
 */
import {
  array,
  assert,
  asyncProperty,
  constant,
  constantFrom,
  integer,
  oneof,
  record,
  type Arbitrary,
} from 'fast-check';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { OpenedShare, Problem, Share, ShareReceipt } from '../../../shared/api.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { itemOf } from '../../../testkit/present.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { dayMs, hourMs, invite, minuteMs, share as shareBy, soon, store } from '../invitations/guest.ts';
import { newOwner, shareObject, type Owner } from '../stored-state.ts';

const lifeMinutes = 25;
const repeatMinutes = 10;
const tokens = { first: crypto.randomUUID(), second: crypto.randomUUID() };

let service: Service;
let anybody: Client;
let owner: Owner;
beforeAll(async () => {
  service = await sharedService();
  anybody = client(service.url);
});
beforeEach(async () => {
  owner = await newOwner(service);
});

const body = { record: Buffer.alloc(500, 7).toString('base64'), files: [], password: false };
const change = (id: string, terms: object, by = owner.call, headers = {}): Promise<Response> =>
  by.ask('changeShare', { shareId: id, ...terms }, { headers });
const changes = async (): Promise<number> =>
  (await owner.object.rows('event')).filter(({ action }) => action === 'share.changed').length;

type Request =
  | { do: 'open'; token?: keyof typeof tokens }
  | { do: 'change'; opens?: number; minutes?: number }
  | { do: 'revoke' };
type Step = { wait: number } | { at: Request[] };

/** The rules of a share: what each request is answered, in minutes since the share was made. */
class Model {
  now = 0;
  opened = 0;
  minutes = lifeMinutes;
  changes = 0;
  state: 'active' | 'used_up' | 'revoked' = 'active';
  isListed = true;
  opens: number;
  until = new Map<string, number>();
  constructor(opens: number) {
    this.opens = opens;
  }

  copy(): Model {
    return Object.assign(new Model(this.opens), this, { until: new Map(this.until) });
  }
  get shown(): string {
    return this.state === 'active' && this.now >= this.minutes ? 'expired' : this.state;
  }
  get #repeatable(): boolean {
    return this.now < this.minutes && [...this.until.values()].some((until) => until > this.now);
  }
  asked(request: Request): string {
    if (request.do === 'open') return this.#opened(request.token);
    if (request.do === 'change') return this.#changed(request);
    if (!this.isListed) return '404 not_found';
    const isKept = this.shown === 'active' || this.#repeatable;
    if (isKept) this.state = 'revoked';
    this.isListed = false;
    this.until.clear();
    return `revoked after ${this.opened}`;
  }
  #opened(token = ''): string {
    if (this.now >= this.minutes || this.state === 'revoked') return '410 gone';
    const isRepeated = (this.until.get(token) ?? 0) > this.now;
    if (!isRepeated && this.opened === this.opens) return '410 gone';
    if (!isRepeated) {
      this.opened += 1;
      if (token !== '') this.until.set(token, this.now + repeatMinutes);
      if (this.opened === this.opens) this.state = 'used_up';
    }
    return `opened, ${this.opens - this.opened} left${isRepeated ? ', repeated' : ''}`;
  }
  #changed({ opens = this.opens, minutes = this.minutes }: { opens?: number; minutes?: number }): string {
    if (this.shown !== 'active') return '410 gone';
    if (opens < this.opened) return '400 invalid_request';
    if (opens !== this.opens || minutes !== this.minutes) this.changes += 1;
    this.opens = opens;
    this.minutes = minutes;
    if (opens === this.opened) this.state = 'used_up';
    return `changed to ${opens}, ${minutes}, ${opens - this.opened} left`;
  }
}

/** What is answered to a request, in the words of the model. */
async function answerTo(request: Request, { id, createdAt }: Share): Promise<string> {
  const made = Date.parse(createdAt);
  if (request.do === 'open') {
    const headers = request.token && { 'Idempotency-Key': tokens[request.token] };
    const response = await anybody.ask('openShare', { shareId: id }, headers && { headers });
    if (!response.ok) return `${response.status} ${(await response.json<Problem>()).code}`;
    const { opensLeft } = await response.json<OpenedShare>();
    return `opened, ${opensLeft} left${response.headers.has('Idempotency-Replayed') ? ', repeated' : ''}`;
  }
  const minutes = request.do === 'change' ? request.minutes : undefined;
  const expiresAt = minutes && new Date(made + minutes * minuteMs).toISOString();
  const response =
    request.do === 'change'
      ? await change(id, { opens: request.opens, expiresAt })
      : await owner.call.ask('deleteShare', { shareId: id });
  if (!response.ok) return `${response.status} ${(await response.json<Problem>()).code}`;
  if (request.do === 'revoke') return `revoked after ${(await response.json<ShareReceipt>()).opened}`;
  const share = await response.json<Share>();
  return `changed to ${share.opens}, ${(Date.parse(share.expiresAt) - made) / minuteMs}, ${share.opensLeft} left`;
}

function ordersOf<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((item, index) => ordersOf(items.toSpliced(index, 1)).map((rest) => [item, ...rest]));
}

/** What the model may be after requests at once that were so answered, in whichever order. */
function after(models: readonly Model[], answered: readonly { request: Request; answer: string }[]): Model[] {
  return models.flatMap((before) =>
    ordersOf(answered).flatMap((order) => {
      const model = before.copy();
      return order.every(({ request, answer }) => model.asked(request) === answer) ? [model] : [];
    }),
  );
}

async function run(opens: number, history: readonly Step[]): Promise<void> {
  const share = await owner.call.createShare({ ...body, opens, expiresAt: soon(lifeMinutes * minuteMs) });
  // Whole minutes from when it was made.
  await change(share.id, { expiresAt: new Date(Date.parse(share.createdAt) + lifeMinutes * minuteMs).toISOString() });
  const before = await changes();
  const object = shareObject(service, share.id);
  let models = [new Model(opens)];
  for (const step of history) {
    if ('wait' in step) {
      await object.wait(step.wait * minuteMs);
      for (const model of models) model.now += step.wait;
    } else {
      const answered = await Promise.all(
        step.at.map(async (request) => ({ request, answer: await answerTo(request, share) })),
      );
      models = after(models, answered);
      expect(models.length, JSON.stringify(answered)).toBeGreaterThan(0);
    }
    const { state, opensLeft, expiresAt } = await anybody.getShare({ shareId: share.id });
    const minutes = (Date.parse(expiresAt) - Date.parse(share.createdAt)) / minuteMs;
    models = models.filter(
      (model) => model.shown === state && model.opens - model.opened === opensLeft && model.minutes === minutes,
    );
    expect(models.length, JSON.stringify({ state, opensLeft, minutes })).toBeGreaterThan(0);
  }
  const model = itemOf(models, 0);
  await object.ring(0);
  const [row] = (await owner.object.rows('share')).filter(({ id }) => id === share.id);
  if (model.isListed) {
    expect(row).toMatchObject({ opens: model.opens });
    expect((Number(row?.['expires_at']) - Date.parse(share.createdAt)) / minuteMs).toBe(model.minutes);
  } else expect(row).toBeUndefined();
  expect((await changes()) - before).toBe(model.changes);
  expect(await object.rows('opening')).toEqual([]);
  if (model.shown !== 'active' && model.until.size === 0)
    expect((await object.rows('share'))[0]?.['record']).toBeNull();
}

const requests: Arbitrary<Request> = oneof(
  { weight: 4, arbitrary: record({ do: constant('open' as const), token: constantFrom('first', 'second') }) },
  { weight: 2, arbitrary: constant<Request>({ do: 'open' }) },
  {
    weight: 5,
    arbitrary: record(
      { do: constant('change' as const), opens: integer({ min: 1, max: 4 }), minutes: constantFrom(3, 12, 25, 40) },
      { requiredKeys: ['do', 'opens'] },
    ),
  },
  { weight: 1, arbitrary: constant<Request>({ do: 'revoke' }) },
) as Arbitrary<Request>;
const steps: Arbitrary<Step> = oneof(
  { weight: 3, arbitrary: record({ at: array(requests, { minLength: 1, maxLength: 4 }) }) },
  { weight: 1, arbitrary: record({ wait: constantFrom(1, 4, 11) }) },
);

describe('a change of the terms of a share', () => {
  it('is one of requests in some order, also of those that come at once', async () => {
    await assert(asyncProperty(integer({ min: 1, max: 3 }), array(steps, { minLength: 2, maxLength: 6 }), run), {
      numRuns: long ? 400 : ci ? 25 : 12,
    });
  });

  it('is of the version that its condition names: of many at once, one comes first', async () => {
    const { id, opens, expiresAt, state } = await owner.call.createShare(body);
    const seen = await anybody.ask('getShare', { shareId: id });
    const etag = String(seen.headers.get('ETag'));
    expect((await anybody.ask('getShare', { shareId: id }, { headers: { 'If-None-Match': etag } })).status).toBe(304);
    const answers = await Promise.all(
      [7, 8, 9, 10].map(async (each) => (await change(id, { opens: each }, owner.call, { 'If-Match': etag })).status),
    );
    expect(answers.toSorted((a, b) => a - b)).toEqual([200, 412, 412, 412]);
    await anybody.openShare({ shareId: id });
    const again = await change(id, { opens }, owner.call, { 'If-Match': etag });
    expect(await problemOf(again)).toBe('412 precondition_failed');
    const changed = await change(id, { opens, expiresAt });
    expect(await changed.json()).toMatchObject({ id, state, opens, opensLeft: opens - 1, expiresAt });
    const current = await anybody.ask('getShare', { shareId: id });
    expect(changed.headers.get('ETag')).toBe(current.headers.get('ETag'));
  });

  it('is refused by the ETag of any moment before, whatever it has come back to', async () => {
    const { id, opens, expiresAt } = await owner.call.createShare(body);
    const etags: string[] = [];
    const steps: (() => Promise<unknown>)[] = [
      () => anybody.openShare({ shareId: id }),
      () => change(id, { opens: opens + 1 }),
      () => change(id, { opens, expiresAt: soon(hourMs) }),
      () => change(id, { opens: opens + 1, expiresAt }),
      () => anybody.openShare({ shareId: id }),
      () => change(id, { opens: opens + 2 }),
    ];
    for (const step of steps) {
      etags.push(String((await anybody.ask('getShare', { shareId: id })).headers.get('ETag')));
      await step();
      for (const etag of etags)
        expect(await problemOf(change(id, { opens: 2 }, owner.call, { 'If-Match': etag }))).toBe(
          '412 precondition_failed',
        );
    }
    expect(new Set(etags).size).toBe(steps.length);
  });

  inCi('is refused where the share was opened after it was seen, and below the times that it was opened', async () => {
    const { id } = await owner.call.createShare(body);
    const etag = String((await anybody.ask('getShare', { shareId: id })).headers.get('ETag'));
    await owner.object.fail('change', 'late');
    const asked = problemOf(change(id, { opens: 9 }, owner.call, { 'If-Match': etag }));
    await expect.poll(() => owner.object.awaits('change')).toBe(false);
    await anybody.openShare({ shareId: id });
    expect(await asked).toBe('412 precondition_failed');
    await anybody.openShare({ shareId: id });
    expect(await problemOf(change(id, { opens: 1 }))).toBe('400 invalid_request');
    expect(await anybody.getShare({ shareId: id })).toMatchObject({ opensLeft: 3 });
  });

  it('stays within the limits of the service, which count from when it was made, and of keys', async () => {
    const short = await owner.call.withKey(['share'], { expiresAt: soon(2 * dayMs) });
    const { id, createdAt } = await owner.call.createShare(body);
    await owner.object.wait(dayMs);
    const at = (days: number): string => new Date(Date.parse(createdAt) + days * dayMs).toISOString();
    expect((await change(id, { expiresAt: at(30), opens: 100 })).status).toBe(200);
    expect(await problemOf(change(id, { expiresAt: at(30.1) }))).toBe('400 invalid_request');
    expect(await problemOf(change(id, { opens: 101 }))).toBe('400 invalid_request');
    for (const wrong of [{}, { opens: 0 }, { expiresAt: soon(-1) }, { label: 'x' }, { opens: null }])
      expect(await problemOf(change(id, wrong))).toBe('400 invalid_request');
    // To a time before its end, any key may shorten a share.
    expect((await change(id, { expiresAt: at(5) }, short)).status).toBe(200);
    expect(await problemOf(change(id, { expiresAt: at(6) }, short))).toBe('403 forbidden');
    const made = await short.createShare(body);
    expect(await problemOf(change(made.id, { expiresAt: soon(3 * dayMs) }))).toBe('403 forbidden');
    const { id: stranger } = await (await newOwner(service)).call.createShare(body);
    expect(await problemOf(change(stranger, { opens: 9 }))).toBe('404 not_found');
    await owner.call.deleteShare({ shareId: made.id });
    expect(await problemOf(change(made.id, { opens: 9 }))).toBe('410 gone');
  });

  it('that no account hears of is recorded later, once, and in the backup before', async () => {
    const { id } = await owner.call.createShare(body);
    const object = shareObject(service, id);
    await object.wait(hourMs);
    await owner.object.fail('shareOpened', 'refused');
    await owner.object.fail('change', 'after');
    expect(await problemOf(change(id, { opens: 9 }))).toBe('503 overloaded');
    expect((await owner.call.listShares()).shares).toMatchObject([{ opens: 9, opensLeft: 9 }]);
    const page = await client(service.url, adminToken).backUpAccount({ id: owner.id });
    expect(page.shares).toMatchObject([{ id, opens: 9 }]);
    await expect.poll(() => object.rows('opening')).toMatchObject([{ attempts: 1 }]);
    expect(await changes()).toBe(0);
    await object.ring(minuteMs);
    await expect.poll(() => object.rows('opening')).toEqual([]);
    expect(await changes()).toBe(1);
    expect(await owner.object.rows('share')).toMatchObject([{ opens: 9, changed_at: expect.any(Number) }]);
  });
});

describe('what a guest sent', () => {
  const days = (ms: number): number => Math.round((ms - Date.now()) / dayMs);
  const filesEnd = async (): Promise<number[]> =>
    (await owner.object.rows('file_detail')).map((row) => days(Number(row['expires_at'])));

  it('stays as long as its link, and no longer', async () => {
    const guest = await invite(owner.call);
    const { fileId } = await store(guest, 7);
    const { id } = await shareBy(guest, [fileId], { expiresAt: soon(7 * dayMs) });
    expect(await jsonOf<Share>(change(id, { expiresAt: soon(20 * dayMs) }, guest))).toMatchObject({ files: [fileId] });
    expect(await filesEnd()).toEqual([20]);
    // The owner's keys may, too, where they may delete.
    expect((await change(id, { expiresAt: soon(10 * dayMs) })).status).toBe(200);
    expect(await filesEnd()).toEqual([10]);
    const sharer = await owner.call.withKey(['share']);
    const longer = await jsonOf<Share>(change(id, { expiresAt: soon(15 * dayMs) }, sharer));
    expect(days(Date.parse(longer.expiresAt))).toBe(10);
    expect(await filesEnd()).toEqual([10]);
    await owner.object.ring(8 * dayMs);
    expect((await owner.object.rows('file')).length).toBe(1);
    await owner.object.ring(3 * dayMs);
    expect(await owner.object.rows('file')).toEqual([]);
  });

  it('for two links stays until the last of them ends', async () => {
    const guest = await invite(owner.call);
    const { fileId } = await store(guest, 20);
    const [one, other] = [await shareBy(guest, [fileId]), await shareBy(guest, [fileId])];
    await change(one.id, { expiresAt: soon(9 * dayMs) }, guest);
    expect(await filesEnd()).toEqual([20]);
    await change(other.id, { expiresAt: soon(3 * dayMs) }, guest);
    expect(await filesEnd()).toEqual([9]);
    expect(await problemOf(change(one.id, { opens: 9 }, await invite(owner.call)))).toBe('404 not_found');
  });

  it('never outlives the invitation', async () => {
    const guest = await invite(owner.call, { forMs: 10 * dayMs });
    const { fileId } = await store(guest, 7);
    const { id } = await shareBy(guest, [fileId]);
    expect(await problemOf(change(id, { expiresAt: soon(11 * dayMs) }, guest))).toBe('403 forbidden');
    expect(await problemOf(change(id, { expiresAt: soon(11 * dayMs) }))).toBe('403 forbidden');
    expect(await filesEnd()).toEqual([7]);
  });
});
