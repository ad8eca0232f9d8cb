/** Progress text: how much, how fast, how long. */
import { durationText, percentText, sizeText } from './amounts.ts';
import { dotted, locale, setTitle, words } from './states.ts';

/** Time over which the speed is the mean, in ms: a pause does not spoil it for long. */
const meanMs = 8_000;
/** Time for which the speed is observed before it is shown, in ms. */
const observedMs = 2_000;
/** Time without a byte after which the text says that it waits, in ms. */
const quietMs = 3_000;

/**
 * Follows a transfer of files.
 * @param name what it is called in the title of the tab
 * @param tell gets the text each time that it changes
 */
export function followProgress(name: string, tell: (text: string) => void) {
  const seen: { at: number; bytes: number }[] = [{ at: performance.now(), bytes: 0 }];
  const watch = setInterval(() => {
    const last = seen.at(-1);
    if (last !== undefined && performance.now() - last.at > quietMs) tell(words.waitsForLine);
  }, 1000);
  return {
    /** Adds what is done. @returns the fraction; undefined where the whole is not known */
    update(bytes: number, total: number | undefined): number | undefined {
      const at = performance.now();
      if (bytes > (seen.at(-1)?.bytes ?? 0)) seen.push({ at, bytes });
      while (seen.length > 2 && at - (seen[0]?.at ?? at) > meanMs) seen.shift();
      const fraction = total === undefined ? undefined : total === 0 ? 1 : bytes / total;
      if (fraction !== undefined) setTitle(`${percentText(fraction, locale)} · ${name}`);
      tell(dotted(...amountTexts(bytes, total, fraction), ...speedTexts(seen, bytes, total)));
      return fraction;
    },
    end(): void {
      clearInterval(watch);
      setTitle();
    },
  };
}

function amountTexts(bytes: number, total: number | undefined, fraction: number | undefined): string[] {
  const done = sizeText(bytes, locale);
  if (total === undefined || fraction === undefined) return [words.progressUnknown(done)];
  return [percentText(fraction, locale), words.progress(done, sizeText(total, locale))];
}

function speedTexts(seen: readonly { at: number; bytes: number }[], bytes: number, total: number | undefined) {
  const [first, last] = [seen[0], seen.at(-1)];
  if (first === undefined || last === undefined || last.at - first.at < observedMs) return [];
  const speed = ((last.bytes - first.bytes) / (last.at - first.at)) * 1000;
  const left = total === undefined ? undefined : words.timeLeft(durationText((total - bytes) / speed, locale));
  return [words.speed(sizeText(speed, locale)), left];
}
