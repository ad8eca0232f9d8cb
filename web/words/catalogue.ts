/** The languages of the pages. */
import { de } from './de.ts';
import { en, type Words } from './en.ts';

/** The words of the first language that the reader prefers and that there is; English otherwise. */
export function wordsFor(languages: readonly string[]): Words {
  const wanted = languages.map((each) => each.slice(0, 2).toLowerCase());
  return wanted.flatMap((language) => [en, de].filter((each) => each.language === language))[0] ?? en;
}
