/** A file in the list: its name, a button that saves it, and what became of it. */
import { percentText, sizeText } from './amounts.ts';
import { EngineError, type Engine } from './engine-client.ts';
import { describeFailure } from './failure-words.ts';
import type { FileView, Receiving } from './protocol.ts';
import { progressText } from './progress-text.ts';
import { CutOff, Dismissed, save } from './save.ts';
import { announce, locale, partsOf, setText, words } from './states.ts';
import { whileOpen } from './stay-open.ts';

/** A row of the list. */
export type FileRow = {
  readonly element: HTMLElement;
  isSaved(): boolean;
  save(o: { mayAsk: boolean }): Promise<void>;
};

/** Makes the row of a file. @param index of the file in the engine's list */
export function fileRow(engine: Engine<Receiving>, file: FileView, index: number): FileRow {
  const part = partsOf('file');
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
  let saving: Promise<void> | undefined;
  cancelButton.addEventListener('click', () => stop?.abort());
  saveButton.addEventListener('click', () => void saveOnce({ mayAsk: true }));

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
      setText(state, progressText(bytes, { total: size, startedAt }));
      if (size === undefined) return;
      progress.value = size === 0 ? 1 : bytes / size;
      announce(words.announceProgress(name, percentText(progress.value, locale)), { isProgress: true });
    };
  }

  async function saveFile({ mayAsk }: { mayAsk: boolean }): Promise<void> {
    const controller = new AbortController();
    stop = controller;
    progress.removeAttribute('value');
    update('running', words.saving);
    try {
      await whileOpen(async () => {
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
      const lead = error instanceof CutOff ? words.notWhole : words.notSaved;
      const text = isCancelled ? words.cancelled : `${lead} ${describeFailure(error, words).text}`;
      if (!isCancelled) saveButton.textContent = words.retry;
      update(isCancelled ? 'idle' : 'failed', text);
      announce(`${name}: ${text}`);
    }
  }

  /** Saving all waits for what is being saved already. */
  const saveOnce: FileRow['save'] = (o) => (saving ??= saveFile(o).finally(() => (saving = undefined)));

  return { element, isSaved: () => isSaved, save: saveOnce };
}
