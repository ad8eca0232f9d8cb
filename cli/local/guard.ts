/**
 * The module in front of the Worker under `sealpin start`, in workerd: web pages must not control a
 * service on loopback. A page can send a request to 127.0.0.1 (then it has a foreign Origin or
 * Sec-Fetch-Site; a link on it, to a page, passes), or let its own name resolve to it (then the
 * Host is foreign). Requests of a public service come from the process in front, which has examined
 * them. The guard also counts running requests, has erased rows removed from the disk
 * before the response, and keeps requests for accounts and shares that do not exist from their
 * objects. None of this is deployed.
 */
import { timingSafeEqual, utf8 } from '../../shared/crypto/bytes.ts';
import { SealpinError } from '../../shared/errors.ts';
import { problemType, toProblem } from '../../shared/problem-object.ts';
import { acquireReader } from '../../shared/streams/reader.ts';
import type { ClassName } from './code/erasing-classes.ts';
import { notAccepted, ownAddress, refusal, type Refusal } from './origin.ts';
import worker, { Account as DeployedAccount, Share as DeployedShare, type LocalContext } from './worker.js';

type Namespace = { idFromName(name: string): { toString(): string }; getByName(name: string): unknown };

type Kv = { put(...args: unknown[]): Promise<void> };

type GuardEnv = {
  LOCAL_PORT: string;
  LOCAL_CONTROL: string;
  /** Origins, separated by commas, whose pages may call. */
  LOCAL_ORIGINS?: string;
  /** Origin of a public service. */
  LOCAL_ORIGIN?: string;
  HANDOVERS?: WeakMap<Request, { report?: ReadableStream<Uint8Array> }>;
  KEY_LIMIT_POLICY?: string;
  ADDRESS_LIMIT_POLICY?: string;
  API_KEYS: Kv;
  /**
   * Node's view of an object's database, at `/<class>/<id>`: GET looks for it, POST removes deleted
   * rows. `/kv`: writes KV through to the disk.
   */
  LOCAL_DATABASE?: { fetch(url: string, init?: RequestInit): Promise<Response> };
  ACCOUNT: Namespace;
  SHARE: Namespace;
};

/** Stays below the 30 s after which workerd resets an object that blocks its events. */
const erasureMs = 10_000;

/**
 * SQLite's write-ahead log still holds the pages from before a deletion. Node truncates it while
 * this object handles no event: workerd has no busy timeout, so a write that meets a checkpoint
 * would fail.
 */
async function eraseFile(className: ClassName, ctx: LocalContext, env: unknown): Promise<void> {
  const { LOCAL_DATABASE: database } = env as GuardEnv;
  if (database === undefined) return;
  await ctx.blockConcurrencyWhile(async () => {
    try {
      const url = `http://local/${className}/${ctx.id.toString()}`;
      const response = await database.fetch(url, { method: 'POST', signal: AbortSignal.timeout(erasureMs) });
      if (!response.ok) throw new Error(await response.text());
    } catch (error) {
      // The rows are overwritten, as the receipt says; the next stop or start does the rest.
      log({ event: 'erasure.late', error: String(error) });
    }
  });
}

class LocalAccount extends DeployedAccount {
  constructor(context: unknown, env: GuardEnv) {
    super(context, durable(env));
  }

  protected override erased(): Promise<void> {
    return eraseFile('Account', this.ctx, this.env);
  }
}

class LocalShare extends DeployedShare {
  protected override erased(): Promise<void> {
    return eraseFile('Share', this.ctx, this.env);
  }
}

function log(line: Record<string, string | number>): void {
  // oxlint-disable-next-line no-console -- this is the log
  console.log(JSON.stringify(line));
}

function refusalResponse(request: Request, { detail, hint }: Refusal): Response {
  const requestId = crypto.randomUUID();
  log({ event: 'request', requestId, method: request.method, route: 'refused', status: 403, ms: 0, reason: detail });
  const problem = toProblem(new SealpinError('forbidden'), { type: problemType('forbidden'), detail, hint, requestId });
  return new Response(`${JSON.stringify(problem)}\n`, {
    status: problem.status,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'x-request-id': requestId },
  });
}

/** Bytes of one read; by default workerd gives 4 KiB at a time. */
const bodyPieceBytes = 256 * 1024;

/**
 * Forwards a body, so that its end is known. A body that breaks stays broken: its length is
 * announced, or its reader verifies it. A client that disconnects ends the reading, even while the
 * source hangs.
 */
async function forward(from: ReadableStream<Uint8Array>, to: WritableStream<Uint8Array>, { signal }: Request) {
  const acquired = acquireReader(from);
  const { reader } = acquired;
  const read = () => (acquired.byob ? acquired.reader.read(new Uint8Array(bodyPieceBytes)) : acquired.reader.read());
  const writer = to.getWriter();
  const cancel = (): void => void reader.cancel(signal.reason).catch(() => undefined); // it has ended already
  signal.addEventListener('abort', cancel, { once: true });
  try {
    for (let piece = await read(); !piece.done; piece = await read()) await writer.write(piece.value);
    await writer.close();
  } catch (error) {
    await Promise.allSettled([writer.abort(error), reader.cancel(error)]); // one of them is what failed
  }
}

/** Streams of workerd (developers.cloudflare.com/workers/runtime-apis/streams/transformstream). */
type Through = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> };
declare const FixedLengthStream: new (bytes: number) => Through;
declare const IdentityTransformStream: new () => Through;

/** The only representation of unknown length; its readers verify that it is complete. */
const unmeasured = 'application/vnd.ipld.car';

/** The stream for a response body; undefined for a small one, which is read for its length. */
function throughFor({ headers }: Response): Through | undefined {
  const length = headers.get('content-length');
  if (length !== null) return new FixedLengthStream(Number(length));
  return headers.get('content-type')?.startsWith(unmeasured) === true ? new IdentityTransformStream() : undefined;
}

/**
 * Requests whose responses have not ended. Of one whose client disconnects, only the signal fires.
 */
const running = new Set<Request>();

function countRunning(request: Request): () => void {
  const end = (): void => void running.delete(request);
  running.add(request);
  request.signal.addEventListener('abort', end, { once: true });
  return end;
}

/** IDs of objects that have been seen to exist. */
const existing = new Set<string>();

/** Calls that make the object which they are for. */
const making = ['create', 'restore'];

/** The object that stands for all that do not exist: no ID of an account or a share is so short. */
const nobody = 'nobody';

/**
 * The objects of a class, of which those that do not exist are one. workerd creates files for an
 * object as soon as it is asked, so it must not be asked for each name that somebody makes up; and
 * it is looked at here, since only the Worker knows how a path may be spelled.
 */
function onlyExisting(className: ClassName, namespace: Namespace, env: GuardEnv): Namespace {
  return {
    idFromName: (name) => namespace.idFromName(name),
    getByName(name) {
      const id = namespace.idFromName(name).toString();
      if (existing.has(id)) return namespace.getByName(name);
      const call = async (path: readonly string[], args: unknown[]): Promise<unknown> => {
        const isKnown = making.includes(path.at(-1) ?? '') || (await isExisting(className, id, env));
        let target: unknown = namespace.getByName(isKnown ? name : nobody);
        for (const member of path.slice(0, -1)) target = Reflect.get(target as object, member);
        return await (target as Record<string, (...args: unknown[]) => unknown>)[path.at(-1) ?? '']?.(...args);
      };
      return callsOf(call, [], { name });
    },
  };
}

/**
 * Wraps a call as an object with members of any name.
 * @param call gets the names that lead to what is called
 * @param values members that are no calls
 */
function callsOf(
  call: (path: readonly string[], args: unknown[]) => Promise<unknown>,
  path: readonly string[] = [],
  values: Readonly<Record<string, unknown>> = {},
) {
  return new Proxy(() => undefined, {
    get(_, name): unknown {
      if (typeof name !== 'string' || name === 'then') return undefined; // it is no promise
      return Object.hasOwn(values, name) ? values[name] : callsOf(call, [...path, name]);
    },
    apply: (_, _self, args: unknown[]) => call(path, args),
  });
}

async function isExisting(className: ClassName, id: string, { LOCAL_DATABASE: database }: GuardEnv): Promise<boolean> {
  const { ok } = (await database?.fetch(`http://local/${className}/${id}`)) ?? { ok: true };
  if (ok) existing.add(id);
  return ok;
}

/**
 * KV whose values are on the disk when a write is acknowledged: workerd renames their files into
 * place without a sync, so a power cut would leave keys without what they stand for.
 */
function writtenThrough({ API_KEYS: kv, LOCAL_DATABASE: database }: GuardEnv): Kv {
  const put = async (...args: unknown[]): Promise<void> => {
    await kv.put(...args);
    const response = await database?.fetch('http://local/kv', { method: 'POST' });
    if (response?.ok === false) throw new Error(await response.text());
  };
  return new Proxy(kv, {
    get(target, name): unknown {
      if (name === 'put') return put;
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

/** Makes one environment of each, since the Worker keeps what it knows by its environment. */
function onceFor(make: (env: GuardEnv) => GuardEnv): (env: GuardEnv) => GuardEnv {
  const known = new WeakMap<GuardEnv, GuardEnv>();
  return (env) => {
    const made = known.get(env) ?? make(env);
    known.set(env, made);
    return made;
  };
}

/** The environments of accounts, which tell KV of their keys. */
const durable = onceFor((env) => ({ ...env, API_KEYS: writtenThrough(env) }));

/** Keys that a limit counts at once; who calls from more networks is not held up by it anyway. */
const maxCounted = 100_000;

/**
 * A rate limit as the platform has it, for the one isolate that there is.
 * @param policy requests/seconds; the Worker refuses any other text
 */
function limiterOf(policy = ''): { limit(o: { key: string }): Promise<{ success: boolean }> } {
  const [, requests = Number.POSITIVE_INFINITY, seconds = 1] = /^([0-9]+)\/([0-9]+)$/.exec(policy)?.map(Number) ?? [];
  const counts = new Map<string, number>();
  let period = 0;
  return {
    async limit({ key }) {
      if (key === `address:${ownAddress}`) return { success: true };
      const now = Math.floor(Date.now() / (seconds * 1000));
      if (now !== period || counts.size >= maxCounted) counts.clear();
      period = now;
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      return { success: count <= requests };
    },
  };
}

/** The environments of the Worker. */
const guarded = onceFor((env) => ({
  ...env,
  ACCOUNT: onlyExisting('Account', env.ACCOUNT, env),
  SHARE: onlyExisting('Share', env.SHARE, env),
  API_KEYS: writtenThrough(env),
  HANDOVERS: new WeakMap(),
  ...(env.LOCAL_ORIGIN !== undefined && {
    KEY_LIMIT: limiterOf(env.KEY_LIMIT_POLICY),
    ADDRESS_LIMIT: limiterOf(env.ADDRESS_LIMIT_POLICY),
  }),
}));

function refusalOf({ headers, method }: Request, env: GuardEnv): Refusal | undefined {
  if (env.LOCAL_ORIGIN !== undefined)
    return { detail: 'the request did not come through the listener', hint: `use the address ${env.LOCAL_ORIGIN}` };
  const origins = (env.LOCAL_ORIGINS ?? '').split(',').map((origin) => origin.trim());
  return refusal(headers, env.LOCAL_PORT, { origins, method });
}

/** The request at the origin that its client used. */
function publicly(request: Request, { LOCAL_ORIGIN: origin }: GuardEnv): Request {
  if (origin === undefined) return request;
  const { pathname, search } = new URL(request.url);
  const made = new Request(`${origin}${pathname}${search}`, request);
  made.headers.delete('sealpin-front');
  return made;
}

/**
 * The request of a client whose bytes the process in front takes or gives. What comes instead of
 * its body, the Worker reads when it is ready for it.
 */
function handedOver(request: Request, env: GuardEnv): Request {
  const headers = new Headers(request.headers);
  const length = headers.get('sealpin-length');
  if (length !== null) headers.set('content-length', length);
  for (const name of ['sealpin-handover', 'sealpin-length', 'transfer-encoding']) headers.delete(name);
  const made = new Request(request.url, { method: request.method, headers, signal: request.signal });
  env.HANDOVERS?.set(made, request.body === null ? {} : { report: request.body });
  return made;
}

export * from './worker.js';
export { LocalAccount as Account, LocalShare as Share };
export default {
  async fetch(request: Request, env: GuardEnv, context: unknown): Promise<Response> {
    const isOurs = (name: string): boolean =>
      timingSafeEqual(utf8(request.headers.get(name) ?? ''), utf8(env.LOCAL_CONTROL));
    if (isOurs('sealpin-control')) return Response.json({ running: running.size });
    const reason = isOurs('sealpin-front') ? undefined : refusalOf(request, env);
    if (reason !== undefined) return refusalResponse(request, reason);
    const isTaken = request.headers.has('sealpin-handover');
    if (isTaken && !isOurs('sealpin-handover')) return refusalResponse(request, notAccepted('sealpin-handover'));
    const end = countRunning(request);
    let body: Promise<void> | undefined;
    try {
      const asked = publicly(request, env);
      const taken = isTaken ? handedOver(asked, guarded(env)) : asked;
      const response = await worker.fetch(taken, guarded(env), context);
      // The process in front knows it from the place.
      if (response.headers.has('sealpin-place')) response.headers.delete('content-length');
      if (response.body === null || request.method === 'HEAD') return response;
      const through = throughFor(response);
      if (through === undefined) return new Response(await response.arrayBuffer(), response);
      body = forward(response.body, through.writable, request).finally(end);
      return new Response(through.readable, response);
    } finally {
      if (body === undefined) end();
    }
  },
};
