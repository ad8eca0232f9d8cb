/**
 * Lets a pattern stand for a text in `toMatchObject` and `toEqual`. Without this it matches
 * anything in the first, since it has no members.
 */
import { expect } from 'vitest';

expect.addEqualityTesters([
  (found, expected) =>
    expected instanceof RegExp
      ? (typeof found === 'string' && found.search(expected) >= 0) ||
        (found instanceof RegExp && String(found) === String(expected))
      : undefined,
]);
