/**
 * The plan of a seed. Most bursts are clashes: some things are made, and then much happens to them
 * within a moment, while something fails. Each burst has its favourites among the actions, so that
 * some of them meet far more often than in an even mix.
 */
import { dayMs, hourMs } from '../../shared/time.ts';
import { Random } from '../host/random.ts';
import { troubles } from '../platform/behaviour.ts';
import {
  accountCount,
  contents,
  ofThreeLeaves,
  topologies,
  type Action,
  type Burst,
  type SimulatedFault,
} from './plan.ts';
import type { Mode, Plan, Step, Topology } from './plan.ts';

const secondMs = 1_000;
const yearMs = 365 * dayMs;
/** Bursts of every history, and of each year besides. */
const bursts = { least: 4, ofYear: 1.5 };
/** Years from which each burst deletes what former ones have left. */
const longYears = 1;

/** Makes the plan of a seed. */
export function planOf(seed: string, years: number): Plan {
  const random = new Random(`plan ${seed}`);
  const topology = random.pick(topologies);
  const count = Math.round(bursts.least + years * bursts.ofYear);
  // Of its own, so that the rest of the plan is the same.
  const front = new Random(`front ${seed}`);
  const hasFront = topology.kinds[0] === 'kubo' && front.chance(0.5);
  const reading = new Random(`reading ${seed}`);
  const isLong = years >= longYears;
  const builder = new Builder(random, topology, { front: hasFront ? front : undefined, reading, isLong });
  const all = Array.from({ length: count }, (_, i) =>
    builder.burst(Math.round(((i + random.next() * 0.5) * years * yearMs) / count)),
  );
  const quotas = Array.from({ length: accountCount }, () =>
    random.chance(0.5) ? random.spread(2_000, 3_000_000) : null,
  );
  return { seed, topology, hasFront, quotas, bursts: all, endMs: years * yearMs };
}

/** Weights of the actions in an even mix. */
const shares = {
  store: 20,
  upload: 8,
  read: 9,
  delete: 14,
  deleteAll: 3,
  expire: 5,
  share: 7,
  open: 12,
  revoke: 3,
  key: 3,
  revokeKey: 2,
  quota: 2,
  migrate: 2,
  cancel: 1,
  list: 1,
  backup: 1,
  repair: 1,
  receipt: 3,
  verify: 2,
  storeSigned: 2,
  readSigned: 2,
  note: 4,
  deny: 0.7,
  change: 5,
  invite: 2,
  rotate: 1.2,
  close: 0.3,
} as const satisfies Record<Action['kind'], number>;

/** The kinds of actions. */
export const kinds = Object.keys(shares) as Action['kind'][];

/** Those that store a file. */
const storingKinds = new Set<Action['kind']>(['store', 'storeSigned', 'upload']);

/** Those about a share. */
const ofShare = ['open', 'change', 'revoke'] as const;

/** Weights of the actions in a burst. */
type Mix = Map<Action['kind'], number>;

class Builder {
  readonly #random: Random;
  readonly #backends: [string, ...string[]];
  readonly #front: Random | undefined;
  readonly #reading: Random;
  readonly #isLong: boolean;
  #files: number[] = [];
  /** The steps that share a file which an earlier step of the same account stores. */
  #shares: number[] = [];
  #keys: number[] = [];
  /** The steps of former bursts that store a file, unless it was deleted. */
  #stored: number[] = [];
  /** Contents of a burst. */
  #contents: readonly [number, ...number[]] = [0];
  /** The account of each step, and its time, in ms from the beginning. */
  readonly #owners = new Map<number, number>();
  readonly #times = new Map<number, number>();
  /** The steps that store what they have, unless something fails. */
  readonly #storing = new Set<number>();
  #burstMs = 0;
  #id = 0;

  constructor(
    random: Random,
    topology: Topology,
    { front, reading, isLong }: { front: Random | undefined; reading: Random; isLong: boolean },
  ) {
    this.#random = random;
    this.#front = front;
    this.#reading = reading;
    this.#isLong = isLong;
    this.#backends = topology.kinds.map((_, i) => `b${i}`) as [string, ...string[]];
  }

  burst(atMs: number): Burst {
    const random = this.#random;
    this.#burstMs = atMs;
    const large = random.chance(0.3) ? 0.5 : 0.05;
    const one = this.#content(large);
    // In some bursts everybody has the same bytes, so that what is done to one CID meets.
    this.#contents = random.chance(0.3) ? [one] : [one, this.#content(large), this.#content(large)];
    const steps = random.chance(0.65) ? this.#clash() : this.#spread();
    if (this.#isLong) steps.push(...this.#removals(steps.at(-1)?.atMs ?? 0));
    this.#stored.push(
      ...steps.filter((step) => 'does' in step && storingKinds.has(step.does.kind)).map(({ id }) => id),
    );
    // What lies back long is seldom asked for again.
    this.#files = this.#files.slice(-20);
    this.#shares = this.#shares.slice(-6);
    this.#keys = this.#keys.slice(-6);
    return { atMs, steps };
  }

  /** Deletions of most of what was stored before, so that quiet years have little to check. */
  #removals(withinMs: number): Step[] {
    const random = this.#random;
    const before = this.#stored.splice(0);
    return Array.from({ length: accountCount }, (_, by) => by).flatMap((by) => {
      const of = before.filter((id) => this.#owners.get(id) === by && random.chance(0.96));
      if (of.length === 0) return [];
      return [{ id: this.#next(), atMs: Math.round(random.next() * withinMs), does: { kind: 'deleteAll', of }, by }];
    });
  }

  /** Actions and faults at any time of some days, or of less than a second. */
  #spread(): Step[] {
    const random = this.#random;
    const spanMs = random.spread(500, 3 * dayMs);
    const mix = this.#mix();
    const times = Array.from({ length: 6 + random.below(14) }, () => Math.round(random.next() * spanMs));
    const steps = times.toSorted((a, b) => a - b).map((at) => this.#step(at, mix, random.below(accountCount)));
    const faults = random.chance(0.2) ? 0 : 1 + random.below(5);
    for (let i = 0; i < faults; i += 1)
      steps.push({ id: this.#next(), atMs: Math.round(random.next() * spanMs), fails: this.#fault(spanMs) });
    return steps;
  }

  /** Some things are made, and then everybody wants them at once. */
  #clash(): Step[] {
    const random = this.#random;
    const by = random.below(accountCount);
    const owner = (): number => (random.chance(0.8) ? by : random.below(accountCount));
    [this.#files, this.#shares, this.#keys] = [this.#files.slice(-3), this.#shares.slice(-2), this.#keys.slice(-2)];
    const steps: Step[] = [];
    const making: Mix = new Map([
      ['store', 5],
      ['upload', 2],
      ['share', 4],
      ['key', 1],
      ['invite', 1],
    ]);
    let atMs = 0;
    for (let left = 2 + random.below(4); left > 0; left -= 1) {
      steps.push(this.#step(atMs, making, owner()));
      atMs += 1_500;
    }
    for (let waves = 1 + random.below(3); waves > 0; waves -= 1) {
      atMs += random.spread(4 * secondMs, random.chance(0.2) ? 2 * dayMs : 20 * secondMs);
      const widthMs = random.spread(1, 3_000);
      const when = (): number => Math.round(atMs + random.next() * widthMs);
      const mix = this.#mix();
      // In some, all that can be done to a share meets.
      if (this.#shares.length > 0 && random.chance(0.3)) for (const kind of ofShare) mix.set(kind, 40);
      for (let left = 3 + random.below(9); left > 0; left -= 1) steps.push(this.#step(when(), mix, owner()));
      for (let left = random.below(4); left > 0; left -= 1)
        steps.push({ id: this.#next(), atMs: when(), fails: this.#fault(30 * secondMs) });
    }
    return steps;
  }

  /** Favourites of a burst; what it leaves out happens in others. */
  #mix(): Mix {
    const favour = (): number => this.#random.pick([0, 0.5, 1, 1, 4, 12]);
    return new Map(kinds.map((kind) => [kind, shares[kind] * favour()]));
  }

  #step(atMs: number, mix: Mix, anybody: number): Step {
    const random = this.#random;
    const id = this.#next();
    this.#times.set(id, this.#burstMs + atMs);
    const does = this.#action(id, mix);
    // Others than the owner of a file ask for it as well, but seldom.
    const owner = 'of' in does && !random.chance(0.06) ? this.#owners.get([does.of].flat()[0] ?? 0) : undefined;
    const by = owner ?? anybody;
    this.#owners.set(id, by);
    if (storingKinds.has(does.kind) && !('lie' in does) && !('isAbandoned' in does && does.isAbandoned))
      this.#storing.add(id);
    if (does.kind === 'share' && owner !== undefined && this.#storing.has(does.of) && this.#isBefore(does.of, id))
      this.#shares.push(id);
    const keys = this.#keys.filter((key) => key !== id && this.#owners.get(key) === by);
    const isOfKey = keys.length > 0 && random.chance(0.2);
    return { id, atMs, does, by, ...(isOfKey && { withKey: this.#one(keys) }) };
  }

  #isBefore(one: number, other: number): boolean {
    return (this.#times.get(one) ?? 0) < (this.#times.get(other) ?? 0);
  }

  #next(): number {
    return (this.#id += 1);
  }

  #one(of: readonly number[]): number {
    return of[Math.max(0, of.length - 1 - Math.floor(this.#random.next() ** 2 * of.length))] ?? 0;
  }

  #kind(mix: Mix): Action['kind'] {
    let left = this.#random.next() * [...mix.values()].reduce((sum, each) => sum + each, 0);
    for (const [kind, weight] of mix) if ((left -= weight) < 0) return kind;
    return 'store';
  }

  #action(id: number, mix: Mix): Action {
    const random = this.#random;
    const kind = this.#kind(mix);
    const before = this.#shares.filter((each) => this.#isBefore(each, id));
    // Those of former bursts have ended, mostly.
    const recent = before.filter((each) => (this.#times.get(each) ?? 0) >= this.#burstMs);
    const shares = recent.length > 0 ? recent : before;
    const [of, share, key] = [this.#one(this.#files), this.#one(shares), this.#one(this.#keys)];
    if (of === 0 || kind === 'store') return this.#store(id);
    switch (kind) {
      case 'upload':
        return this.#upload(id);
      case 'deleteAll':
        return { kind, of: [of, this.#one(this.#files), this.#one(this.#files)] };
      case 'expire':
        return { kind, of, days: random.chance(0.1) ? null : this.#days(200) };
      case 'share':
        return { kind, of, opens: 1 + random.below(4), days: this.#days(30) };
      case 'open':
        return share === 0 ? { kind: 'read', of } : { kind, of: share, receiver: random.below(3) };
      case 'revoke':
        return share === 0 ? { kind: 'read', of } : { kind, of: share };
      case 'change':
        return share === 0 ? { kind: 'note', of } : this.#change(share);
      case 'key':
      case 'invite':
        this.#keys.push(id);
        return { kind, files: 1 + random.below(4), bytes: random.spread(1_000, 3_000_000), days: this.#days(100) };
      case 'deny':
        return { kind, of, forMs: random.spread(2 * 60 * secondMs, dayMs) };
      case 'storeSigned':
        this.#files.push(id);
        return { kind, mode: this.#mode(), content: random.pick(this.#contents) };
      case 'revokeKey':
        return key === 0 ? { kind: 'list' } : { kind, of: key };
      case 'quota':
        return { kind, bytes: random.chance(0.4) ? null : random.spread(1_000, 4_000_000) };
      case 'migrate':
      case 'cancel': {
        const from = random.pick(this.#backends);
        const to = this.#backends.find((each) => each !== from);
        return to === undefined ? { kind: 'repair' } : { kind, from, to };
      }
      case 'list':
      case 'backup':
      case 'repair':
      case 'rotate':
      case 'close':
        return { kind };
      case 'read':
        return { kind, of, isByCid: this.#reading.chance(0.4) };
      case 'readSigned':
      case 'note':
      case 'delete':
      case 'receipt':
      case 'verify':
        break;
    }
    return { kind, of };
  }

  #store(id: number): Action {
    const random = this.#random;
    this.#files.push(id);
    return {
      kind: 'store',
      mode: this.#mode(),
      content: random.pick(this.#contents),
      isRepeatable: random.chance(0.6),
      ...(random.chance(0.7) && { days: this.#days(300) }),
      ...(random.chance(0.06) && { lie: random.pick(['cid', 'length']) }),
    };
  }

  #change(of: number): Action {
    const random = this.#random;
    const opens = 1 + random.below(5);
    if (random.chance(0.3)) return { kind: 'change', of, days: this.#days(25) };
    return { kind: 'change', of, opens, ...(random.chance(0.3) && { days: this.#days(25) }) };
  }

  #upload(id: number): Action {
    const random = this.#random;
    this.#files.push(id);
    return {
      kind: 'upload',
      mode: this.#mode(),
      content: random.chance(0.4) ? contents - 1 - random.below(2) : random.pick(this.#contents),
      pieces: 1 + random.below(4),
      days: this.#days(100),
      isAbandoned: random.chance(0.15),
      isConfused: random.chance(0.1),
      ...this.#pastTheWorker(),
    };
  }

  /** What an upload has besides where its bytes may go past the Worker. */
  #pastTheWorker(): Partial<Extract<Action, { kind: 'upload' }>> {
    const front = this.#front;
    if (front === undefined) return {};
    const meanwhile = front.pick(['breaks', 'sent twice', 'ended', undefined, undefined, undefined] as const);
    const isAligned = front.chance(0.7);
    return {
      isAligned,
      ...(meanwhile && { meanwhile }),
      ...(front.chance(0.3) && { content: ofThreeLeaves }),
    };
  }

  /** @param most days; some are seconds only */
  #days(most: number): number {
    return this.#random.chance(0.15) ? this.#random.spread(2, 60) / 86_400 : this.#random.spread(1, most * 10) / 10;
  }

  #mode(): Mode {
    return this.#random.chance(0.7) ? 'plain' : 'encrypted';
  }

  /** @param large how often it has more than one block */
  #content(large: number): number {
    return this.#random.chance(large) ? contents - 1 - this.#random.below(2) : this.#random.below(contents - 2);
  }

  #fault(spanMs: number): SimulatedFault {
    const random = this.#random;
    const backend = random.pick(this.#backends);
    const dice = random.next();
    const forMs = random.chance(0.15) ? random.spread(dayMs, 20 * dayMs) : random.spread(200, 2 * spanMs);
    const shortMs = Math.min(forMs, hourMs);
    // What arrives late meets what was sent after it.
    const trouble = random.chance(0.3) ? 'late' : random.pick(troubles);
    if (dice < 0.3) return { kind: 'trouble', backend, trouble, forMs };
    if (dice < 0.37) return { kind: random.pick(['lose', 'damage']), backend, nth: random.below(50) };
    if (dice < 0.4) return { kind: 'collect', backend };
    if (dice < 0.5) return { kind: 'calls fail', share: random.pick([0.05, 0.3, 0.8]), forMs: shortMs };
    if (dice < 0.55) return { kind: 'kv fails', forMs: shortMs };
    const afterTasks = random.below(60);
    if (dice < 0.65) return { kind: 'object crashes', nth: random.below(50), afterTasks };
    if (dice < 0.85) return { kind: 'crash at a commit', isKept: random.chance(0.5), afterCommits: random.below(12) };
    const kind = random.pick(['power cut', 'isolate ends', 'lines break'] as const);
    return { kind: this.#front?.chance(0.5) === true ? 'front ends' : kind, afterTasks };
  }
}
