/** Traces of pages that were closed before their time, which any page of the service removes. */
import { keptOpening } from '../kept-opening.ts';
import { privateFolder } from '../protocol.ts';

/** Time in which a page that was just closed gives back the locks of its files, in ms. */
const releaseMs = 5_000;

/** Removes what closed pages have left of files, and the link of this tab once its time is over. */
export async function removeLeftBehind(): Promise<void> {
  keptOpening();
  try {
    const directory = await (await navigator.storage.getDirectory()).getDirectoryHandle(privateFolder);
    const removals: Promise<void>[] = [];
    for await (const name of directory.keys()) {
      const isFree = { signal: AbortSignal.timeout(releaseMs) };
      removals.push(navigator.locks.request(name, isFree, () => directory.removeEntry(name)));
    }
    await Promise.allSettled(removals);
  } catch {
    // There is no such folder, or this browser has no private files.
  }
}
