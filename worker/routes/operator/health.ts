/** `GET /v1/health`: whether the service can store and read, for monitors and load balancers. */
import { HealthQuery, type Health } from '../../../shared/api.ts';
import { isSealpinError } from '../../../shared/errors.ts';
import { isoTime } from '../../../shared/time.ts';
import { sleep, within } from '../../../shared/streams/timing.ts';
import { web } from 'sealpin:web';
import { version } from '../../../package.json';
import { metricsOf } from '../../objects/metrics/metrics-binding.ts';
import type { Refusal } from '../../objects/metrics/metrics.ts';
import { untoldRefusals } from '../../objects/metrics/seen-refusals.ts';
import { unwrap } from '../../objects/result.ts';
import { parseQuery, type Bindings, type Ctx } from '../../http/app.ts';
import { isOperator } from '../../auth/operator.ts';
import { isGatewayOpen, maxFileBytes, maxUploadBytes, serviceId, shareMaxima } from '../../env.ts';
import { errorText, log, orLog } from '../../log.ts';
import { servicesOf } from '../../backends/configured.ts';
import type { ConfiguredService } from '../../backends/backend-types.ts';
import { migrationsOf } from './pins.ts';
import { timeLimit } from '../../backends/time-limit.ts';

/** Time in which a pinning service or an object must respond. */
const pingMs = 5_000;
/**
 * Time for which a check counts: anybody may call this route, and must not make us call others as
 * often.
 */
const freshMs = 5_000;
/** Interval at which a request looks for the result of another request's check. */
const healthPollMs = 50;
/** Seconds after which a monitor may ask again. */
const retrySeconds = 5;

export type ServiceHealth = NonNullable<Health['services']>[number];
type State = { storage: 'ok' | 'failing'; services: ServiceHealth[] };

/**
 * Returns version, limits and, without `live`, whether the service can store and read: 503 while
 * something does not respond. The operator also sees what, and which services take no new files.
 */
export async function readHealth(c: Ctx): Promise<Response> {
  const { live } = parseQuery(c, HealthQuery);
  const { days: maxDays, opens: maxOpens } = shareMaxima(c.env);
  const limits = {
    maxUploadBytes: maxUploadBytes(c.env) ?? null,
    maxFileBytes: maxFileBytes(c.env),
    shares: isGatewayOpen(c.env) ? { maxDays, maxOpens } : null,
  };
  let isUp = true;
  const body: Health = { status: 'ok', version, pages: web.hash, ...limits };
  if (live === undefined) {
    const state = await stateOf(c.env);
    isUp = state.storage === 'ok' && state.services.every((service) => service.status === 'ok');
    const isWrong = state.services.some(({ refuses, warning }) => (refuses ?? warning) !== undefined);
    if (!isUp || isWrong) body.status = 'degraded';
    if (await isOperator(c)) Object.assign(body, state, { serviceId: serviceId(c.env) }, await migrationsNow(c));
  }
  return isUp ? c.json(body) : c.json(body, 503, { 'Retry-After': String(retrySeconds) });
}

/**
 * The last result, its time, and the start of a check that still runs (ms). An isolate keeps it for
 * all of its requests.
 */
type Check = { state?: State; at: number; runningSince: number };
const checks = new WeakMap<Bindings, Check>();

/**
 * The state of objects and pinning services. One request checks them; those that arrive meanwhile
 * wait for its result.
 */
export async function stateOf(env: Bindings): Promise<State> {
  const last = checks.get(env) ?? { at: 0, runningSince: 0 };
  checks.set(env, last);
  for (;;) {
    if (last.state !== undefined && Date.now() - last.at < freshMs) return last.state;
    // A request may end before its check does: then the next one checks.
    if (Date.now() - last.runningSince > 2 * pingMs) break;
    await sleep(healthPollMs);
  }
  last.runningSince = Date.now();
  try {
    const [refusals, services] = await Promise.all([
      refusalsOf(env),
      Promise.all(servicesOf(env).map((service) => serviceState(service))),
    ]);
    const seen = [...(refusals ?? []), ...untoldRefusals()];
    last.state = {
      storage: refusals === undefined ? 'failing' : 'ok',
      services: services.map((service) => withRefusal(service, seen)),
    };
    last.at = Date.now();
    return last.state;
  } finally {
    last.runningSince = 0;
  }
}

/** Returns the progress of migrations, if there are any and the objects respond. */
async function migrationsNow(c: Ctx): Promise<Pick<Health, 'migrations'>> {
  const asked = { event: 'health.migrations', requestId: c.var.requestId };
  const migrations = (await orLog(asked, () => migrationsOf(c.env))) ?? [];
  return migrations.length === 0 ? {} : { migrations };
}

/** Refusals of services that take no new files; undefined where the objects do not respond. */
async function refusalsOf(env: Bindings): Promise<readonly Refusal[] | undefined> {
  const late = (): never => {
    throw new Error(`no response in ${pingMs} ms`);
  };
  const asked = () => within(unwrap(metricsOf(env).refusals()), pingMs, late);
  return (await orLog({ event: 'health.storage' }, asked))?.refusals;
}

function withRefusal(service: ServiceHealth, refusals: readonly Refusal[]): ServiceHealth {
  const refusal = refusals.find((each) => each.service === service.id);
  if (refusal === undefined) return service;
  const { code, since, seenAt } = refusal;
  return { ...service, refuses: { code, since: isoTime(since), seenAt: isoTime(seenAt) } };
}

async function serviceState(service: ConfiguredService): Promise<ServiceHealth> {
  const { id, type, triedAgainst } = service;
  try {
    return { id, type, triedAgainst, status: 'ok', ...(await service.ping(timeLimit(pingMs))) };
  } catch (error) {
    log({ event: 'health.ping', service: id, error: errorText(error) });
    const { code, hint } = isSealpinError(error) ? error : { code: 'pinning_timeout' };
    return { id, type, triedAgainst, status: 'failing', code, ...(hint !== undefined && { hint }) };
  }
}
