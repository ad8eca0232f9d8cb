/** The quotas of accounts, as the operator sets them: one part of the model. */

/** A quota that may hold. `done`: its setter was told so; `until`: another one holds by then. */
type Quota = { from: number; done: number; until: number; value: number };

/** The quotas of accounts. */
export class Quotas {
  readonly #all = new Map<number, Quota[]>();
  readonly #openedAt = new Map<number, number>();

  /** An account is made; one of the same number is closed by then. */
  opened(account: number, quota: number | null, now: number): void {
    for (const each of this.#all.get(account) ?? []) each.until = Math.min(each.until, now);
    this.#openedAt.set(account, now);
    this.set(account, quota, now)(now);
  }

  /**
   * The operator sets a quota. Of two changes at once either may come last.
   * @returns is called when the operator is told that it holds
   */
  set(account: number, bytes: number | null, now: number): (done: number) => void {
    const quota: Quota = { from: now, done: Infinity, until: Infinity, value: bytes ?? Infinity };
    const all = this.#all.get(account) ?? [];
    this.#all.set(account, [...all, quota]);
    return (done) => {
      quota.done = done;
      for (const each of all) if (each.done <= now) each.until = Math.min(each.until, done);
    };
  }

  /** The quotas of an account that may have held since a time. */
  possible(account: number, since: number): number[] {
    return (this.#all.get(account) ?? []).filter(({ until }) => until > since).map(({ value }) => value);
  }

  /** Tells whether an account has the quota that it was made with. */
  isSame(account: number): boolean {
    return this.possible(account, this.#openedAt.get(account) ?? 0).length === 1;
  }

  /** Takes the quota that an account tells when everything rests. @returns whether it may be so */
  rests(account: number, quota: number, now: number): boolean {
    const all = this.#all.get(account) ?? [];
    const last = all.findLast(({ value, until }) => value === quota && until > now);
    if (last === undefined) return false;
    for (const each of all) if (each !== last) each.until = Math.min(each.until, now);
    last.done = Math.min(last.done, now);
    return true;
  }
}
