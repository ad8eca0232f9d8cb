/** Denials of the operator: one part of the model. */

/** The bytes that are denied, by CID. */
export class Denials {
  readonly #all: { cid: string; isDenied: boolean; from: number; done: number }[] = [];

  /** The operator denies bytes, or allows them. @returns is called when the operator is told so */
  set(cid: string, isDenied: boolean, now: number): (done: number) => void {
    const change = { cid, isDenied, from: now, done: Infinity };
    this.#all.push(change);
    return (done) => void (change.done = done);
  }

  /** Tells whether bytes are denied for the whole of a time. */
  isDenied(cid: string, from: number, to: number): boolean {
    const all = this.#all.filter((each) => each.cid === cid);
    return all.some(
      (deny) =>
        deny.isDenied &&
        deny.done <= from &&
        !all.some((allow) => !allow.isDenied && allow.done > deny.from && allow.from <= to),
    );
  }

  /** Tells whether bytes may be denied at some moment of a time. */
  mayBeDenied(cid: string | undefined, from: number, to: number): boolean {
    const all = this.#all.filter((each) => each.cid === cid);
    return all.some(
      (deny) =>
        deny.isDenied &&
        deny.from <= to &&
        !all.some((allow) => !allow.isDenied && allow.from >= deny.from && allow.done <= from),
    );
  }
}
