/** A service with an object store of a kind as its backend, and the bucket seen from outside. */
import { mkdir, mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test } from 'vitest';
import { shardName } from '../../objects/pin/shard-names.ts';
import { long } from '../../../testkit/long-run.ts';
import { startHostileGate, startHostileStore, type Hostile } from '../../../testkit/object-stores/hostile-store.ts';
import { keysOf } from '../../../testkit/object-stores/s3-requests.ts';
import { hasVersitygw, noVersitygw, startVersitygw, type Versitygw } from '../../../testkit/object-stores/versitygw.ts';
import { startService, type Service, type ServiceOptions } from '../../../testkit/service.ts';
import { newOwner, ownerAt, shardObject, type Owner } from '../stored-state.ts';

export const kinds = ['r2', 's3'] as const;
export type Kind = (typeof kinds)[number];
/**
 * The kinds for tests that cost much and hardly differ by kind: the short form runs a real store
 * where there is one.
 */
export const costlyKinds: readonly Kind[] = long ? kinds : [hasVersitygw() ? 's3' : 'r2'];

/** Tells whether a kind runs a case that both could run: in the short form one of them does. */
export const isTaken = (kind: Kind, at: number): boolean =>
  long || !hasVersitygw() || kinds[at % kinds.length] === kind;

/** Why the tests of a kind are skipped here; undefined where they run. */
export const missing = (kind: Kind): string | undefined => (kind === 's3' && !hasVersitygw() ? noVersitygw : undefined);

/** Declares tests for each kind of store; where one is missing here, a line says why. */
export function describeStores(title: string, tried: readonly Kind[], tests: (kind: Kind) => void): void {
  describe.each(tried)(title, (kind) => {
    const why = missing(kind);
    if (why === undefined) tests(kind);
    else test.skip(why);
  });
}

export type StoreUnderTest = {
  readonly service: Service;
  readonly owner: Owner;
  /** Starts the Worker again, which was killed, over what it has left. */
  again(): Promise<void>;
  /** Between the service and the store; R2 has one where it is asked for. */
  hostile: Hostile | undefined;
  /** Lists the keys, without the prefix; or those below another one. */
  keys(below?: string): Promise<string[]>;
  read(key: string): Promise<Buffer>;
  write(key: string, bytes: Buffer): Promise<void>;
  lose(key: string): Promise<void>;
  /** Makes an object older, as the store of S3 sees it. */
  age(key: string, ms: number): Promise<void>;
  /** Lets time pass for an account, and for all objects that have rows of these keys or CIDs. */
  pass(ms: number, o?: { rounds?: number }): Promise<void>;
  /**
   * Rings no more the objects so far, whose files are all gone: each ring costs, and tests use up
   * to all 256.
   */
  forget(): void;
  close(): Promise<void>;
};

const prefix = 'sealpin-tested/';
/** Nothing asks an IPFS node here. */
const noNode = { url: 'http://127.0.0.1:9', close: async () => undefined };

/**
 * Starts one.
 * @param o.isGated whether something hostile is before R2, too @param o.others entries behind the
 * store; `twin`: the same bucket with this prefix @param o.keeps as that of versitygw
 */
export async function startStore(
  kind: Kind,
  o: ServiceOptions & {
    prefix?: string;
    first?: object[];
    others?: object[];
    twin?: string;
    isGated?: boolean;
    keeps?: 'versions' | 'locked';
    gateway?: Versitygw;
  } = {},
): Promise<StoreUnderTest> {
  const gateway =
    kind === 's3' ? (o.gateway ?? (await startVersitygw(o.keeps === undefined ? {} : { keeps: o.keeps }))) : undefined;
  const hostile = gateway
    ? await startHostileStore(gateway)
    : o.isGated === true
      ? await startHostileGate()
      : undefined;
  const entryAt = (id: string, at: string | undefined): object => ({
    id,
    ...(gateway === undefined
      ? { type: 'r2', binding: 'BUCKET' }
      : {
          type: 's3',
          url: hostile?.url,
          bucket: gateway.bucket,
          region: gateway.region,
          keySecret: 'S3_KEY',
          secretSecret: 'S3_SECRET',
        }),
    ...(at !== undefined && { prefix: at }),
  });
  const entry = entryAt('store', o.prefix);
  const { first = [], others = [], twin, keeps: _, gateway: __, prefix: ___, isGated: ____, ...rest } = o;
  if (twin !== undefined) others.push(entryAt('twin', twin));
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-store-'));
  const options: ServiceOptions = {
    entry: 'worker/test/clock.ts',
    dir,
    node: noNode,
    ...rest,
    vars: {
      SERVICE_ID: 'tested',
      BACKENDS: JSON.stringify([...first, entry, ...others]),
      ...(gateway && { S3_KEY: gateway.keyId, S3_SECRET: gateway.secret }),
      ...(gateway === undefined && hostile !== undefined && { BUCKET_GATE: hostile.url }),
      ...o.vars,
    },
  };
  let service = await startService(options);
  let owner = await newOwner(service);
  const r2 = async () => await service.miniflare.getR2Bucket('BUCKET');
  const path = (key: string): string => join(gateway?.folder ?? '', prefix, key);
  const touched = new Set<string>();

  async function keys(below = prefix): Promise<string[]> {
    const found = await listed(below);
    for (const key of found) {
      const [, kind, name = ''] = /^(data|cid)\/([^/]+)/.exec(key) ?? [];
      if (kind !== undefined) touched.add(await shardName(name));
    }
    return found;
  }

  async function listed(below: string): Promise<string[]> {
    const found =
      gateway === undefined
        ? (await (await r2()).list({ prefix: below })).objects.map(({ key }) => key)
        : await keysOf(gateway, below);
    return found.map((key) => key.slice(below.length));
  }

  return {
    get service() {
      return service;
    },
    get owner() {
      return owner;
    },
    async again() {
      service = await startService(options);
      owner = ownerAt(service, owner);
    },
    hostile,
    keys,
    async read(key) {
      if (gateway !== undefined) return await readFile(path(key));
      const object = await (await r2()).get(`${prefix}${key}`);
      if (object === null) throw new Error(`there is no ${key}`);
      return Buffer.from(await object.arrayBuffer());
    },
    async write(key, bytes) {
      if (gateway === undefined) await (await r2()).put(`${prefix}${key}`, bytes);
      else {
        await mkdir(dirname(path(key)), { recursive: true });
        await writeFile(path(key), bytes);
      }
    },
    async lose(key) {
      if (gateway === undefined) await (await r2()).delete(`${prefix}${key}`);
      else await gateway.lose(`${prefix}${key}`);
    },
    async age(key, ms) {
      const then = new Date(Date.now() - ms);
      await utimes(path(key), then, then);
    },
    async pass(ms, { rounds = 1 } = {}) {
      await keys();
      if (twin !== undefined) await keys(twin);
      for (let round = 0; round < rounds; round += 1) {
        await owner.object.ring(ms);
        await Promise.all(Array.from(touched, (name) => shardObject(service, name).ring(ms)));
      }
    },
    forget: () => touched.clear(),
    async close() {
      await service.close();
      await hostile?.close();
      if (o.gateway === undefined) await gateway?.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
