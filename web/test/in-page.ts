/**
 * Functions of tests that run inside a page of any browser, and use nothing from outside
 * themselves.
 */

/** Ability that a browser may lack, so that the next way to the disk is taken. */
export type Ability = 'picker' | 'disk' | 'service worker';

/**
 * Runs before the scripts of a page. The dialog of a picker cannot be driven, so a picked file is
 * one of the origin's private files, which has the same interface.
 */
export function takeAway(without: readonly string[]): void {
  document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
    // oxlint-disable-next-line no-console -- the test reads it there
    console.error(`violation: ${violatedDirective} ${blockedURI}`),
  );
  const pick = async ({ suggestedName }: { suggestedName: string }) =>
    (await navigator.storage.getDirectory()).getFileHandle(`picked ${suggestedName}`, { create: true });
  Object.assign(globalThis, {
    showSaveFilePicker: without.includes('picker') ? undefined : pick,
    showDirectoryPicker: () => navigator.storage.getDirectory(),
  });
  // A tab begins with an empty document that is no secure context.
  if (!isSecureContext) return;
  if (without.includes('disk')) navigator.storage.estimate = async () => ({ quota: 0, usage: 0 });
  if (without.includes('service worker'))
    navigator.serviceWorker.register = async () => {
      throw new Error('there are no service workers');
    };
}

/** Makes an empty file in the private files of the page's origin. */
export async function touch(name: string): Promise<void> {
  await (await navigator.storage.getDirectory()).getFileHandle(name, { create: true });
}

/** Returns what the browser keeps for the page. */
export async function readStorage() {
  const files: string[] = [];
  // WebKitGTK has none.
  if ('storage' in navigator) {
    const directory = (await navigator.storage.getDirectory()) as unknown as { keys(): AsyncIterable<string> };
    for await (const name of directory.keys()) files.push(name);
  }
  const { cookie } = document;
  return {
    local: Object.keys(localStorage),
    session: Object.keys(sessionStorage),
    cookie,
    state: history.state as unknown,
    databases: await indexedDB.databases(),
    caches: await caches.keys(),
    files,
  };
}

/** `readStorage` where nothing is kept. */
export const nothing = {
  local: [],
  session: [],
  cookie: '',
  state: null,
  databases: [],
  caches: [],
  files: [],
};

/** The files in the private storage of the page's origin, and their sizes in bytes. */
export async function readPrivateFiles(): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  const list = async (directory: FileSystemDirectoryHandle): Promise<void> => {
    for await (const [name, handle] of directory as unknown as AsyncIterable<[string, FileSystemHandle]>)
      if (handle.kind === 'directory') await list(handle as FileSystemDirectoryHandle);
      else found[name] = (await (handle as FileSystemFileHandle).getFile()).size;
  };
  await list(await navigator.storage.getDirectory());
  return found;
}
