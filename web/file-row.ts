/** A file in the list: its name, a button that saves it, and what became of it. */
import { durationText, percentText, sizeText } from './amounts.ts';
import { EngineError, type Engine } from './engine-client.ts';
import { describeFailure } from './failure-words.ts';
import type { FileView } from './protocol.ts';
import { Dismissed, save } from './save.ts';
import { announce, byId, locale, setText, speak, words } from './states.ts';

/** A row of the list. */
export type FileRow = {
  readonly element: HTMLElement;
  isSaved(): boolean;
  save(o: { mayAsk: boolean }): Promise<void>;
};

/** How long the speed of a download is observed before a time is told, in ms. */
const observedMs = 3_000;

let running = 0;
let lock: Promise<{ release(): Promise<void> } | undefined> | undefined;

/** Keeps the screen on and the page open as long as something is saved. */
async function whileSaving(work: () => Promise<void>): Promise<void> {
  running += 1;
  if (running === 1) {
    addEventListener('beforeunload', askToStay);
    lock = navigator.wakeLock?.request('screen').catch(() => undefined);
  }
  try {
    await work();
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

/** Makes the row of a file. @param index of the file in the engine's list */
export function fileRow(engine: Engine, file: FileView, index: number): FileRow {
  const copy = byId('file', HTMLTemplateElement).content.cloneNode(true) as DocumentFragment;
  speak(copy);
  const part = <E extends HTMLElement>(selector: string, kind: new () => E): E => {
    const found = copy.querySelector(selector);
    if (!(found instanceof kind)) throw new TypeError(`the document has no ${selector}`);
    return found;
  };
  const element = part('li', HTMLLIElement);
  const saveButton = part('.save', HTMLButtonElement);
  const cancelButton = part('.cancel', HTMLButtonElement);
  const progress = part('progress', HTMLProgressElement);
  const state = part('.state', HTMLElement);
  const nameText = part('bdi', HTMLElement);
  const { name, size } = file;
  nameText.textContent = name;
  setText(part('.size', HTMLElement), size === undefined ? undefined : sizeText(size, locale));
  // Each control is called what it says and the name of its file.
  nameText.id = `name-${index}`;
  for (const control of [saveButton, cancelButton, progress]) {
    control.id = `${control.className || 'progress'}-${index}`;
    const labels = control === progress ? [nameText.id] : [control.id, nameText.id];
    control.setAttribute('aria-labelledby', labels.join(' '));
  }

  let isSaved = false;
  let stop: AbortController | undefined;
  cancelButton.addEventListener('click', () => stop?.abort());
  saveButton.addEventListener('click', () => void saveFile({ mayAsk: true }));

  function update(kind: 'idle' | 'running' | 'done' | 'failed', text: string | undefined): void {
    const hadFocus = element.contains(document.activeElement);
    element.dataset['state'] = kind;
    saveButton.hidden = kind === 'running';
    cancelButton.hidden = kind !== 'running';
    progress.hidden = kind !== 'running';
    setText(state, text);
    if (hadFocus) (kind === 'running' ? cancelButton : saveButton).focus();
  }

  function follow(startedAt: number): (bytes: number) => void {
    return (bytes) => {
      const done = sizeText(bytes, locale);
      if (size === undefined) {
        setText(state, `${words.progressUnknown(done)} · ${words.keepOpen}`);
        return;
      }
      progress.value = size === 0 ? 1 : bytes / size;
      const elapsedMs = performance.now() - startedAt;
      const secondsLeft = ((size - bytes) / bytes) * (elapsedMs / 1000);
      const left = elapsedMs > observedMs && bytes > 0 ? [words.timeLeft(durationText(secondsLeft, locale))] : [];
      setText(state, [words.progress(done, sizeText(size, locale)), ...left, words.keepOpen].join(' · '));
      announce(words.announceProgress(name, percentText(progress.value, locale)), { isProgress: true });
    };
  }

  async function saveFile({ mayAsk }: { mayAsk: boolean }): Promise<void> {
    const controller = new AbortController();
    stop = controller;
    progress.removeAttribute('value');
    update('running', words.saving);
    try {
      await whileSaving(async () => {
        const onProgress = follow(performance.now());
        const place = await save(engine, file, { index, mayAsk, onProgress, signal: controller.signal });
        isSaved = true;
        saveButton.textContent = words.again;
        update('done', place === 'picked' ? words.savedPicked : words.savedDownloads);
        announce(words.announceSaved(name));
      });
    } catch (error) {
      if (error instanceof Dismissed) return update('idle', undefined);
      const isCancelled = error instanceof EngineError && error.code === 'aborted';
      const text = isCancelled ? words.cancelled : `${words.notSaved} ${describeFailure(error, words).text}`;
      if (!isCancelled) saveButton.textContent = words.retry;
      update(isCancelled ? 'idle' : 'failed', text);
      announce(`${name}: ${text}`);
    }
  }

  return { element, isSaved: () => isSaved, save: saveFile };
}
