/** Histories of requests for permits, each event of which is looked at by itself. */
import { AsyncLocalStorage } from 'node:async_hooks';
import * as fc from 'fast-check';
import { expect, vi } from 'vitest';
import { itemOf } from '../../../testkit/present.ts';
import { Semaphore } from '../../upload/semaphore.ts';

const count = 8;
export const share = 4;
/** The intervals of the semaphore. */
export const lookMs = 5000;
export const lostMs = 60_000;

type Asked = { by: string; permits: number; waitMs: number };
type Request = Omit<Asked, 'waitMs'> & {
  readonly until: number;
  state: 'waits' | 'holds' | 'over';
  isKilled: boolean;
  /** Last sign of life of who holds permits. */
  aliveAt: number;
  release(): void;
  readonly timers: NodeJS.Timeout[];
};

/** Events of a history. */
export const steps = fc.array(
  fc.record({
    kind: fc.constantFrom('ask', 'ask', 'ask', 'ask', 'end', 'end', 'pass', 'pass', 'pass', 'kill'),
    by: fc.constantFrom('a', 'a', 'a', 'b', 'c', 'd', 'e'),
    permits: fc.constantFrom(1, 1, 3),
    waitMs: fc.constantFrom(3000, 7000, 10_000),
    /** Which of the requests ends or is killed. */
    number: fc.nat(99),
    ms: fc.constantFrom(1, 500, 2500, 5000, 10_000, 30_000),
  }),
  { minLength: 40, maxLength: 60 },
);

/** The request that runs: a runtime that kills it ends its timers. */
const running = new AsyncLocalStorage<Request>();

/** Begins a history, with timers that the caller mocks. */
export function permitHistory() {
  vi.clearAllTimers();
  vi.unstubAllGlobals();
  const begin = globalThis.setInterval;
  vi.stubGlobal('setInterval', (...of: Parameters<typeof begin>) => {
    const [timer, request] = [begin(...of), running.getStore()];
    if (request?.isKilled === true) clearInterval(timer);
    request?.timers.push(timer);
    return timer;
  });
  const permits = new Semaphore(count, share);
  const requests: Request[] = [];
  let before = new Map<Request, Request['state']>();

  /** Checks what the last event did. @param hasLooked whether it let the semaphore look */
  async function check(hasLooked: boolean): Promise<void> {
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
    const held = heldIn(requests);
    const changed = (each: Request): boolean => before.get(each) !== each.state;
    for (const each of requests) {
      const fits = fitsAmong(requests, each, changed);
      const now = Date.now();
      if (each.state === 'waits' && hasLooked) expect(fits).toBe(false);
      if (each.state === 'holds' && changed(each)) expect(fits && now < each.until + lookMs).toBe(true);
      if (each.state === 'over' && before.get(each) === 'waits' && !each.isKilled)
        expect(fits || now < each.until).toBe(false);
    }
    if (hasLooked) expect(permits.taken).toBe(sum(held));
    before = new Map(requests.map((each) => [each, each.state]));
  }

  return {
    permits,
    requests,
    async ask({ by, permits: wanted, waitMs }: Asked): Promise<Request> {
      const until = Date.now() + waitMs;
      const life = { state: 'waits' as const, isKilled: false, aliveAt: 0, release: () => undefined, timers: [] };
      const request: Request = { by, permits: wanted, until, ...life };
      requests.push(request);
      before.set(request, 'waits');
      void running
        .run(request, () => permits.acquire(waitMs, by, wanted))
        .then(
          ({ release }) => Object.assign(request, { state: 'holds', aliveAt: Date.now(), release }),
          () => (request.state = 'over'),
        );
      await check(true);
      return request;
    },
    async end(request: Request): Promise<void> {
      Object.assign(request, { state: 'over' });
      request.release();
      await check(true);
    },
    async kill(request: Request): Promise<void> {
      request.isKilled = true;
      for (const timer of request.timers) clearInterval(timer);
      // Who holds permits gives a sign of life at each interval.
      if (request.state === 'holds') request.aliveAt += Math.floor((Date.now() - request.aliveAt) / lookMs) * lookMs;
    },
    async pass(ms: number): Promise<void> {
      const end = Date.now() + ms;
      setTimeout(() => undefined, ms);
      while (Date.now() < end) {
        await vi.advanceTimersToNextTimerAsync();
        await check(false);
      }
    },
  };
}

function sum(of: readonly Request[]): number {
  return of.reduce((all, { permits }) => all + permits, 0);
}

/** Those that hold permits which are not lost. */
function heldIn(requests: readonly Request[]): Request[] {
  const isLost = ({ isKilled, aliveAt }: Request): boolean => isKilled && Date.now() - aliveAt >= lostMs;
  return requests.filter((each) => each.state === 'holds' && !isLost(each));
}

/** Tells whether there was room for a request when its turn came, and nobody before it. */
function fitsAmong(requests: readonly Request[], of: Request, changed: (each: Request) => boolean): boolean {
  const at = (each: Request): number => requests.indexOf(each);
  const heldBefore = (each: Request): Request[] =>
    heldIn(requests).filter((other) => at(other) < at(each) || (other !== each && !changed(other)));
  const hasShare = (each: Request): boolean =>
    sum(heldBefore(each).filter(({ by }) => by === each.by)) + each.permits <= share;
  const ahead = requests.slice(0, at(of)).filter(({ state }) => state === 'waits');
  // Who waits behind a request of the same key passes nobody by, and holds nobody up.
  const first = (key: string): Request =>
    itemOf(
      ahead.filter(({ by }) => by === key),
      0,
    );
  const isNext = ahead.every(({ by }) => by !== of.by && !hasShare(first(by)));
  return isNext && hasShare(of) && sum(heldBefore(of)) + of.permits <= count;
}
