/** Keeping the screen on and the page open while it works. */

let running = 0;
let lock: Promise<{ release(): Promise<void> } | undefined> | undefined;

/** Keeps the screen on as long as `work` runs, and has the browser ask before the page is closed. */
export async function whileOpen<T>(work: () => Promise<T>): Promise<T> {
  running += 1;
  if (running === 1) {
    addEventListener('beforeunload', askToStay);
    lock = navigator.wakeLock?.request('screen').catch(() => undefined);
  }
  try {
    return await work();
  } finally {
    running -= 1;
    if (running === 0) {
      removeEventListener('beforeunload', askToStay);
      void lock?.then((held) => held?.release());
    }
  }
}

function askToStay(event: Event): void {
  event.preventDefault();
}
