/** Room that API keys have, and that invitations are promised: one part of the model. */

/** A key that was asked for. Times in ms; `madeBy`: its maker was told so by then. */
export type KeyTerms = {
  readonly account: number;
  readonly isInvitation: boolean;
  readonly files: number;
  readonly bytes: number;
  readonly askedAt: number;
  madeBy: number;
  /** From then on it may have ended; and it certainly has. */
  endsFrom: number;
  endsBy: number;
};

/** Tells whether a key certainly lasted from one time to another; or may have been there. */
export function lasts({ askedAt, madeBy, endsFrom, endsBy }: KeyTerms, isCertain: boolean, from: number, to: number) {
  return isCertain ? madeBy <= from && endsFrom > to : askedAt <= to && endsBy > from;
}
