/** Permits of a semaphore and their order, and uploads beyond what one isolate serves. */
import { connect, type Socket } from 'node:net';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { carType } from '../../../shared/ipfs/index.ts';
import { startService } from '../../../testkit/service.ts';
import { Semaphore } from '../../upload/semaphore.ts';
import { sendParts, type PieceWriter, type SendOptions } from '../../upload/send-parts.ts';
import { client, problemOf } from '../../../testkit/api-client.ts';
import { itemOf } from '../../../testkit/present.ts';
import { lookMs, lostMs, permitHistory, share, steps } from './permit-history.ts';
import { long } from '../../../testkit/long-run.ts';

describe('permits', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('are handed out in the order in which they were asked for', async () => {
    const permits = new Semaphore(2);
    const held = [await permits.acquire(), await permits.acquire()];
    const order: string[] = [];
    const waiting = ['third', 'fourth'].map(async (name) => {
      const permit = await permits.acquire();
      order.push(name);
      return permit;
    });
    await vi.advanceTimersByTimeAsync(1000);
    expect(order).toEqual([]);
    itemOf(held, 0).release();
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual(['third']);
    (await itemOf(waiting, 0)).release();
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual(['third', 'fourth']);
    (await itemOf(waiting, 1)).release();
    itemOf(held, 1).release();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are free for who asks until all are taken', async () => {
    const permits = new Semaphore(2);
    const held = [await permits.acquire(), await permits.acquire()];
    expect(permits.isFree()).toBe(false);
    expect(permits.taken).toBe(2);
    const waiting = permits.acquire();
    itemOf(held, 0).release();
    const third = await waiting;
    expect(permits.isFree()).toBe(false);
    expect(permits.taken).toBe(2);
    third.release();
    expect(permits.isFree()).toBe(true);
    itemOf(held, 1).release();
    expect(permits.isFree()).toBe(true);
    expect(permits.taken).toBe(0);
  });

  it('of one holder are at most its share, and others pass it by', async () => {
    const permits = new Semaphore(4, 2);
    const mine = [await permits.acquire(1000, 'a'), await permits.acquire(1000, 'a')];
    const refused = expect(permits.acquire(1000, 'a')).rejects.toMatchObject({ code: 'overloaded' });
    const others = [await permits.acquire(1000, 'b'), await permits.acquire(1000, 'c')];
    const next = permits.acquire(9000, 'a');
    await vi.advanceTimersByTimeAsync(1000);
    await refused;
    itemOf(others, 0).release();
    const third = await permits.acquire(1000, 'd');
    third.release();
    itemOf(mine, 0).release();
    (await next).release();
    itemOf(mine, 1).release();
    itemOf(others, 1).release();
    expect(permits.taken).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('that are taken together count together, for their holder and for all', async () => {
    const permits = new Semaphore(8, 4);
    const mine = await permits.acquire(1000, 'a', 4);
    const refused = expect(permits.acquire(1000, 'a')).rejects.toMatchObject({ code: 'overloaded' });
    const others = [await permits.acquire(1000, 'b', 2), await permits.acquire(1000, 'c')];
    expect(permits.taken).toBe(7);
    await vi.advanceTimersByTimeAsync(1000);
    await refused;
    for (const held of [mine, ...others]) held.release();
    expect(permits.taken).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each([2, 8])('%i together come in their turn, however many wait for one', async (many) => {
    const permits = new Semaphore(8);
    const order: number[] = [];
    /** Holds permits for a second. */
    const use = async (count: number): Promise<void> => {
      const permit = await permits.acquire(60_000, undefined, count);
      order.push(count);
      setTimeout(() => permit.release(), 1000);
    };
    // They end at different times, as those of different clients do.
    const small: Promise<void>[] = [];
    for (let at = 0; at < 8; at += 1) {
      small.push(use(1));
      await vi.advanceTimersByTimeAsync(100);
    }
    const large = use(many);
    for (let at = 0; at < 40; at += 1) small.push(use(1));
    await vi.advanceTimersByTimeAsync(20_000);
    await Promise.all([large, ...small]);
    expect(order.indexOf(many)).toBe(8);
    expect(permits.taken).toBe(0);
  });

  it.each(['gave up', 'was killed'])('that somebody waited for who %s go to those behind', async (how) => {
    const permits = new Semaphore(8);
    const held = await permits.acquire();
    const refused = expect(permits.acquire(1000, 'a', 8)).rejects.toMatchObject({ code: 'overloaded' });
    // A request that is killed loses its timers, here all that are under way.
    if (how === 'was killed') vi.clearAllTimers();
    const behind = permits.acquire(60_000, 'b');
    await vi.advanceTimersByTimeAsync(5000);
    expect(permits.taken).toBe(2);
    for (const each of [held, await behind]) each.release();
    await refused;
    expect(vi.getTimerCount()).toBe(0);
  });

  it('of an upload whose client left while it waited go on to those behind', async () => {
    const permits = new Semaphore(1);
    const held = await permits.acquire();
    const client = new AbortController();
    const options = { permits, signal: client.signal, now: Date.now } as unknown as SendOptions;
    const writer = { abort: () => undefined, isDue: () => false } as unknown as PieceWriter<string>;
    const pieces = { next: async () => 'a piece', cancel: async () => undefined };
    const upload = sendParts(
      options,
      () => ({ pieces, writer }),
      async () => 'sent',
    );
    const left = expect(upload).rejects.toThrow('it left');
    const behind = permits.acquire();
    client.abort(new Error('it left'));
    held.release();
    await left;
    (await behind).release();
    expect(permits.taken).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('that end twice count once', async () => {
    const permits = new Semaphore(1);
    const first = await permits.acquire();
    first.release();
    const second = await permits.acquire();
    first.release();
    const refused = expect(permits.acquire(10)).rejects.toMatchObject({ code: 'overloaded' });
    await vi.advanceTimersByTimeAsync(10);
    await refused;
    second.release();
  });

  it('are waited for no longer than asked, and who gave up gets none', async () => {
    const permits = new Semaphore(1);
    const held = await permits.acquire();
    const refused = expect(permits.acquire(10_000)).rejects.toMatchObject({
      code: 'overloaded',
      retryAfterSeconds: 10,
    });
    await vi.advanceTimersByTimeAsync(9000);
    const patient = permits.acquire();
    await vi.advanceTimersByTimeAsync(1000);
    await refused;
    held.release();
    (await patient).release();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are kept for as long as their holder lives, and free again when it was killed', async () => {
    const permits = new Semaphore(1);
    const holder = await permits.acquire();
    const waiting = permits.acquire();
    let taken = false;
    void waiting.then(() => (taken = true));
    await vi.advanceTimersByTimeAsync(600_000);
    expect(taken).toBe(false);
    // A request that is killed loses its timers, here all that are under way.
    const now = Date.now();
    vi.clearAllTimers();
    vi.setSystemTime(now);
    const next = permits.acquire();
    await vi.advanceTimersByTimeAsync(65_000);
    expect(taken).toBe(true);
    holder.release();
    (await waiting).release();
    (await next).release();
  });
});

describe('permits, in any order of arrivals, ends, kills and times,', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  it('are refused to nobody who fits, and nobody passes by but a key whose share is full', async () => {
    const property = fc.asyncProperty(steps, async (events) => {
      const { permits, requests, ask, end, kill, pass } = permitHistory();
      const alive = () => requests.filter(({ state, isKilled }) => state !== 'over' && !isKilled);
      const holders = () => alive().filter(({ state }) => state === 'holds');
      for (const { kind, number, ms, ...asked } of events) {
        const among = kind === 'end' ? holders() : alive();
        if (kind === 'ask') await ask(asked);
        else if (kind === 'pass') await pass(ms);
        else if (among.length > 0) await (kind === 'end' ? end : kill)(itemOf(among, number % among.length));
      }
      while (alive().length > 0) {
        for (const each of holders()) await end(each);
        await pass(lookMs);
      }
      await pass(lostMs);
      const last = await ask({ by: 'a', permits: share, waitMs: 0 });
      expect(last.state).toBe('holds');
      expect(permits.taken).toBe(share);
      await end(last);
      expect(vi.getTimerCount()).toBe(0);
    });
    await fc.assert(property, { numRuns: long ? 3000 : 100 });
  });
});

it.runIf(long)(
  'an upload beyond 64 at once, or 32 or 4 by CAR of a key, waits for a permit, and is refused after 10 s',
  async () => {
    const service = await startService();
    const sockets: Socket[] = [];
    try {
      const [apiKey, otherKey] = [(await service.account()).apiKey, (await service.account()).apiKey];
      const { host, hostname, port } = new URL(service.url);
      // The guard of `sealpin start` refuses any other host.
      const headOf = (key: string, type: string) =>
        `POST /v1/storage/plain HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n` +
        `Content-Type: ${type}\r\nContent-Length: 2\r\n\r\n`;
      const begin = async (key: string, type = 'application/octet-stream'): Promise<Socket> => {
        const socket = connect(Number(port), hostname);
        await new Promise((resolve) => socket.once('connect', resolve));
        socket.write(`${headOf(key, type)}a`);
        sockets.push(socket);
        return socket;
      };
      const answerOf = (socket: Socket): Promise<string> =>
        new Promise((resolve) => socket.once('data', (data) => resolve(data.toString())));
      const owner = client(service.url, apiKey);
      const refused = async (): Promise<void> => {
        let response: Response;
        // Those before may still be on their way.
        do response = await owner.ask('storePlain', {}, { body: 'ab' });
        while (response.status === 201);
        expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
        expect(await problemOf(response)).toBe('503 overloaded');
      };
      for (let count = 0; count < 4; count += 1) await begin(apiKey, carType);
      await refused();
      for (const socket of sockets.splice(0)) socket.destroy();
      await owner.storePlain({}, { body: 'ab' });
      for (let count = 0; count < 32; count += 1) await begin(apiKey);
      await refused();
      await client(service.url, otherKey).storePlain({}, { body: 'ab' });
      for (let count = 0; count < 32; count += 1) await begin(otherKey);
      await refused();
      expect((await owner.ask('listFiles')).status).toBe(200);

      const waiting = owner.storePlain({}, { body: 'cd' });
      const done = answerOf(itemOf(sockets, 0));
      itemOf(sockets, 0).write('b');
      expect(await done).toMatch(/^HTTP\/1.1 201 /);
      await waiting;
    } finally {
      for (const socket of sockets) socket.destroy();
      await service.close();
    }
  },
);
