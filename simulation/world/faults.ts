/** The faults of a plan, and when they end. */
import { newOwner, type Owner } from '../host/scheduler.ts';
import type { ActingWorld } from './actor.ts';
import type { SimulatedFault } from './plan.ts';

/** A fault that strikes after so many tasks or commits, once there is something to end. */
type Armed = { after: number; of: 'tasks' | 'commits'; name: string; strike: Strike };

/** @returns whether there was something to end */
type Strike = (owner: Owner) => boolean;

export class Faults {
  readonly #world: ActingWorld;
  readonly #armed: Armed[] = [];

  constructor(world: ActingWorld) {
    this.#world = world;
    world.service.scheduler.beforeTask = (owner, label) => {
      this.#count('tasks', owner);
      if (label === 'commits') this.#count('commits', owner);
    };
  }

  /** Begins a fault. @returns how long it lasts, in ms */
  begin(fault: SimulatedFault, name: string): number {
    const { service, tell } = this.#world;
    const { scheduler } = service;
    const { kind, ...about } = fault;
    tell(`${name}: ${kind} ${JSON.stringify(about)}`);
    const until = (ms: number, end: () => void): number => {
      scheduler.later(ms, 'a fault ends', end, newOwner('faults'));
      return ms;
    };
    switch (fault.kind) {
      case 'trouble': {
        const behaviour = service.backend(fault.backend)?.behaviour;
        behaviour?.begin(fault.trouble);
        return until(fault.forMs, () => behaviour?.end(fault.trouble));
      }
      case 'calls fail':
        service.failingCalls = fault.share;
        return until(fault.forMs, () => (service.failingCalls = 0));
      case 'kv fails':
        service.kv.isDown = true;
        return until(fault.forMs, () => (service.kv.isDown = false));
      case 'collect':
        service.kubos.get(fault.backend)?.collect();
        return 0;
      case 'lose':
      case 'damage':
        void this.#harm(fault, name);
        return 0;
      case 'power cut':
        return this.#arm(fault.afterTasks, name, () => service.cutPower());
      case 'isolate ends':
        return this.#arm(fault.afterTasks, name, () => service.edge.crash());
      case 'front ends':
        return this.#arm(fault.afterTasks, name, () => service.front?.end() ?? false);
      case 'lines break':
        return this.#arm(fault.afterTasks, name, () => service.edge.disconnect());
      case 'object crashes':
        return this.#arm(fault.afterTasks, name, () => {
          const busy = service.objects.filter(({ isBusy }) => isBusy);
          return busy[fault.nth % Math.max(1, busy.length)]?.crash() ?? false;
        });
      case 'crash at a commit':
        return this.#arm(
          fault.afterCommits,
          name,
          (owner) => this.#crashAtCommit(owner, fault.isKept, name),
          'commits',
        );
      default:
        return 0;
    }
  }

  #arm(after: number, name: string, strike: Strike, of: Armed['of'] = 'tasks'): number {
    this.#armed.push({ after, of, name, strike });
    return 0;
  }

  #count(of: Armed['of'], owner: Owner): void {
    for (const each of this.#armed) if (each.of === of) each.after -= 1;
    const at = this.#armed.findIndex((each) => each.of === of && each.after <= 0 && each.strike(owner));
    if (at === -1) return;
    const [struck] = this.#armed.splice(at, 1);
    this.#world.tell(`${struck?.name} strikes ${of === 'commits' ? owner.name.split(' ')[0] : ''}`.trim());
  }

  /** Ends an object just before a commit, or just after, with its answers under way. */
  #crashAtCommit(owner: Owner, isKept: boolean, name: string): boolean {
    const object = this.#world.service.objects.find((each) => each.name === owner.name);
    if (object === undefined || !isKept) return object?.crash() ?? false;
    this.#arm(1, name, () => object.crash());
    return true;
  }

  /**
   * Takes a file, or an object of it, from one of the backends that have it, or changes its bytes
   * there. Another one must have a copy whose removal is not under way: before a removal, the
   * service asks for the pin that stays, and it read the bytes before that.
   */
  async #harm(
    { kind, backend, nth }: Extract<SimulatedFault, { kind: 'lose' | 'damage' }>,
    name: string,
  ): Promise<void> {
    const { service, tell } = this.#world;
    const others = [...service.kubos.keys(), ...service.buckets.keys()].filter((id) => id !== backend);
    const kubo = service.kubos.get(backend);
    const bucket = service.buckets.get(backend);
    const keys = kubo === undefined ? [...(bucket?.objects.keys() ?? [])] : [...kubo.pins.keys()];
    const cids = keys.map((key) => key.split('cid/').at(-1) ?? '').filter((cid) => cid.startsWith('b'));
    const cid = cids[nth % Math.max(1, cids.length)];
    if (cid === undefined || kubo?.rootOf(cid) !== (kubo && cid)) return;
    const rows = await service.pinRows(cid);
    const isLeaving = (id: string): boolean =>
      rows.some(
        (row) => row['service'] === id && (kind === 'lose' ? row['state'] === 'unpinning' : row['wanted'] === 0),
      );
    const staying = others.filter((id) => !isLeaving(id));
    const copies = await Promise.all(staying.map(async (id) => await service.backend(id)?.holdsWell(cid)));
    if (!copies.includes(true)) return;
    // Of a bucket, the index half of the time, else an object that it names.
    const [index, ...data] = bucket?.keysOf(cid) ?? [];
    const key = nth % 2 === 0 ? index : data[nth % Math.max(1, data.length)];
    tell(`${name}: ${kind} ${key ?? cid} at ${backend}`);
    if (kind === 'lose') {
      kubo?.lose(cid);
      bucket?.remove(key ?? '');
    } else {
      kubo?.damage(cid);
      bucket?.damage(key ?? '');
    }
  }
}
