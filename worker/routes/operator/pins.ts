/** The state of all pins, repair and migrations. */
import * as shapes from '../../../shared/api.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { isoTime } from '../../../shared/time.ts';
import { parseQuery, type Bindings, type Ctx } from '../../http/app.ts';
import { readJson } from '../../http/json-body.ts';
import { firstShard, type Migration } from '../../objects/pin/migrations.ts';
import type { SurveyedPin } from '../../objects/pin/pin-survey.ts';
import { unwrap } from '../../objects/result.ts';
import { askShards } from '../../objects/pin/shard.ts';
import { shardNames } from '../../objects/pin/shard-names.ts';
import { serviceOf } from '../../backends/configured.ts';
import { isReadable } from '../../backends/contract.ts';

/** A page of the pins of all accounts. */
export async function listPins(c: Ctx): Promise<Response> {
  const { state, limit, cursor } = parseQuery(c, shapes.PinsQuery);
  const [first = firstShard, cid, service] = cursor?.split('.') ?? [];
  const names = shardNames.slice(shardNames.indexOf(first));
  const found = await askShards(
    c.env,
    async (pin, name) => {
      const after = name === first && cid !== undefined && service !== undefined ? { cid, service } : undefined;
      const { pins } = await unwrap(pin.survey({ state, after, limit: limit + 1 }));
      return pins.map((row) => ({ name, row }));
    },
    names,
    (pages) => pages.flat().length > limit,
  );
  const pins = found.flat();
  const page = pins.slice(0, limit);
  const last = page.at(-1);
  return c.json<shapes.PinPage>({
    pins: page.map(({ row }) => surveyedPin(row)),
    cursor: pins.length > limit && last ? `${last.name}.${last.row.cid}.${last.row.service}` : undefined,
  });
}

function surveyedPin({ reason, detail, due, checkedAt, verifiedAt, ...pin }: SurveyedPin): shapes.SurveyedPin {
  return {
    ...pin,
    reason: reason ?? undefined,
    detail: detail ?? undefined,
    dueAt: isoTime(due),
    checkedAt: isoTime(checkedAt),
    verifiedAt: isoTime(verifiedAt),
  };
}

/** Makes every pin due for a check: what is lost is copied again, what failed is tried again. */
export async function repairPins(c: Ctx): Promise<Response> {
  const answers = await askShards(c.env, (pin) => unwrap(pin.repair()));
  const pins: shapes.Repair['pins'] = {};
  for (const { counts } of answers)
    for (const [state, count] of Object.entries(counts) as [keyof typeof pins, number][])
      pins[state] = (pins[state] ?? 0) + count;
  return c.json<shapes.Repair>({ pins }, 202);
}

/** Begins to move what one service holds to another. */
export async function createMigration(c: Ctx): Promise<Response> {
  const { from, to } = await readJson(c.req.raw, shapes.MigrationRequest);
  if (from === to) throw new SealpinError('invalid_request', 'from and to are the same service');
  for (const id of [from, to]) checkConfigured(c.env, id);
  if (!isReadable(serviceOf(c.env, to)))
    throw new SealpinError('invalid_request', `${to} is a service from which nothing can be read back`, {
      hint: `before files are removed at ${from}, every byte is read where they went; add ${to} by REPLICAS instead`,
    });
  // The first object comes first: one that makes its tables meanwhile asks it.
  await askShards(c.env, (pin) => unwrap(pin.migrate(from, to)), [firstShard]);
  await askShards(c.env, (pin) => unwrap(pin.migrate(from, to)));
  const all = await migrationsOf(c.env);
  const body = all.find((each) => each.from === from && each.to === to);
  return c.json(body, 202, { Location: '/v1/operator/migrations' });
}

/** Lists migrations and their progress. */
export async function listMigrations(c: Ctx): Promise<Response> {
  return c.json<shapes.MigrationList>({ migrations: await migrationsOf(c.env) });
}

/** Ends a migration: what has moved stays there, and the rest where it was. */
export async function cancelMigration(c: Ctx): Promise<Response> {
  const [from = '', to = ''] = [c.req.param('from'), c.req.param('to')];
  const answers = await askShards(c.env, (pin) => unwrap(pin.cancelMigration(from, to)));
  if (!answers.some(({ found }) => found)) throw new SealpinError('not_found');
  const all = await migrationsOf(c.env);
  return c.json(all.find((each) => each.from === from && each.to === to));
}

/** The migrations, added up over all objects; the first one knows whether there are any. */
export async function migrationsOf(env: Bindings): Promise<shapes.Migration[]> {
  const ask = (names?: readonly string[]) => askShards(env, (pin) => unwrap(pin.migrations()), names);
  const [first] = await ask([firstShard]);
  if (first === undefined || first.migrations.length === 0) return [];
  const shares = (await ask()).flatMap(({ migrations }) => migrations);
  return first.migrations.map(({ from, to }) => sumOf(shares.filter((each) => each.from === from && each.to === to)));
}

function sumOf(shares: readonly Migration[]): shapes.Migration {
  const [first] = shares;
  if (first === undefined) throw new Error('a migration has shares');
  const sum = (of: 'total' | 'left' | 'failed') => shares.reduce((all, each) => all + each[of], 0);
  const left = sum('left');
  return {
    from: first.from,
    to: first.to,
    state: first.state === 'running' && left === 0 ? 'done' : first.state,
    startedAt: isoTime(Math.min(...shares.map(({ startedAt }) => startedAt))),
    total: sum('total'),
    left,
    failed: sum('failed'),
  };
}

/** @throws invalid_request for a service that this one does not use */
function checkConfigured(env: Bindings, id: string): void {
  try {
    serviceOf(env, id);
  } catch (cause) {
    throw new SealpinError('invalid_request', `no pinning service is called ${id}`, {
      hint: 'both must be in BACKENDS until the migration is done',
      cause,
    });
  }
}
