/**
 * A route as one row: how it is called, who may call it, what it takes and returns, and its
 * handler.
 */
import type { Handler as HonoHandler } from 'hono';
import type * as v from 'valibot';
import type { Scope } from '../../shared/api.ts';
import type { Code } from '../../shared/errors.ts';
import { authenticate, type Principal } from '../auth/authenticate.ts';
import { tokenOnly } from '../auth/operator.ts';
import { limitAddress } from '../auth/rate-limit.ts';
import type { App, Check, Ctx } from '../http/app.ts';
import { checkHeaders, checkQuery } from '../http/middleware.ts';
import type { ResponseHeaderName } from './headers.ts';

/** Bodies by media type; null for bytes without a shape. */
export type Bodies = Record<string, v.GenericSchema | null>;

type Described = {
  /** GET answers HEAD, too, unless the path has a row for it. */
  method: 'get' | 'head' | 'post' | 'put' | 'patch' | 'delete' | 'options';
  path: string;
  /**
   * Name in clients that are generated from the description; that of a GET with bytes begins with
   * `get`.
   */
  operationId: string;
  summary: string;
  /** Details besides the summary, in CommonMark; who may call the route is added. */
  description?: string;
  /** The shapes of the parameters in the path; text by default. */
  params?: Record<string, v.GenericSchema>;
  query?: v.ObjectSchema<v.ObjectEntries, undefined>;
  /** Set if other query parameters are ignored instead of refused. */
  ignoresUnknownQuery?: true;
  headers?: Record<string, string>;
  /** The same for headers without which the route refuses every request. */
  requiredHeaders?: Record<string, string>;
  body?: Bodies;
  /** The same for a body that may be left out. */
  optionalBody?: Bodies;
  /** Bodies by status; null for responses without one. */
  responses: Record<number, Bodies | null>;
  /** Headers by status, besides those of every response and those of problems. */
  responseHeaders?: Record<number, readonly ResponseHeaderName[]>;
  /** Headers of every response of the route, problems included. */
  commonHeaders?: readonly ResponseHeaderName[];
  /**
   * Routes that take an ID from a result, by `operationId`: JSON pointers (RFC 6901) into the body,
   * by parameter.
   */
  links?: Record<string, Record<string, string>>;
  /**
   * The codes of the handler, besides those of its guard, of a body of JSON alone and of every
   * route.
   */
  codes?: readonly Code[];
};

/**
 * Caller of a route: anybody, anybody within the rate limit of an `address`, the operator, a
 * `monitor` with the `METRICS_TOKEN`, or the holder of an API key. The account checks the key and
 * its scope in the call that also does the work; `scopes` are all those that it asks for (a test
 * compares them), and each of `instead` will do as well.
 */
type WithoutKey = { who: 'anybody' | 'address' | 'operator' | 'monitor' };
type WithKey = { who: 'key'; scopes?: readonly Scope[]; instead?: readonly Scope[] };

export type Handler = (c: Ctx) => Response | Promise<Response>;
type KeyHandler = (c: Ctx, principal: Principal) => Promise<Response>;

export type Route = Described & ((WithoutKey & { handler: Handler }) | (WithKey & { handler: KeyHandler }));
export type RouteRow<A> = Omit<Described, 'method' | 'path' | 'operationId'> & A;
export type Method = Described['method'];

/** Makes a row. */
export function route(method: Method, path: string, id: string, handler: Handler, row: RouteRow<WithoutKey>): Route;
export function route(method: Method, path: string, id: string, handler: KeyHandler, row: RouteRow<WithKey>): Route;
export function route(
  method: Method,
  path: string,
  operationId: string,
  handler: Handler | KeyHandler,
  row: RouteRow<WithoutKey | WithKey>,
): Route {
  return { method, path, operationId, handler, ...row } as Route;
}

/** The access of a key that has all of these scopes. */
export function keyWith(...scopes: Scope[]) {
  return { who: 'key', scopes } as const;
}

const tokenCodes: readonly Code[] = ['not_found', 'unauthorized', 'rate_limited', 'overloaded'];

/** Checks of each guard before the handler, and the codes that it adds. */
const guards: Record<Route['who'], { checks: readonly Check[]; codes: readonly Code[] }> = {
  anybody: { checks: [], codes: [] },
  address: { checks: [limitAddress], codes: ['rate_limited', 'overloaded'] },
  operator: { checks: [limitAddress, tokenOnly('ADMIN_TOKEN')], codes: tokenCodes },
  monitor: { checks: [limitAddress, tokenOnly('METRICS_TOKEN')], codes: tokenCodes },
  // Its guard is `authenticate`, which hands the principal to the handler.
  key: {
    checks: [],
    codes: ['unauthorized', 'account_disabled', 'forbidden', 'insufficient_scope', 'rate_limited', 'overloaded'],
  },
};

/** The codes of every route. */
export const commonCodes: readonly Code[] = [
  'invalid_request',
  'internal',
  'misconfigured',
  'backend_changed',
  'method_not_allowed',
];

/** The codes of a route that takes JSON and nothing else. */
const jsonCodes: readonly Code[] = ['invalid_json', 'too_large', 'unsupported_media_type'];

/**
 * The scopes that the API key of a request needs, and others that will do instead; undefined where
 * it takes no such key.
 */
export function scopesOf(route: Route): (readonly Scope[])[] | undefined {
  if (route.who !== 'key') return undefined;
  return [route.scopes ?? [], ...(route.instead ?? []).map((scope) => [scope])];
}

/** All codes that a route may respond with. */
export function codesOf({ who, codes = [], body = {} }: Route): Code[] {
  const ofBody = Object.keys(body).join() === 'application/json' ? jsonCodes : [];
  return [...new Set([...guards[who].codes, ...ofBody, ...codes, ...commonCodes])];
}

/**
 * The codes of a route besides those of `commonCodes`, and of `guardCodes` where it needs a
 * credential.
 */
export function ownCodesOf(route: Route): Code[] {
  const known = [...commonCodes, ...(isOpen(route) ? [] : guardCodes(route.who))];
  return codesOf(route).filter((code) => !known.includes(code));
}

/** Tells whether a route needs no credential in `Authorization`. */
export function isOpen({ who }: Route): boolean {
  return who === 'anybody' || who === 'address';
}

/** The codes that the guard of a route adds. */
export function guardCodes(who: Route['who']): readonly Code[] {
  return guards[who].codes;
}

/**
 * The handler of a route, as Hono takes it. Before it, in this order: the guard, and the checks of
 * the names in query and headers.
 */
export function handlerOf(route: Route): HonoHandler<App> {
  const { method, query, headers, ignoresUnknownQuery = false, who } = route;
  const checks = [
    ...guards[who].checks,
    ...(ignoresUnknownQuery ? [] : [checkQuery(Object.keys(query?.entries ?? {}))]),
    checkHeaders(method, Object.keys(headers ?? {})),
  ];
  return async (c) => {
    for (const check of checks) await check(c);
    return await (route.who === 'key' ? route.handler(c, await authenticate(c)) : route.handler(c));
  };
}
