/** The verification of a CID that somebody waits for. */
import { isReadingAll, type PinRow, type PinRows } from './pin-rows.ts';
import type { PinWork } from './pin-work.ts';

/** Time limit of the response, in ms; the work goes on afterwards. */
const verifyMs = 10_000;

type VerificationOptions = {
  rows: PinRows;
  work: Pick<PinWork, 'readAll'>;
  /** Tells whether a service may be asked now. */
  mayAsk(service: string): boolean;
  /** Runs when all rows are due. */
  begun(): Promise<void>;
  /** Does what is due next for a row. */
  step(row: PinRow): Promise<void>;
  /** Waits for what is at work on the CID. @returns whether there was something */
  ended(): Promise<boolean>;
  now(): number;
};

/**
 * Asks each service that holds a CID, or has lost it, for the pin, and reads all bytes there. A
 * reading that has begun goes on, so that one who asks until it is done sees its end.
 * @returns whether that is done
 */
export async function verifyPins(cid: string, options: VerificationOptions): Promise<boolean> {
  const held = () => options.rows.ofCid(cid).filter(({ state }) => state === 'live' || state === 'lost');
  for (const row of held()) {
    if (row.state === 'lost' || !isReadingAll(row)) options.work.readAll(row);
    options.rows.change(row, { attempts: 0, due: options.now() });
  }
  await options.begun();
  const until = Date.now() + verifyMs;
  const isPending = ({ service, due, read_from: from }: PinRow): boolean =>
    from !== null && due !== null && due <= options.now() && options.mayAsk(service);
  while (Date.now() < until) {
    const row = held().find(isPending);
    if (row !== undefined) await options.step(row);
    // The alarm may be at work on another one.
    else if (!(await options.ended())) break;
  }
  // What is lost by now is not read on.
  return held().every(({ state, read_from: from }) => state === 'lost' || from === null);
}
