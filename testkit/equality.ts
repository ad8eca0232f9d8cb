/** How `toEqual` and `toMatchObject` compare, in every test. */
import { expect } from 'vitest';
import { equalBytes } from '../shared/streams/equal-bytes.ts';

expect.addEqualityTesters([
  // A pattern stands for a text. Without this it matches anything in `toMatchObject`, since it has
  // no members.
  (found, expected) =>
    expected instanceof RegExp
      ? (typeof found === 'string' && found.search(expected) >= 0) ||
        (found instanceof RegExp && String(found) === String(expected))
      : undefined,
  // Vitest itself takes 0.6 s for 1 MB.
  (found, expected) =>
    found instanceof Uint8Array &&
    expected instanceof Uint8Array &&
    found.constructor === expected.constructor &&
    equalBytes(found, expected)
      ? true
      : undefined,
]);
