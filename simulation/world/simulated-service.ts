/** The service with all that it runs on: its objects, KV, its backends, and the edge before it. */
import worker, { Account, Metrics, Pin, Share } from '../../worker/index.ts';
import type { Owner, Scheduler } from '../host/scheduler.ts';
import { Behaviour } from '../platform/behaviour.ts';
import type { Coverage } from './coverage.ts';
import type { Topology } from './plan.ts';
import { SimulatedBucket } from '../platform/simulated-bucket.ts';
import { adminToken, Edge, type Worker } from '../platform/edge.ts';
import { SimulatedFront } from '../platform/simulated-front.ts';
import { intakeOf } from '../platform/simulated-intake.ts';
import { SimulatedKubo } from '../platform/simulated-kubo.ts';
import { SimulatedS3 } from '../platform/simulated-s3.ts';
import { Kv } from '../platform/kv.ts';
import { Namespace } from '../platform/namespace.ts';
import type { CallFate, ObjectClass, ObjectsOptions } from '../platform/simulated-object.ts';
import { shardName } from '../../worker/objects/pin/shard-names.ts';

const serviceId = 'simulation';

export type ServiceOptions = {
  scheduler: Scheduler;
  topology: Topology;
  hasFront: boolean;
  /** Takes what must never be, in words. */
  violated(what: string): void;
  coverage: Coverage | undefined;
};

export class SimulatedService {
  readonly scheduler: Scheduler;
  readonly topology: Topology;
  readonly accounts: Namespace;
  readonly pins: Namespace;
  readonly shares: Namespace;
  readonly metrics: Namespace;
  readonly kv: Kv;
  readonly edge: Edge;
  /** The process in front, where the first backend is a node in it. */
  readonly front: SimulatedFront | undefined;
  /** The backends by their IDs. */
  readonly kubos = new Map<string, SimulatedKubo>();
  readonly buckets = new Map<string, SimulatedBucket>();
  /** Share of the calls between objects that fail, while a fault says so. */
  failingCalls = 0;
  readonly #violated: ServiceOptions['violated'];

  constructor({ scheduler, topology, hasFront, violated, coverage }: ServiceOptions) {
    this.scheduler = scheduler;
    this.topology = topology;
    this.#violated = violated;
    this.kv = new Kv(scheduler);
    const env: Record<string, unknown> = {
      API_KEYS: this.kv.binding(),
      ADMIN_TOKEN: adminToken,
      SERVICE_ID: serviceId,
      REPLICAS: String(topology.replicas),
      PUBLIC_GATEWAY: 'on',
      BACKENDS: JSON.stringify(topology.kinds.map((kind, i) => this.#backend(kind, `b${i}`))),
      S3_KEY: 'key',
      S3_SECRET: 'secret',
    };
    for (const [id, bucket] of this.buckets) env[`BUCKET_${id}`] = bucket.binding();
    const options: ObjectsOptions = {
      scheduler,
      environment: () => env,
      fateOf: (owner) => this.#fateOf(owner),
      committed: (object) => coverage?.committed(object),
    };
    const namespace = (name: string, made: unknown): Namespace => {
      const all = new Namespace(name, made as ObjectClass, options);
      env[name] = all.binding();
      return all;
    };
    this.accounts = namespace('ACCOUNT', Account);
    this.pins = namespace('PIN', Pin);
    this.shares = namespace('SHARE', Share);
    this.metrics = namespace('METRICS', Metrics);
    const node = this.kubos.get('b0');
    this.front = hasFront && node ? new SimulatedFront({ scheduler, node, intake: intakeOf(node) }) : undefined;
    env['HANDOVERS'] = this.front?.handovers;
    this.edge = new Edge({ scheduler, worker: worker as unknown as Worker, env, front: this.front });
  }

  /** The `fetch` of the product. */
  async fetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const url = new URL(input instanceof Request ? input.url : input);
    const backend = this.backend(url.hostname.replace('.test', ''));
    if (!(backend instanceof SimulatedKubo || backend instanceof SimulatedS3))
      throw new TypeError(`nobody answers at ${url.host}`);
    return await backend.fetch(url, init);
  }

  /** The backend of an ID. */
  backend(id: string): SimulatedKubo | SimulatedBucket | undefined {
    return this.kubos.get(id) ?? this.buckets.get(id);
  }

  /** The objects that have storage, of the classes whose work must end. */
  get objects() {
    return [this.accounts, this.pins, this.shares].flatMap(({ objects }) => [...objects.values()]);
  }

  /** Ends everything at once, as a power cut does. @returns whether something ran */
  cutPower(): boolean {
    const ends = [this.front?.end(), this.edge.crash(), ...this.objects.map((object) => object.crash())];
    return ends.includes(true);
  }

  /** Gives the memory of all objects back: nothing may call them any more. */
  close(): void {
    for (const { storage } of [...this.objects, ...this.metrics.objects.values()]) storage.close();
  }

  /** The rows of a CID, at all backends. */
  async pinRows(cid: string) {
    const storage = this.pins.objects.get(await shardName(cid))?.storage;
    return storage?.rows('pin').filter((row) => row['cid'] === cid) ?? [];
  }

  #backend(kind: Topology['kinds'][number], id: string): object {
    const behaviour = new Behaviour(id, this.scheduler);
    if (kind === 'kubo') {
      this.kubos.set(id, new SimulatedKubo(behaviour, (cid) => void this.#mustHaveRow(id, cid)));
      return { id, type: 'kubo', url: `https://${id}.test` };
    }
    const sent = (key: string) => this.#mustHaveObjectRow(id, key);
    if (kind === 's3') {
      this.buckets.set(id, new SimulatedS3(behaviour, sent));
      const secrets = { keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
      return { id, type: 's3', url: `https://${id}.test`, bucket: 'files', ...secrets };
    }
    this.buckets.set(id, new SimulatedBucket(behaviour, sent));
    return { id, type: 'r2', binding: `BUCKET_${id}` };
  }

  async #mustHaveRow(backend: string, cid: string): Promise<void> {
    if (!(await this.pinRows(cid)).some((row) => row['service'] === backend))
      this.#violated(`${backend} pins ${cid}, and no row says so`);
  }

  #mustHaveObjectRow(backend: string, key: string): void {
    const id = /data\/([0-9a-f]{32})\//.exec(key)?.[1];
    if (id === undefined) return;
    const storage = this.pins.objects.get(id.slice(0, 2))?.storage;
    if (storage?.rows('object').some((row) => row['id'] === id) !== true)
      this.#violated(`${backend} is sent ${key}, and no row says so`);
  }

  #fateOf(owner: Owner): CallFate {
    const random = this.scheduler.random('calls');
    if (this.failingCalls === 0 || !random.chance(this.failingCalls) || owner.name === 'checker') return 'arrives';
    return random.pick(['is refused', 'is lost', 'answer is lost']);
  }
}
