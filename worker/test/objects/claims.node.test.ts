/** Claims of an Idempotency-Key: when another request may ask again, and late renewals. */
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { claimLeaseMs, Claims } from '../../objects/account/uploads/claims.ts';
import { createTables } from '../../objects/account/tables.ts';
import { storageOf } from '../sqlite-storage.ts';

it('is told soon at first, then ever later, and never after the claim has run out', () => {
  const sql = storageOf(new DatabaseSync(':memory:'));
  createTables(sql);
  let now = 1_700_000_000_000;
  const claims = new Claims(sql, { isReady: () => false, now: () => now, leaseMs: () => claimLeaseMs });
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

describe('a renewal', () => {
  const claim = { apiKey: 'key', route: 'route', name: 'name', fingerprint: 'a.b' };
  const rowsAfter = (act: (claims: Claims) => void, passMs = 1000): unknown[] => {
    const sql = storageOf(new DatabaseSync(':memory:'));
    createTables(sql);
    let now = 0;
    const claims = new Claims(sql, { isReady: () => true, now: () => now, leaseMs: () => claimLeaseMs });
    claims.take(claim, 'first');
    act(claims);
    now += passMs;
    claims.renew(claim, 'first');
    return sql.exec('SELECT file_id, expires_at FROM idempotency').toArray();
  };

  it('lengthens the claim of an upload that runs', () => {
    expect(rowsAfter(() => undefined)).toEqual([{ file_id: 'first', expires_at: 61_000 }]);
  });

  it('that comes after the upload was stored leaves its claim for a day', () => {
    const kept = rowsAfter((claims) => claims.keep(claim, 'first'));
    expect(kept).toEqual([{ file_id: 'first', expires_at: 86_400_000 }]);
  });

  it('that comes after the claim was given up claims nothing', () => {
    expect(rowsAfter((claims) => claims.drop('first'))).toEqual([]);
  });

  it('fails, and changes nothing, where another request has the claim', () => {
    const other = rowsAfter((claims) => {
      claims.drop('first');
      claims.take(claim, 'second');
      expect(claims.renew(claim, 'first')).toMatchObject({ code: 'idempotency_running' });
    });
    expect(other).toEqual([{ file_id: 'second', expires_at: 60_000 }]);
  });
});
