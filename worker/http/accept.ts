/** Which representation a client wants (RFC 9110 section 12.5.1). */
import { SealpinError } from '../../shared/errors.ts';

type Wish = { type: string; q: number };

/**
 * Chooses from what is offered, in the order of our preference where the client has none.
 * @throws not_acceptable when none is wanted
 */
export function acceptable<T extends string>(header: string | null, offered: readonly T[]): T {
  const best = preferred(header, offered);
  if (best === undefined) throw new SealpinError('not_acceptable', `choose one of: ${offered.join(', ')}`);
  return best;
}

/** As `acceptable`, without an error: undefined when none is wanted. */
export function preferred<T extends string>(header: string | null, offered: readonly T[]): T | undefined {
  if (header === null || header.trim() === '') return offered[0];
  const wishes = header.split(',').map((part) => parseWish(part));
  let best: { type: T; q: number } | undefined;
  for (const type of offered) {
    const q = quality(type, wishes);
    if (q > (best?.q ?? 0)) best = { type, q };
  }
  return best?.type;
}

function parseWish(part: string): Wish {
  const [type = '', ...parameters] = part.split(';').map((each) => each.trim().toLowerCase());
  const weight = parameters.find((each) => each.startsWith('q='));
  const q = Number(weight?.slice(2));
  // A weight that is none (section 12.4.2) says nothing.
  return { type, q: q >= 0 && q <= 1 ? q : 1 };
}

/** The weight of the most specific wish that fits. */
function quality(type: string, wishes: readonly Wish[]): number {
  const family = `${type.split('/')[0]}/*`;
  for (const pattern of [type, family, '*/*']) {
    const wish = wishes.find((each) => each.type === pattern);
    if (wish !== undefined) return wish.q;
  }
  return 0;
}
