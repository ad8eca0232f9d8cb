/** Faults of the product that a simulation must find: changes of its source, as it is bundled. */
import type { Replacement } from '../host/isolate.ts';

/** A fault. `seed`: the first one of two years that finds it, and `found`: in these words. */
export type PlantedFault = Replacement & { name: string; seed: string; found: RegExp };

export const plantedFaults: readonly PlantedFault[] = [
  {
    name: 'an opening of a share is not counted',
    file: 'worker/objects/share/share.ts',
    from: 'this.#rewrite({ state, opened: row.opened + 1, record',
    to: 'this.#rewrite({ state, opened: row.opened, record',
    seed: '7',
    found: /says twice|left/,
  },
  {
    name: 'the bytes of a file go with another file that has them',
    file: 'worker/objects/pin/pin.ts',
    from: 'const isLast = !this.#rows.isReferenced(cid);',
    to: 'const isLast = true;',
    seed: '4',
    found: /is stored|pinned nowhere/,
  },
  {
    name: 'an alarm is not moved to an earlier time',
    file: 'worker/objects/alarm.ts',
    from: 'if (set !== null && set <= dueMs) return;',
    to: 'if (set !== null) return;',
    seed: '1',
    found: /the account counts/,
  },
  {
    name: 'a pending upload has no end',
    file: 'worker/objects/account/calls/pending-calls.ts',
    from: 'files.add(file, key.id, createdAt, createdAt + pendingMs);',
    to: 'files.add(file, key.id, createdAt, null);',
    seed: '6',
    found: /row of file/,
  },
];
