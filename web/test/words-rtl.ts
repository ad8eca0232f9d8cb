/**
 * A catalogue that is written from right to left: the English one in Hebrew letters, and a third
 * longer, as many languages are.
 */
import { en as english, type Words } from '../words/en.ts';

/** Replaces letters, and repeats the beginning. */
function foreign(text: string): string {
  const letters = text.replace(/[a-z]/gi, (letter) => String.fromCodePoint(0x5d0 + (letter.charCodeAt(0) % 27)));
  return `${letters} ${letters.slice(0, letters.length / 3)}`;
}

function translate(value: unknown): unknown {
  if (typeof value === 'string') return foreign(value);
  if (typeof value === 'function')
    return (...values: unknown[]) => foreign((value as (...all: unknown[]) => string)(...values));
  return Object.fromEntries(Object.entries(value as object).map(([key, each]) => [key, translate(each)]));
}

export const en: Words = { ...(translate(english) as Words), language: 'en', direction: 'rtl' };
