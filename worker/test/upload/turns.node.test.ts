/** Turns in an isolate and their order, and uploads beyond what one isolate serves. */
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startService } from '../../../testkit/service.ts';
import { Turns } from '../../upload/turns.ts';
import { client, problemOf } from '../client.ts';

const long = process.env['SEALPIN_LONG'] === '1';

describe('turns', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('are handed out in the order in which they were asked for', async () => {
    const turns = new Turns(2);
    const held = [await turns.take(), await turns.take()];
    const order: string[] = [];
    const waiting = ['third', 'fourth'].map(async (name) => {
      const turn = await turns.take();
      order.push(name);
      return turn;
    });
    await vi.advanceTimersByTimeAsync(1000);
    expect(order).toEqual([]);
    held[0]!.end();
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual(['third']);
    (await waiting[0]!).end();
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual(['third', 'fourth']);
    (await waiting[1]!).end();
    held[1]!.end();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are free for who asks until all are taken', async () => {
    const turns = new Turns(2);
    const held = [await turns.take(), await turns.take()];
    expect([turns.isFree(), turns.taken]).toEqual([false, 2]);
    const waiting = turns.take();
    held[0]!.end();
    const third = await waiting;
    expect([turns.isFree(), turns.taken]).toEqual([false, 2]);
    third.end();
    expect(turns.isFree()).toBe(true);
    held[1]!.end();
    expect([turns.isFree(), turns.taken]).toEqual([true, 0]);
  });

  it('of one holder are at most its share, and others pass it by', async () => {
    const turns = new Turns(4, 2);
    const mine = [await turns.take(1000, 'a'), await turns.take(1000, 'a')];
    const refused = expect(turns.take(1000, 'a')).rejects.toMatchObject({ code: 'overloaded' });
    const others = [await turns.take(1000, 'b'), await turns.take(1000, 'c')];
    const next = turns.take(9000, 'a');
    await vi.advanceTimersByTimeAsync(1000);
    await refused;
    others[0]!.end();
    const third = await turns.take(1000, 'd');
    third.end();
    mine[0]!.end();
    (await next).end();
    mine[1]!.end();
    others[1]!.end();
    expect([turns.taken, vi.getTimerCount()]).toEqual([0, 0]);
  });

  it('that end twice count once', async () => {
    const turns = new Turns(1);
    const first = await turns.take();
    first.end();
    const second = await turns.take();
    first.end();
    const refused = expect(turns.take(10)).rejects.toMatchObject({ code: 'overloaded' });
    await vi.advanceTimersByTimeAsync(10);
    await refused;
    second.end();
  });

  it('are waited for no longer than asked, and who gave up gets none', async () => {
    const turns = new Turns(1);
    const held = await turns.take();
    const refused = expect(turns.take(10_000)).rejects.toMatchObject({ code: 'overloaded', retryAfterSeconds: 10 });
    await vi.advanceTimersByTimeAsync(9000);
    const patient = turns.take();
    await vi.advanceTimersByTimeAsync(1000);
    await refused;
    held.end();
    (await patient).end();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are kept for as long as their holder lives, and free again when it was killed', async () => {
    const turns = new Turns(1);
    const holder = await turns.take();
    const waiting = turns.take();
    let taken = false;
    void waiting.then(() => (taken = true));
    await vi.advanceTimersByTimeAsync(600_000);
    expect(taken).toBe(false);
    // A request that is killed loses its timers, here all that are under way.
    const now = Date.now();
    vi.clearAllTimers();
    vi.setSystemTime(now);
    const next = turns.take();
    await vi.advanceTimersByTimeAsync(65_000);
    expect(taken).toBe(true);
    holder.end();
    (await waiting).end();
    (await next).end();
  });
});

it.runIf(long)(
  'an upload beyond 64 at once, or 32 of a key, waits for a place, and is refused after 10 s',
  async () => {
    const service = await startService();
    const sockets: Socket[] = [];
    try {
      const [apiKey, otherKey] = [(await service.account()).apiKey, (await service.account()).apiKey];
      const { host, hostname, port } = new URL(service.url);
      // The guard of `sealpin start` refuses any other host.
      const headOf = (key: string) =>
        `POST /v1/storage/plain HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\nContent-Length: 2\r\n\r\n`;
      const begin = async (key: string): Promise<Socket> => {
        const socket = connect(Number(port), hostname);
        await new Promise((resolve) => socket.once('connect', resolve));
        socket.write(`${headOf(key)}a`);
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
        expect(await problemOf(response)).toEqual([503, 'overloaded']);
      };
      for (let count = 0; count < 32; count += 1) await begin(apiKey);
      await refused();
      await client(service.url, otherKey).storePlain({}, { body: 'ab' });
      for (let count = 0; count < 32; count += 1) await begin(otherKey);
      await refused();
      expect((await owner.ask('listFiles')).status).toBe(200);

      const waiting = owner.storePlain({}, { body: 'cd' });
      const done = answerOf(sockets[0]!);
      sockets[0]!.write('b');
      expect(await done).toMatch(/^HTTP\/1.1 201 /);
      await waiting;
    } finally {
      for (const socket of sockets) socket.destroy();
      await service.close();
    }
  },
);
