/** Limits that a key may give to one that it creates. */
import { expect, it } from 'vitest';
import { exceedsLimits } from '../../objects/account/keys/key-limits.ts';

it('a key has each limit of the one that made it, or less', () => {
  const issuer = { files: 2, fileBytes: 500 };
  expect(exceedsLimits(issuer, { files: 2, fileBytes: 500 })).toBeUndefined();
  expect(exceedsLimits(issuer, { files: 1, bytes: 9, fileBytes: 499 })).toBeUndefined();
  expect(exceedsLimits({ bytes: 9 }, { bytes: 9 })).toBeUndefined();
  expect(exceedsLimits(undefined, { files: 2 })).toBeUndefined();
  for (const issued of [
    { files: 3, fileBytes: 500 },
    { files: 2, fileBytes: 501 },
    { files: 2 },
    { fileBytes: 1 },
    undefined,
  ])
    expect(exceedsLimits(issuer, issued)?.code, JSON.stringify(issued)).toBe('forbidden');
});
