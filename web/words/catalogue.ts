/** The languages of the pages. */
import { de } from './de.ts';
import { en, type Words } from './en.ts';

/** The words of the first language that the reader prefers and that there is; English otherwise. */
export function wordsFor(languages: readonly string[]): Words {
  const catalogues: readonly Words[] = [en, de];
  for (const language of languages) {
    const found = catalogues.find((each) => each.language === language.slice(0, 2).toLowerCase());
    if (found !== undefined) return found;
  }
  return en;
}
