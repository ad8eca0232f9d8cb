/** Coverage of histories: actions that ran at the same time, and moves of rows between states. */
import type { SimulatedObject } from '../platform/simulated-object.ts';
import type { Action } from './plan.ts';
import { kinds } from './planning.ts';

/** Names of what was reached, and how often. */
export type Reached = Map<string, number>;

/** Tables with states, by the class of their objects, with what tells their rows apart. */
const stated = [
  { class: 'ACCOUNT', table: 'file', row: 'file_id' },
  { class: 'ACCOUNT', table: 'upload', row: 'id' },
  { class: 'PIN', table: 'pin', row: `cid || ' ' || service` },
  { class: 'PIN', table: 'object', row: 'id' },
  { class: 'SHARE', table: 'share', row: 'id' },
] as const;

/** The coverage of one history. */
export class Coverage {
  readonly reached: Reached = new Map();
  readonly #running = new Map<Action['kind'], number>();
  readonly #states = new Map<string, Map<string, string>>();
  readonly #changes = new Map<string, number>();

  /**
   * Takes note of an action, and of the others that run at the same time.
   * @returns is called at its end
   */
  begun(kind: Action['kind']): () => void {
    for (const [other, count] of this.#running) if (count > 0) this.#add(`pair ${pairOf(kind, other)}`);
    this.#running.set(kind, (this.#running.get(kind) ?? 0) + 1);
    return () => this.#running.set(kind, (this.#running.get(kind) ?? 1) - 1);
  }

  /** Takes note of the states that an object has committed. */
  committed({ name, storage }: SimulatedObject): void {
    const { changes } = storage;
    if (this.#changes.get(name) === changes) return;
    this.#changes.set(name, changes);
    for (const { class: of, table, row } of stated) {
      if (!name.startsWith(`${of} `)) continue;
      const key = `${name} ${table}`;
      const rows = storage.rows(table, { columns: `${row} AS row, state` });
      const before = this.#states.get(key) ?? new Map<string, string>();
      const now = new Map(rows.map((each) => [String(each['row']), String(each['state'])]));
      for (const id of new Set([...before.keys(), ...now.keys()])) {
        const [from, to] = [before.get(id) ?? 'none', now.get(id) ?? 'none'];
        if (from !== to) this.#add(`move ${table}: ${from} → ${to}`);
      }
      this.#states.set(key, now);
    }
  }

  #add(name: string): void {
    this.reached.set(name, (this.reached.get(name) ?? 0) + 1);
  }
}

/** Sums up what histories have reached, for a reader: few lines. */
export function summary(reached: Reached): string[] {
  const pairs = kinds.flatMap((one, i) => kinds.slice(i).map((other) => pairOf(one, other)));
  const missing = pairs.filter((pair) => !reached.has(`pair ${pair}`));
  const moves = [...reached].filter(([name]) => name.startsWith('move '));
  const named = moves.map(([name, count]) => `  ${name.slice(5)} (${count})`).toSorted();
  const shown = missing.slice(0, 20).join(', ') + (missing.length > 20 ? ' …' : '');
  return [
    `${pairs.length - missing.length} of ${pairs.length} pairs of actions ran at the same time` +
      (missing.length > 0 ? `; not: ${shown}` : ''),
    `${moves.length} moves of rows:`,
    ...named,
  ];
}

function pairOf(one: string, other: string): string {
  return [one, other].toSorted().join(' + ');
}
