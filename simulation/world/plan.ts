/**
 * The plan of a history: what clients and the operator do, and what fails, when. All of it follows
 * from the seed, and any part can be left out.
 */
import { Random } from '../host/random.ts';
import { troubles, type Trouble } from '../platform/behaviour.ts';
import type { Topology } from './simulated-service.ts';

export type Mode = 'plain' | 'encrypted';

/**
 * Action of a client or of the operator. `of`: the ID of the step whose file, share or key it is
 * about.
 */
export type Action =
  | { kind: 'store'; mode: Mode; content: number; days?: number; isRepeatable: boolean; lie?: 'cid' | 'length' }
  | { kind: 'upload'; mode: Mode; content: number; pieces: number; days: number; isAbandoned: boolean }
  | { kind: 'read' | 'delete' | 'receipt' | 'verify'; of: number }
  | { kind: 'deleteAll'; of: number[] }
  | { kind: 'expire'; of: number; days: number | null }
  | { kind: 'list' | 'backup' | 'repair' }
  | { kind: 'share'; of: number; opens: number; days: number }
  | { kind: 'open'; of: number; receiver: number }
  | { kind: 'revoke'; of: number }
  | { kind: 'key'; files: number }
  | { kind: 'revokeKey'; of: number }
  | { kind: 'quota'; bytes: number | null }
  | { kind: 'migrate' | 'cancel'; from: string; to: string };

/** A fault. */
export type Fault =
  | { kind: 'trouble'; backend: string; trouble: Trouble; forMs: number }
  | { kind: 'lose' | 'damage'; backend: string; nth: number }
  | { kind: 'collect'; backend: string }
  | { kind: 'calls fail'; share: number; forMs: number }
  | { kind: 'kv fails'; forMs: number }
  | { kind: 'power cut' | 'isolate ends' | 'lines break'; afterTasks: number }
  | { kind: 'object crashes'; nth: number; afterTasks: number };

/** One step. `by`: the number of the account, or of the key (a step's ID) that does it. */
export type Step = { id: number; atMs: number } & ({ does: Action; by: number; withKey?: number } | { fails: Fault });

/** Some steps close to each other, after which everything comes to rest and is checked. */
export type Burst = { atMs: number; steps: Step[] };

export type Plan = { seed: string; topology: Topology; quotas: (number | null)[]; bursts: Burst[]; endMs: number };

const dayMs = 86_400_000;
const yearMs = 365 * dayMs;
/** Contents that files have: few, so that the same bytes are stored again and again. */
const contents = 10;
const accounts = 2;

const topologies: readonly [Topology, ...Topology[]] = [
  { kinds: ['kubo'], replicas: 1 },
  { kinds: ['kubo', 'kubo'], replicas: 2 },
  { kinds: ['kubo', 'kubo'], replicas: 1 },
  { kinds: ['kubo', 'r2'], replicas: 2 },
  { kinds: ['r2', 'kubo'], replicas: 2 },
  { kinds: ['r2'], replicas: 1 },
];

/** The bytes of a content. */
export function contentOf(content: number): Uint8Array {
  const random = new Random(`content ${content}`);
  const bytes = new Uint8Array(
    content === 0 ? 0 : content < contents - 2 ? random.spread(1, 3_000) : 1_200_000 + content * 9,
  );
  const block = new Uint8Array(Math.min(bytes.length, 1_000));
  random.draw(block);
  for (let at = 0; at < bytes.length; at += block.length) bytes.set(block.subarray(0, bytes.length - at), at);
  return bytes;
}

/** Makes the plan of a seed. */
export function planOf(seed: string, years: number): Plan {
  const random = new Random(`plan ${seed}`);
  const topology = random.pick(topologies);
  const count = Math.max(1, Math.round(years * 1.5));
  const builder = new Builder(random, topology);
  const bursts = Array.from({ length: count }, (_, i) =>
    builder.burst(((i + random.next() * 0.5) * years * yearMs) / count),
  );
  const quotas = Array.from({ length: accounts }, () => (random.chance(0.5) ? random.spread(2_000, 3_000_000) : null));
  return { seed, topology, quotas, bursts, endMs: years * yearMs };
}

class Builder {
  readonly #random: Random;
  readonly #backends: [string, ...string[]];
  #files: number[] = [];
  #shares: number[] = [];
  #keys: number[] = [];
  /** The account of each step. */
  readonly #owners = new Map<number, number>();
  #id = 0;

  constructor(random: Random, topology: Topology) {
    this.#random = random;
    this.#backends = topology.kinds.map((_, i) => `b${i}`) as [string, ...string[]];
  }

  burst(atMs: number): Burst {
    const random = this.#random;
    const spanMs = random.spread(500, 3 * dayMs);
    const steps: Step[] = [];
    const when = (): number => Math.round(random.next() * spanMs);
    const times = Array.from({ length: 6 + random.below(14) }, when).toSorted((a, b) => a - b);
    for (const each of times) {
      const id = (this.#id += 1);
      const does = this.#action(id);
      // Others than the owner of a file ask for it as well, but seldom.
      const owner = 'of' in does && !random.chance(0.08) ? this.#owners.get([does.of].flat()[0] ?? 0) : undefined;
      const by = owner ?? random.below(accounts);
      this.#owners.set(id, by);
      const keys = this.#keys.filter((key) => this.#owners.get(key) === by);
      const isOfKey = keys.length > 0 && random.chance(0.2);
      steps.push({ id, atMs: each, does, by, ...(isOfKey && { withKey: this.#one(keys) }) });
    }
    const faults = random.chance(0.2) ? 0 : 1 + random.below(5);
    for (let i = 0; i < faults; i += 1) steps.push({ id: (this.#id += 1), atMs: when(), fails: this.#fault(spanMs) });
    // What lies back long is seldom asked for again.
    this.#files = this.#files.slice(-25);
    this.#shares = this.#shares.slice(-6);
    return { atMs, steps };
  }

  #one(of: readonly number[]): number {
    return of[Math.max(0, of.length - 1 - Math.floor(this.#random.next() ** 2 * of.length))] ?? 0;
  }

  #action(id: number): Action {
    const random = this.#random;
    const dice = random.next();
    if (this.#files.length === 0 || dice < 0.24) return this.#store(id);
    if (dice < 0.32) {
      this.#files.push(id);
      const pieces = 1 + random.below(4);
      const isAbandoned = random.chance(0.2);
      const days = random.spread(1, 1_000) / 10;
      return { kind: 'upload', mode: this.#mode(), content: this.#content(0.4), pieces, days, isAbandoned };
    }
    const of = this.#one(this.#files);
    if (dice < 0.44) return { kind: 'read', of };
    if (dice < 0.58) return { kind: 'delete', of };
    if (dice < 0.61) return { kind: 'deleteAll', of: [of, this.#one(this.#files), this.#one(this.#files)] };
    if (dice < 0.65) return { kind: 'expire', of, days: random.chance(0.1) ? null : random.spread(1, 2_000) / 10 };
    if (dice < 0.72) {
      this.#shares.push(id);
      return { kind: 'share', of, opens: 1 + random.below(4), days: random.spread(1, 300) / 10 };
    }
    if (dice < 0.84 && this.#shares.length > 0)
      return { kind: 'open', of: this.#one(this.#shares), receiver: random.below(3) };
    if (dice < 0.86 && this.#shares.length > 0) return { kind: 'revoke', of: this.#one(this.#shares) };
    if (dice < 0.88) {
      this.#keys.push(id);
      return { kind: 'key', files: 1 + random.below(4) };
    }
    if (dice < 0.89 && this.#keys.length > 0) return { kind: 'revokeKey', of: this.#one(this.#keys) };
    if (dice < 0.91) return { kind: 'quota', bytes: random.chance(0.4) ? null : random.spread(1_000, 4_000_000) };
    if (dice < 0.94 && this.#backends.length > 1) {
      const from = random.pick(this.#backends);
      const to = this.#backends.find((each) => each !== from) ?? from;
      return { kind: random.chance(0.6) ? 'migrate' : 'cancel', from, to };
    }
    return dice < 0.97
      ? { kind: random.pick(['list', 'backup', 'repair']) }
      : { kind: random.pick(['receipt', 'verify']), of };
  }

  #store(id: number): Action {
    const random = this.#random;
    this.#files.push(id);
    return {
      kind: 'store',
      mode: this.#mode(),
      content: this.#content(0.03),
      isRepeatable: random.chance(0.6),
      ...(random.chance(0.8) && { days: random.spread(1, 3_000) / 10 }),
      ...(random.chance(0.06) && { lie: random.pick(['cid', 'length']) }),
    };
  }

  #mode(): Mode {
    return this.#random.chance(0.7) ? 'plain' : 'encrypted';
  }

  /** @param large how often it has more than one block */
  #content(large: number): number {
    return this.#random.chance(large) ? contents - 1 - this.#random.below(2) : this.#random.below(contents - 2);
  }

  #fault(spanMs: number): Fault {
    const random = this.#random;
    const backend = random.pick(this.#backends);
    const dice = random.next();
    const forMs = random.chance(0.15) ? random.spread(dayMs, 20 * dayMs) : random.spread(200, 2 * spanMs);
    if (dice < 0.4) return { kind: 'trouble', backend, trouble: random.pick(troubles), forMs };
    if (dice < 0.48) return { kind: random.pick(['lose', 'damage']), backend, nth: random.below(50) };
    if (dice < 0.52) return { kind: 'collect', backend };
    if (dice < 0.6)
      return { kind: 'calls fail', share: random.pick([0.05, 0.3, 0.8]), forMs: Math.min(forMs, 3_600_000) };
    if (dice < 0.64) return { kind: 'kv fails', forMs: Math.min(forMs, 3_600_000) };
    const afterTasks = random.below(80);
    if (dice < 0.82) return { kind: 'object crashes', nth: random.below(50), afterTasks };
    return { kind: random.pick(['power cut', 'isolate ends', 'lines break']), afterTasks };
  }
}
