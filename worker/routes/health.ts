/** `GET /v1/health`: whether the service can do its work, for monitors and load balancers. */
import { HealthQuery, type Health } from '../../shared/api.ts';
import { apiKeyPrefix } from '../../shared/crypto/index.ts';
import { isSealpinError } from '../../shared/errors.ts';
import { requireOperator } from './accounts.ts';
import { settled } from '../objects/result.ts';
import { parseQuery, type Ctx } from '../http/app.ts';
import { bearer } from '../auth/authenticate.ts';
import { maxUploadBytes, servicesOf, version, type Env } from '../env.ts';
import { limitAddress } from '../auth/rate-limit.ts';
import { errorText, log } from '../log.ts';
import { pinOf } from '../objects/pin.ts';
import type { PinningService } from '../pinning/contract.ts';

/** How long a pinning service or an object may take to say that it is there. */
const pingMs = 5_000;
/** How long an answer is good for: anybody may ask, and must not make us ask others as often. */
const freshMs = 5_000;
/** How often a request looks whether the answer that another one is waiting for has come. */
const lookMs = 50;
/** Seconds after which a monitor may ask again. */
const retrySeconds = 5;
/** A CID that no file has: the identity CID of nothing. */
const nothing = 'bafkqaaa';

type Service = NonNullable<Health['services']>[number];
type State = { storage: 'ok' | 'failing'; services: Service[] };

/** Version, limits, and whether the service can store and read; with `live` the latter is not asked. The operator sees why not. */
export async function health(c: Ctx): Promise<Response> {
  const { live } = parseQuery(c, HealthQuery);
  const body: Health = { status: 'ok', version, maxUploadBytes: maxUploadBytes(c.env) ?? null };
  if (live === undefined) {
    const state = await stateOf(c.env);
    const isWell = state.storage === 'ok' && state.services.every((service) => service.status === 'ok');
    if (!isWell) body.status = 'degraded';
    if (await isOperator(c)) Object.assign(body, state);
  }
  const headers = { 'Cache-Control': 'no-store' };
  return body.status === 'ok'
    ? c.json(body, 200, headers)
    : c.json(body, 503, { ...headers, 'Retry-After': String(retrySeconds) });
}

/** Whether the caller has shown the operator's token. Any other `Authorization`, a load balancer's perhaps, means nothing here. */
async function isOperator(c: Ctx): Promise<boolean> {
  const token = bearer(c);
  if (token === undefined || token.startsWith(apiKeyPrefix)) return false;
  try {
    // Guesses are counted as everywhere; who has had too many sees what anybody sees.
    await limitAddress(c);
    await requireOperator(c);
    return true;
  } catch (error) {
    if (isSealpinError(error)) return false;
    throw error;
  }
}

/** The last answer, and since when a request has been waiting for the next one. Kept by an isolate for all of its requests. */
type Known = { state?: State; at: number; askingSince: number };
const known = new WeakMap<Env, Known>();

/** How the others are: one request asks them, and those that come meanwhile wait for its answer. */
async function stateOf(env: Env): Promise<State> {
  const last = known.get(env) ?? { at: 0, askingSince: 0 };
  known.set(env, last);
  for (;;) {
    if (last.state !== undefined && Date.now() - last.at < freshMs) return last.state;
    // A request may end before its answer has come: then the next one asks.
    if (Date.now() - last.askingSince > 2 * pingMs) break;
    await new Promise((resolve) => setTimeout(resolve, lookMs));
  }
  last.askingSince = Date.now();
  try {
    const [storage, services] = await Promise.all([
      storageOf(env),
      Promise.all(servicesOf(env).map((service) => serviceState(service))),
    ]);
    last.state = { storage, services };
    last.at = Date.now();
    return last.state;
  } finally {
    last.askingSince = 0;
  }
}

async function storageOf(env: Env): Promise<'ok' | 'failing'> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer in ${pingMs} ms`)), pingMs);
  try {
    // Asking after what is not there writes nothing.
    await Promise.race([late, settled((await pinOf(env, nothing)).services(nothing))]);
    return 'ok';
  } catch (error) {
    log({ event: 'health.storage', error: errorText(error) });
    return 'failing';
  } finally {
    clearTimeout(timer);
  }
}

async function serviceState(service: PinningService): Promise<Service> {
  const { id } = service;
  try {
    return { id, status: 'ok', version: (await service.ping(AbortSignal.timeout(pingMs))).version };
  } catch (error) {
    log({ event: 'health.ping', service: id, error: errorText(error) });
    return { id, status: 'failing', code: isSealpinError(error) ? error.code : 'pinning_timeout' };
  }
}
