/** An end to reading a list of a service that has none. */
import { SealpinError } from '../shared/errors.ts';

/**
 * Empty pages in a row: a filter that matches few of many files has some, and a hostile service has
 * no end of them.
 */
const maxEmptyPages = 100;

/**
 * Returns what looks at each page of a list, with where the next one begins.
 * @throws SealpinError (what is returned) `service_answer` for a page that comes again, and after
 * too many that are empty
 */
export function endlessList(): (items: number, next: string | undefined) => void {
  const seen = new Set<string>();
  let emptyPages = 0;
  return (items, next) => {
    emptyPages = items === 0 ? emptyPages + 1 : 0;
    const what = emptyPages > maxEmptyPages ? 'returns empty pages' : 'repeats a page';
    if (emptyPages > maxEmptyPages || (next !== undefined && seen.has(next)))
      throw new SealpinError('service_answer', `the service's list never ends: it ${what}`);
    if (next !== undefined) seen.add(next);
  };
}
