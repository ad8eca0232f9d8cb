/** Keeping the screen on and the page open while it works, and while it has what would be lost. */
import { show, words } from './states.ts';

let holds = 0;
const askToStay = (event: Event): void => event.preventDefault();

/** Has the browser ask before the page is closed, until the function that comes back is called. */
export function holdOpen(): () => void {
  holds += 1;
  if (holds === 1) addEventListener('beforeunload', askToStay);
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    holds -= 1;
    if (holds === 0) removeEventListener('beforeunload', askToStay);
  };
}

let running = 0;
let lock: Promise<{ release(): Promise<void> } | undefined> | undefined;

/** Keeps the screen on while something runs; a browser ends that whenever the page is hidden. */
function keepScreenOn(): void {
  if (running > 0 && !document.hidden) lock = navigator.wakeLock?.request('screen').catch(() => undefined);
}
document.addEventListener('visibilitychange', keepScreenOn);

/**
 * Keeps the screen on as long as `work` runs, and has the browser ask before the page is closed.
 */
export async function whileOpen<T>(work: () => Promise<T>): Promise<T> {
  const release = holdOpen();
  running += 1;
  if (running === 1) keepScreenOn();
  try {
    return await work();
  } finally {
    release();
    running -= 1;
    if (running === 0) void lock?.then((held) => held?.release());
  }
}

/**
 * Loads the page again for a link that is opened while it is shown, which changes nothing but the
 * fragment. Where something would be lost it asks first, and drops the link after a no.
 */
export function startOtherLinks(): void {
  addEventListener('hashchange', () => {
    if (holds > 0 && !confirm(words.leavePage)) return history.replaceState(null, '', location.pathname);
    removeEventListener('beforeunload', askToStay);
    show('wait');
    location.reload();
  });
}
