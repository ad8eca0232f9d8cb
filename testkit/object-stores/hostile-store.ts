/**
 * A store between an adapter and a real store, which does to chosen requests what stores do on a
 * bad day.
 */
import { startFaultyProxy, type Fault, type Passed, type WholeAnswer } from '../faulty-proxy.ts';
import type { Bucket } from './s3-requests.ts';

/** What happens to some requests. The first rule that fits a request decides. */
export type Rule = {
  readonly method?: string;
  /** What the key matches; that of a listing is empty, followed by `?` and its query. */
  readonly key?: RegExp;
  /** Which of the requests that fit, from 1; by default all. */
  readonly nth?: number | readonly number[];
  readonly fault: Fault | ((request: Passed) => Fault);
};

export type HostileStore = Bucket & {
  /** Every request so far, with its key. */
  readonly requests: { readonly method: string; readonly key: string }[];
  /** Replaces the rules, and counts from the beginning. */
  obey(...rules: Rule[]): void;
  close(): Promise<void>;
};

/** Starts one in front of a bucket. It has no rules at first, and then only passes on. */
export async function startHostileStore(behind: Bucket): Promise<HostileStore> {
  let rules: { readonly rule: Rule; matched: number }[] = [];
  const requests: { method: string; key: string }[] = [];
  const choose = (request: Passed): Fault | undefined => {
    const key = keyOf(request.path);
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
  const { url, close } = await startFaultyProxy(() => behind.url, choose, { keepsHost: true });
  return {
    ...behind,
    url,
    requests,
    obey(...next) {
      rules = next.map((rule) => ({ rule, matched: 0 }));
    },
    close,
  };
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
  QuotaExceeded: 403,
  RequestTimeTooSkewed: 403,
  RequestTimeout: 400,
  ServiceUnavailable: 503,
  SignatureDoesNotMatch: 403,
  SlowDown: 503,
  TooManyRequests: 429,
} as const;

/** Refuses a request, which does not reach the store. */
export const refuses = (code: keyof typeof statuses, headers: Record<string, string> = {}): Fault => ({
  kind: 'answer',
  status: statuses[code],
  headers: { 'content-type': 'application/xml', ...headers },
  body: xmlOf(code),
});

/** Does what it is asked to do, and says that it failed. */
export const doesAndRefuses = (code: keyof typeof statuses): Fault => ({
  kind: 'rewrite',
  rewrite: () => ({
    status: statuses[code],
    headers: { 'content-type': 'application/xml' },
    body: Buffer.from(xmlOf(code)),
  }),
});

/** Says 200, and in the body that it failed; it does nothing. */
export const failsWith200 = (code: keyof typeof statuses): Fault => ({ ...refuses(code), status: 200 }) as Fault;

/** Does what it is asked to do, and answers when a promise is kept. */
export const answersLate = (until: Promise<unknown>): Fault => ({
  kind: 'rewrite',
  rewrite: async (answer) => {
    await until;
    return answer;
  },
});

/** Answers with so many bytes more or fewer than it has, without saying that any are missing. */
export const resizes = (by: number): Fault => ({
  kind: 'rewrite',
  rewrite: ({ status, headers, body }) => ({
    status,
    headers: { ...headers, 'content-length': Number(headers['content-length']) + by },
    body: by < 0 ? body.subarray(0, by) : Buffer.concat([body, Buffer.alloc(by)]),
  }),
});

/** Changes one byte of an answer that has it. */
export const flips = (atByte: number): Fault => ({ kind: 'flip', atByte });

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
