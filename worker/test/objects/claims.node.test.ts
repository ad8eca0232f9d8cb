/** Times at which a request whose Idempotency-Key another one holds may ask again. */
import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import { Claims } from '../../objects/account/uploads/claims.ts';
import { createTables } from '../../objects/account/tables.ts';
import { storageOf } from '../sqlite-storage.ts';

it('is told soon at first, then ever later, and never after the claim has run out', () => {
  const sql = storageOf(new DatabaseSync(':memory:'));
  createTables(sql);
  let now = 1_700_000_000_000;
  const claims = new Claims(sql, { isReady: () => false, now: () => now });
  const claim = { apiKey: 'key', route: 'route', name: 'name', fingerprint: 'a.b' };
  const guess = (): number | undefined => {
    const taken = claims.take(claim, crypto.randomUUID());
    return taken.ok ? undefined : taken.retryAfterSeconds;
  };
  expect(guess()).toBeUndefined();
  const waits: number[] = [];
  for (let wait = guess(); wait !== undefined; wait = guess()) {
    waits.push(wait);
    now += wait * 1000;
  }
  // Of a request that died the claim is free after a minute, within the attempts of a client that
  // obeys.
  expect(waits).toEqual([2, 2, 4, 8, 16, 28]);
  now += 1000;
  expect(guess()).toBe(2);
});
