import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { arrivals } from '../../local/node/arrivals.ts';

const KiB = 1024;

test('small pieces are joined, and larger ones cut, to 256 KiB; their memory is released', async () => {
  const pieces = [...Array(50)].map((_, index) => Buffer.alloc(8 * KiB, index)).concat(Buffer.alloc(600 * KiB, 99));
  const whole = Buffer.concat(pieces);
  const joined: Buffer[] = [];
  for await (const piece of arrivals(Readable.from(pieces, { objectMode: false }))) joined.push(Buffer.from(piece));
  expect(joined.slice(0, 3).map(({ length }) => length)).toEqual([256 * KiB, 256 * KiB, 256 * KiB]);
  expect(Buffer.concat(joined).equals(whole)).toBe(true);
  expect(pieces.slice(0, 50).map(({ length }) => length)).toEqual(Array(50).fill(0));
});

test('what a client sends before it pauses comes without the rest', async () => {
  const stream = new PassThrough();
  const reading = arrivals(stream);
  stream.write('begun');
  expect(String((await reading.next()).value)).toBe('begun');
  stream.end(' and ended');
  expect(String((await reading.next()).value)).toBe(' and ended');
  expect(await reading.next()).toEqual({ done: true, value: undefined });
});

test('a failure comes after the bytes before it, and a closed stream has not ended', async () => {
  const stream = new PassThrough();
  const reading = arrivals(stream);
  const first = reading.next();
  stream.write('begun');
  expect(String((await first).value)).toBe('begun');
  stream.destroy(new Error('broken'));
  await expect(reading.next()).rejects.toThrow('broken');

  const closed = new PassThrough();
  const waiting = arrivals(closed).next();
  closed.destroy();
  await expect(waiting).rejects.toThrow('before the end of the body');
  await expect(arrivals(closed).next()).rejects.toThrow('before the body was read');
});

test('a reader that stops leaves the rest to others', async () => {
  const stream = new PassThrough();
  const reading = arrivals(stream);
  stream.write('first');
  await reading.next();
  await reading.return(undefined);
  expect(stream.destroyed).toBe(false);
  expect(stream.listenerCount('data')).toBe(0);
  expect(stream.listenerCount('error')).toBe(0);
  stream.end('rest');
  stream.resume();
  await once(stream, 'end');
});
