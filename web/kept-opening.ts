/**
 * The share that this tab has opened, until its files are saved: a reload within some minutes opens
 * it again, and counts nothing.
 */
import { repeatMs } from '../shared/time.ts';

/** A link, what it was opened with, and the time until which that is worth anything, in ms. */
type KeptOpening = { link: string; opening: string; until: number };

const itemName = 'opened';

/** Keeps what a share is opened with, for this tab alone. */
export function keepOpening(link: string, opening: string): void {
  const until = keptOpening(link)?.until ?? Date.now() + repeatMs;
  storage()?.setItem(itemName, JSON.stringify({ link, opening, until } satisfies KeptOpening));
  keptOpening();
}

/** Forgets what is kept once it is worth nothing. */
let forgetting: ReturnType<typeof setTimeout> | undefined;

/**
 * Returns what is kept, of this link or of any, and forgets what is worth nothing any more: now, or
 * as long as this page is there, then.
 */
export function keptOpening(link?: string): KeptOpening | undefined {
  const kept = JSON.parse(storage()?.getItem(itemName) ?? 'null') as KeptOpening | null;
  if (kept === null) return undefined;
  const leftMs = kept.until - Date.now();
  if (leftMs > 0) {
    clearTimeout(forgetting);
    forgetting = setTimeout(() => keptOpening(), leftMs);
    return link === undefined || kept.link === link ? kept : undefined;
  }
  forgetOpening();
  return undefined;
}

/** Forgets it: its files are saved, or nobody wants them. */
export function forgetOpening(): void {
  storage()?.removeItem(itemName);
}

/** The storage of this tab, unless the browser lets no page store anything. */
function storage(): Storage | undefined {
  try {
    return sessionStorage;
  } catch {
    return undefined;
  }
}
