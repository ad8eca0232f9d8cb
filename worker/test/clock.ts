/**
 * The Worker with objects that let a test advance their clock, ring their alarm, see their rows,
 * and make their calls fail.
 */
import worker, { Account as RealAccount, Pin as RealPin, Share as RealShare } from '../index.ts';
import type { Env } from '../env.ts';
import type { Result } from '../objects/result.ts';
import type { AccountEnv } from '../objects/account/delivery.ts';
import { present } from '../../testkit/present.ts';
import { faulty, FaultyFiles, FaultyKeys, FaultyPending, FaultyRotation, type Fault } from './faulty-calls.ts';
import { withGate } from './gated-bucket.ts';

export { Metrics } from '../index.ts';

type Row = Record<string, SqlStorageValue>;

/**
 * A call of a test to an object, in the body of `POST /test/object`; the answer is its JSON, with
 * bytes as `{ base64 }`.
 */
export type ObjectCall = { binding: 'ACCOUNT' | 'PIN' | 'SHARE'; name: string; method: string; args: unknown[] };

type Objects = Record<ObjectCall['binding'], DurableObjectNamespace>;

/**
 * A check of health counts for 5 s in its environment: such a request gets one of its own, and no
 * test waits.
 */
function isAboutHealth({ url }: Request): boolean {
  return ['/v1/health', '/v1/operator/metrics'].includes(new URL(url).pathname);
}

/**
 * The environment of a request, with the settings that it asks for (`withSettings`); where these
 * are none, that of the service, whose check counts for others, too.
 */
function settingsFor(request: Request, env: Env): Env {
  const settings = request.headers.get('Sealpin-Test-Settings');
  if (settings === '{}') return env;
  if (settings === null) return isAboutHealth(request) ? { ...env } : env;
  return { ...env, ...(JSON.parse(settings) as Partial<Env>) };
}

async function called(request: Request, env: Objects): Promise<Response> {
  const { binding, name, method, args } = await request.json<ObjectCall>();
  const object = env[binding].getByName(name) as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const value = await present(object[method])(...args);
  return new Response(
    JSON.stringify({ value }, (_, each: unknown) =>
      each instanceof ArrayBuffer ? { base64: new Uint8Array(each).toBase64() } : each,
    ),
  );
}

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export default {
  async fetch(request: Request, env: Env & Objects, ctx: ExecutionContext): Promise<Response> {
    if (new URL(request.url).pathname === '/test/object')
      return await called(request, env).catch((error: unknown) => new Response(String(error), { status: 500 }));
    return await worker.fetch(request, settingsFor(request, withGate(env)), ctx);
  },
};

/** Time by which the clock of an object is ahead of the machine's. */
type Ahead = { ms: number };

export class Account extends RealAccount {
  readonly #ahead: Ahead;
  readonly #faults: Map<string, Fault>;
  readonly #faultyFiles: FaultyFiles;
  readonly #faultyKeys: FaultyKeys;
  readonly #pending: FaultyPending;
  readonly #rotation: FaultyRotation;

  constructor(ctx: DurableObjectState, env: AccountEnv) {
    const faults = new Map<string, Fault>();
    const ahead = { ms: 0 };
    setByClock(ctx, ahead);
    const { storage } = ctx;
    const setAlarm = storage.setAlarm.bind(storage);
    storage.setAlarm = (time) => faulty(faults, 'setAlarm', () => setAlarm(time));
    const { PIN, SHARE, API_KEYS } = env;
    super(ctx, {
      ...withGate(env),
      PIN: failing(PIN, faults),
      SHARE: failing(SHARE, faults),
      API_KEYS: withFaults(API_KEYS, faults),
    });
    this.#ahead = ahead;
    this.#faults = faults;
    this.#faultyFiles = new FaultyFiles(this.context, faults);
    this.#faultyKeys = new FaultyKeys(this.context, faults);
    this.#pending = new FaultyPending(this.context, faults);
    this.#rotation = new FaultyRotation(this.context, faults);
  }

  protected override now(): number {
    return Date.now() + this.#ahead.ms;
  }

  /** Lets that much time pass, and rings the alarm. */
  async ring(ms: number): Promise<void> {
    this.#ahead.ms += ms;
    await this.alarm();
  }

  /** Lets that much time pass, without the alarm. */
  wait(ms: number): void {
    this.#ahead.ms += ms;
  }

  /** Lets no alarm ring by itself from now on. */
  async stopAlarm(): Promise<void> {
    this.ctx.storage.setAlarm = async () => undefined;
    await this.ctx.storage.deleteAlarm();
  }

  /** Adds rows of ready plain files, beside which others are few. */
  fill(count: number): void {
    this.ctx.storage.sql.exec(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO file (file_id, state, mode, bytes, container, cid, service, created_at, created_by)
       SELECT printf('00000000-0000-4000-8000-%012d', i), 'ready', 'plain', 1, 0, 'none', 'node', 0, '' FROM n`,
      count,
    );
    this.ctx.storage.sql.exec('UPDATE account SET files = files + ?1, bytes = bytes + ?1', count);
  }

  /** Changes rows to what another version has left. */
  change(statement: string): void {
    this.ctx.storage.sql.exec(statement);
  }

  /** Adds that many shares, whose records nobody has. @param endsAt when they expire, in ms */
  fillShares(count: number, endsAt: number): void {
    this.ctx.storage.sql.exec(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       INSERT INTO share (id, state, api_key, password, opens, created_at, expires_at, due)
       SELECT printf('%d-%d', i, ?2), 'active', '', 0, 1, 0, ?2, ?2 FROM n`,
      count,
      endsAt,
    );
  }

  /** Makes claims last that long. */
  lease(ms: number): void {
    this.leaseMs = ms;
  }

  /**
   * Lets the next call of that name fail: `addReference`, `removeReference` of `Pin`, `create`,
   * `revoke` of `Share`, `put` of KV, `commit`, `commitPart`, `begin`, `rewrap`, `add`, `change`,
   * `list`, `shareOpened` of this object, `setAlarm` of its storage.
   */
  fail(call: string, fault: Fault): void {
    this.#faults.set(call, fault);
  }

  /** Tells whether a call that must fail is still to come. */
  awaits(call: string): boolean {
    return this.#faults.has(call);
  }

  override get files(): FaultyFiles {
    return this.#faultyFiles;
  }

  override get keys(): FaultyKeys {
    return this.#faultyKeys;
  }

  override get pending(): FaultyPending {
    return this.#pending;
  }

  override get rotation(): FaultyRotation {
    return this.#rotation;
  }

  override shareOpened(...args: Parameters<RealAccount['shareOpened']>): Promise<Result> {
    if (this.#faults.get('shareOpened') === 'refused') {
      this.#faults.delete('shareOpened');
      return Promise.resolve({ ok: false, code: 'overloaded' });
    }
    return faulty(this.#faults, 'shareOpened', () => super.shareOpened(...args));
  }

  rows(
    table:
      | 'file'
      | 'file_detail'
      | 'receipt'
      | 'part'
      | 'upload'
      | 'shown'
      | 'outbox'
      | 'idempotency'
      | 'api_key'
      | 'share'
      | 'event'
      | 'signed_use'
      | 'key_usage'
      | 'provisional_file'
      | 'rotation'
      | 'rotation_file'
      | 'key_limit',
  ): Row[] {
    return this.ctx.storage.sql.exec<Row>(`SELECT * FROM ${table}`).toArray();
  }

  /**
   * Counts the tables, without the one in which workerd keeps its alarm, which even an empty object
   * may have.
   */
  tables(): number {
    return this.ctx.storage.sql.exec(`SELECT name FROM sqlite_master WHERE substr(name, 1, 4) <> '_cf_'`).toArray()
      .length;
  }
}

export class Pin extends RealPin {
  readonly #ahead: Ahead;

  constructor(ctx: DurableObjectState, env: ConstructorParameters<typeof RealPin>[1]) {
    const ahead = { ms: 0 };
    setByClock(ctx, ahead);
    super(ctx, withGate(env));
    this.#ahead = ahead;
  }

  protected override now(): number {
    return Date.now() + this.#ahead.ms;
  }

  async ring(ms: number): Promise<void> {
    this.#ahead.ms += ms;
    await this.alarm();
  }

  /** Changes rows to what a crash, or another version, has left. */
  change(statement: string): void {
    this.ctx.storage.sql.exec(statement);
  }

  /** Lets no alarm ring by itself from now on. */
  async stopAlarm(): Promise<void> {
    this.ctx.storage.setAlarm = async () => undefined;
    await this.ctx.storage.deleteAlarm();
  }

  /** Lets the next transaction fail after all that it does, as where the disk is full. */
  breakTransaction(): void {
    const { storage } = this.ctx;
    const real = storage.transactionSync.bind(storage);
    storage.transactionSync = (work) => {
      storage.transactionSync = real;
      return real(() => {
        work();
        throw new Error('the transaction fails');
      });
    };
  }

  /** Writes that many rows of CIDs that nobody has, live at a service and due. */
  fill(count: number, service: string): void {
    const { sql } = this.ctx.storage;
    sql.exec(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO pin (cid, service, state, was_there, due, attempts)
       SELECT 'bafkreicid' || i, ?, 'live', 0, 0, 0 FROM n`,
      count,
      service,
    );
  }

  /** Adds a reference to a CID by each of so many accounts that do not exist. */
  refer(count: number, cid: string): void {
    this.ctx.storage.sql.exec(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO reference (cid, service, account, file_id) SELECT ?, 'node', printf('%022d', i), 'f' FROM n`,
      count,
      cid,
    );
  }

  rows(table: 'pin' | 'reference' | 'removal' | 'block_index' | 'block_below' | 'object' | 'object_sweep'): Row[] {
    const { sql } = this.ctx.storage;
    const isThere = sql.exec('SELECT 1 FROM sqlite_master WHERE name = ?', table).toArray().length > 0;
    return isThere ? sql.exec<Row>(`SELECT * FROM ${table}`).toArray() : [];
  }

  /** Makes the object one of the version before blocks were found by their own CIDs. */
  forgetBlocks(): void {
    this.ctx.storage.sql.exec('DROP TABLE IF EXISTS block_index; DROP TABLE IF EXISTS block_below');
  }

  tables(): number {
    return this.ctx.storage.sql.exec(`SELECT name FROM sqlite_master WHERE name IN ('pin', 'reference')`).toArray()
      .length;
  }
}

export class Share extends RealShare {
  readonly #ahead: Ahead;

  constructor(ctx: DurableObjectState, env: ConstructorParameters<typeof RealShare>[1]) {
    const ahead = { ms: 0 };
    setByClock(ctx, ahead);
    super(ctx, env);
    this.#ahead = ahead;
  }

  protected override now(): number {
    return Date.now() + this.#ahead.ms;
  }

  /** Lets that much time pass, and rings the alarm. */
  async ring(ms: number): Promise<void> {
    this.#ahead.ms += ms;
    await this.alarm();
  }

  /** Lets that much time pass, without the alarm. */
  wait(ms: number): void {
    this.#ahead.ms += ms;
  }

  rows(table: 'share' | 'opening' | 'repeatable'): Row[] {
    return this.tables() === 0 ? [] : this.ctx.storage.sql.exec<Row>(`SELECT * FROM ${table}`).toArray();
  }

  tables(): number {
    return this.ctx.storage.sql.exec(`SELECT name FROM sqlite_master WHERE name = 'share'`).toArray().length;
  }
}

/**
 * Lets an object set its alarms by its own clock: otherwise one that is a week ahead rings in a
 * week.
 */
function setByClock({ storage }: DurableObjectState, ahead: Ahead): void {
  const get = storage.getAlarm.bind(storage);
  const set = storage.setAlarm.bind(storage);
  storage.getAlarm = async () => {
    const ms = await get();
    return ms === null ? null : ms + ahead.ms;
  };
  storage.setAlarm = (time) => set(Number(time) - ahead.ms);
}

/** The namespace, with stubs whose calls may fail. */
function failing<T extends object>(namespace: T, faults: Map<string, Fault>): T {
  return wrapped(namespace, (name, call) =>
    name === 'getByName' ? (...args) => withFaults(call(...args) as object, faults) : call,
  );
}

/** An object whose calls may fail. */
function withFaults<T extends object>(target: T, faults: Map<string, Fault>): T {
  const calls = wrapped(
    target,
    (name, call) =>
      (...args) =>
        faulty(faults, name, () => Promise.resolve(call(...args))),
  );
  return new Proxy(calls, {
    // Calls about objects in stores are those of a part of the object.
    get: (all, name) =>
      name === 'objects' ? withFaults(Reflect.get(target, name) as object, faults) : Reflect.get(all, name),
  });
}

type Method = (...args: unknown[]) => unknown;

function wrapped<T extends object>(target: T, wrap: (name: string, call: Method) => Method): T {
  return new Proxy(target, {
    get(object, name) {
      const value: unknown = Reflect.get(object, name);
      return typeof value === 'function' && typeof name === 'string'
        ? wrap(name, (...args) => Reflect.apply(value, object, args) as unknown)
        : value;
    },
  });
}
