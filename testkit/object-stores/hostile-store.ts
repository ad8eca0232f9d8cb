/** A store between an adapter and a real one, which does what stores do on a bad day. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { startFaultyProxy, type ProxyFault, type Passed, type WholeAnswer } from '../faulty-proxy.ts';
import { startLoopbackServer } from '../loopback-server.ts';
import type { Bucket } from './s3-requests.ts';

/** Fate of some requests. The first rule that fits a request decides. */
export type Rule = {
  readonly method?: string;
  /** Pattern of the key; that of a listing is empty, followed by `?` and its query. */
  readonly key?: RegExp;
  /** Numbers of the requests that fit, from 1; by default all. */
  readonly nth?: number | readonly number[];
  readonly fault: ProxyFault | ((request: Passed) => ProxyFault | undefined);
};

/** Something between a service and its bucket that does what it is told to. */
export type Hostile = {
  readonly url: string;
  /** Every request so far, with its key. */
  readonly requests: { readonly method: string; readonly key: string }[];
  /** Replaces the rules, and counts from the beginning. */
  obey(...rules: Rule[]): void;
  close(): Promise<void>;
};

export type HostileStore = Bucket & Hostile;

/** Finds what happens to a request: by no rules at first, so that it is passed on. */
function obedience(): Pick<Hostile, 'requests' | 'obey'> & {
  choose(request: Passed, key: string): ProxyFault | undefined;
} {
  let rules: { readonly rule: Rule; matched: number }[] = [];
  const requests: { method: string; key: string }[] = [];
  const choose = (request: Passed, key: string): ProxyFault | undefined => {
    requests.push({ method: request.method, key });
    for (const each of rules) {
      const { method = request.method, key: pattern = /^/, nth, fault } = each.rule;
      if (method !== request.method || !pattern.test(key)) continue;
      each.matched += 1;
      if (nth === undefined || [nth].flat().includes(each.matched))
        return typeof fault === 'function' ? fault(request) : fault;
    }
    return undefined;
  };
  return {
    requests,
    obey(...next) {
      rules = next.map((rule) => ({ rule, matched: 0 }));
    },
    choose,
  };
}

/** Starts one in front of a bucket. */
export async function startHostileStore(behind: Bucket): Promise<HostileStore> {
  const { choose, ...rules } = obedience();
  const decide = (request: Passed) => choose(request, keyOf(request.path));
  const { url, close } = await startFaultyProxy(() => behind.url, decide, { keepsHost: true });
  return { ...behind, ...rules, url, close };
}

/** Statuses for the gate, where 404 says of an object that there is none. */
const gateStatuses: Readonly<Record<number, number>> = { 400: 403, 404: 410 };

/**
 * Starts one that a Worker asks before and after each request to its bucket of R2, which no proxy
 * reaches (`worker/test/gated-bucket.ts`).
 */
export async function startHostileGate(): Promise<Hostile> {
  const { choose, ...rules } = obedience();
  const passed = new Map<string, ProxyFault | undefined>();
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://gate');
    const [turn = '', asked = '', name = ''] = ['turn', 'method', 'key'].map((each) => searchParams.get(each) ?? '');
    // As an S3 API names a listing.
    const [method, key] = asked === 'LIST' ? ['GET', `?list-type=2&prefix=${name}`] : [asked, name];
    const body = await buffer(request);
    if (pathname === '/before') {
      const found = choose({ method, path: key, headers: {} }, key);
      passed.set(turn, found);
      const status = found?.kind === 'answer' ? (gateStatuses[found.status] ?? found.status) : 200;
      response.writeHead(found?.kind === 'twice' ? 205 : status).end();
      return;
    }
    const found = passed.get(turn);
    passed.delete(turn);
    if (found?.kind === 'swallow') return void response.destroy();
    if (found?.kind === 'rewrite') {
      const answer = await found.rewrite({ status: 200, headers: {}, body });
      return void response.writeHead(answer.status).end(answer.body);
    }
    if (found?.kind === 'flip' && body.length > found.atByte)
      body.writeUInt8(body.readUInt8(found.atByte) ^ 1, found.atByte);
    response.writeHead(200, { 'content-length': body.length });
    if (found?.kind !== 'cut') return void response.end(body);
    await new Promise((resolve) => response.write(body.subarray(0, found.afterBytes), resolve));
    response.destroy();
  };
  const server = await startLoopbackServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy());
  });
  return { ...rules, url: server.url, close: () => server.close() };
}

/** The key in a path `/bucket/key?query`, with the query. */
const keyOf = (path: string): string => decodeURIComponent(path.replace(/^\/[^/?]*\/?/, ''));

const xmlOf = (code: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>a message of a store</Message></Error>`;

/** Refusals as stores make them, by their codes. */
const statuses = {
  AccessDenied: 403,
  AuthorizationHeaderMalformed: 400,
  ExpiredToken: 400,
  InternalError: 500,
  InvalidAccessKeyId: 403,
  NoSuchBucket: 404,
  NotImplemented: 501,
  PreconditionFailed: 412,
  QuotaExceeded: 403,
  RequestTimeTooSkewed: 403,
  RequestTimeout: 400,
  ServiceUnavailable: 503,
  SignatureDoesNotMatch: 403,
  SlowDown: 503,
  TooManyRequests: 429,
} as const;

const xmlType = { 'content-type': 'application/xml' };

/** Refuses a request, which does not reach the store. */
export const refuses = (code: keyof typeof statuses, headers: Record<string, string> = {}): ProxyFault => ({
  kind: 'answer',
  status: statuses[code],
  headers: { ...xmlType, ...headers },
  body: xmlOf(code),
});

/** Does what it is asked to do, and says that it failed. */
export const doesAndRefuses = (code: keyof typeof statuses): ProxyFault => ({
  kind: 'rewrite',
  rewrite: () => ({ status: statuses[code], headers: xmlType, body: Buffer.from(xmlOf(code)) }),
});

/** Says 200, and in the body that it failed; it does nothing. */
export const failsWith200 = (code: keyof typeof statuses): ProxyFault =>
  ({ ...refuses(code), status: 200 }) as ProxyFault;

/** Does what it is asked to do, and answers when a promise is kept. */
export const answersLate = (until: Promise<unknown>): ProxyFault => ({
  kind: 'rewrite',
  rewrite: (answer) => until.then(() => answer),
});

/** Answers with so many bytes more or fewer than it has, without saying that any are missing. */
export const resizes = (by: number): ProxyFault => ({
  kind: 'rewrite',
  rewrite: ({ status, headers, body }) => ({
    status,
    headers: { ...headers, 'content-length': Number(headers['content-length']) + by },
    body: by < 0 ? body.subarray(0, by) : Buffer.concat([body, Buffer.alloc(by)]),
  }),
});

/** Breaks the connection, and passes nothing on. */
export const drops = (): never => {
  throw new Error('the connection breaks');
};

/** Does something to the first request of each method for each key, and passes the others on. */
export function firstOfEach(fault: ProxyFault | (() => ProxyFault)): Rule['fault'] {
  const seen = new Set<string>();
  return ({ method, path }) => {
    const id = `${method} ${path}`;
    if (seen.has(id)) return undefined;
    seen.add(id);
    return typeof fault === 'function' ? fault() : fault;
  };
}

/** Changes one byte of an answer that has it. */
export const flips = (atByte: number): ProxyFault => ({ kind: 'flip', atByte });

/** Answers each request with what it answered to the first one of its method and path. */
export function answersAsBefore(): Rule['fault'] {
  const first = new Map<string, WholeAnswer>();
  return ({ method, path }) => ({
    kind: 'rewrite',
    rewrite(answer) {
      const id = `${method} ${path}`;
      const before = first.get(id) ?? answer;
      first.set(id, before);
      return before;
    },
  });
}
