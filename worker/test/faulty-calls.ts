/** Calls of the Worker on an account's object that a test lets fail. */
import type { AccountContext } from '../objects/account/account-context.ts';
import { FileCalls } from '../objects/account/calls/file-calls.ts';
import { KeyCalls } from '../objects/account/calls/key-calls.ts';
import { PendingCalls } from '../objects/account/calls/pending-calls.ts';
import { RotationCalls } from '../objects/account/calls/rotation-calls.ts';
import type { Result } from '../objects/result.ts';

/**
 * A call that fails once, or hangs, before it does anything or after it has done everything; one
 * that is `late`, by a second, or `held` until the test lets it go; or one whose object is too
 * busy.
 */
export type Fault = 'before' | 'after' | 'hangs before' | 'hangs after' | 'late' | 'held' | 'let go' | 'refused';

/** Those that are still to come, by the name of the call. */
type Faults = Map<string, Fault>;

export class FaultyPending extends PendingCalls {
  readonly #faults: Faults;

  constructor(context: AccountContext, faults: Faults) {
    super(context);
    this.#faults = faults;
  }

  override commit(...args: Parameters<PendingCalls['commit']>): Promise<Result> {
    return faulty(this.#faults, 'commit', () => super.commit(...args));
  }

  override commitPart(...args: Parameters<PendingCalls['commitPart']>): Promise<Result> {
    return faulty(this.#faults, 'commitPart', () => super.commitPart(...args));
  }
}

export class FaultyRotation extends RotationCalls {
  readonly #faults: Faults;

  constructor(context: AccountContext, faults: Faults) {
    super(context);
    this.#faults = faults;
  }

  override begin(...args: Parameters<RotationCalls['begin']>): ReturnType<RotationCalls['begin']> {
    return faulty(this.#faults, 'begin', () => super.begin(...args));
  }

  override rewrap(...args: Parameters<RotationCalls['rewrap']>): ReturnType<RotationCalls['rewrap']> {
    return faulty(this.#faults, 'rewrap', () => super.rewrap(...args));
  }
}

export class FaultyKeys extends KeyCalls {
  readonly #faults: Faults;

  constructor(context: AccountContext, faults: Faults) {
    super(context);
    this.#faults = faults;
  }

  override add(...args: Parameters<KeyCalls['add']>): Promise<Result> {
    return faulty(this.#faults, 'add', () => super.add(...args));
  }
}

export class FaultyFiles extends FileCalls {
  readonly #faults: Faults;

  constructor(context: AccountContext, faults: Faults) {
    super(context);
    this.#faults = faults;
  }

  override change(...args: Parameters<FileCalls['change']>): ReturnType<FileCalls['change']> {
    return faulty(this.#faults, 'change', () => super.change(...args));
  }

  override list(...args: Parameters<FileCalls['list']>): ReturnType<FileCalls['list']> {
    return faulty(this.#faults, 'list', () => super.list(...args));
  }
}

/** Makes a call that may be about to fail. */
export async function faulty<T>(faults: Faults, call: string, work: () => Promise<T>): Promise<T> {
  const fault = faults.get(call);
  faults.delete(call);
  if (fault === 'hangs before') await hang();
  if (fault === 'late') await scheduler.wait(1000);
  if (fault === 'held') {
    while (faults.get(call) !== 'let go') await scheduler.wait(5);
    faults.delete(call);
  }
  if (fault === 'before') throw new Error(`${call} fails before`);
  const answer = await work();
  if (fault === 'hangs after') await hang();
  if (fault === 'after') throw new Error(`${call} fails after`);
  return answer;
}

/** Waits until the process is killed; a promise that nothing can settle would end the request. */
async function hang(): Promise<void> {
  for (;;) await scheduler.wait(1000);
}
