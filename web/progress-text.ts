/** Progress text. */
import { durationText, sizeText } from './amounts.ts';
import { locale, words } from './states.ts';

/** Time for which the speed is observed before a remaining time is shown, in ms. */
const observedMs = 3_000;

/**
 * Formats how much is done, of how much, and how long it will take.
 * @param o.startedAt by `performance.now()`
 */
export function progressText(bytes: number, o: { total: number | undefined; startedAt: number }): string {
  const { total, startedAt } = o;
  const done = sizeText(bytes, locale);
  if (total === undefined) return `${words.progressUnknown(done)} · ${words.keepOpen}`;
  const elapsedMs = performance.now() - startedAt;
  const secondsLeft = ((total - bytes) / bytes) * (elapsedMs / 1000);
  const left = elapsedMs > observedMs && bytes > 0 ? [words.timeLeft(durationText(secondsLeft, locale))] : [];
  return [words.progress(done, sizeText(total, locale)), ...left, words.keepOpen].join(' · ');
}
