/** A file in the list: its name, a button that saves it, and what became of it. */
import { durationText, percentText, sizeText } from '../amounts.ts';
import { isEngineError, type Engine, type EngineError } from '../engine-client.ts';
import { describeFailure } from '../failure-words.ts';
import { deliveryMs, type FileView, type Receiving } from '../protocol.ts';
import { followProgress } from '../progress-text.ts';
import { badgeText, isTar } from './file-kind.ts';
import { startLooking } from './look.ts';
import { Dismissed, save, type Destination, type SavedPlace } from '../save.ts';
import { announce, dotted, locale, partsOf, setText, words } from '../states.ts';
import { holdOpen, whileOpen } from '../stay-open.ts';

/**
 * A row of the list. `save` saves the file, or continues where that stalled; it ends when the file
 * is saved, or is not for the moment.
 */
export type FileRowView = {
  readonly element: HTMLElement;
  isSaved(): boolean;
  save(o: Destination): Promise<void>;
  look(): Promise<void>;
};

/** Makes the row of a file, with a label instead of its name, and a word instead of *Save*. */
export function fileRow(
  engine: Engine<Receiving>,
  file: FileView,
  { onSaved, label, button = words.save }: { onSaved: () => void; label?: string; button?: string },
): FileRowView {
  const part = partsOf('file');
  const element = part('li', HTMLLIElement);
  const saveButton = part('.save', HTMLButtonElement);
  const cancelButton = part('.cancel', HTMLButtonElement);
  const progress = part('progress', HTMLProgressElement);
  const state = part('.state', HTMLElement);
  const copy = part('.copy', HTMLElement);
  const nameText = part('bdi', HTMLElement);
  const { id, name, size } = file;
  nameText.textContent = label ?? name;
  part('.kind', HTMLElement).textContent = badgeText(name);
  saveButton.textContent = button;
  const sizeShown = size === undefined ? undefined : sizeText(size, locale);
  setText(part('.size', HTMLElement), dotted(sizeShown, isTar(name) ? words.folderInOne : undefined) || undefined);
  // Each control is called what it says and the name of its file.
  nameText.id = `name-${id}`;
  const lookButton = part('.look', HTMLButtonElement);
  for (const control of [lookButton, saveButton, cancelButton, progress]) {
    control.id = `${control.className || 'progress'}-${id}`;
    const labels = control === progress ? [nameText.id] : [control.id, nameText.id];
    control.setAttribute('aria-labelledby', labels.join(' '));
  }
  const look = startLooking(engine, file, { button: lookButton, place: part('.preview', HTMLDivElement) });

  let isSaved = false;
  let stop: AbortController | undefined;
  /** Ends when saving has ended, or stalls. */
  let turn: PromiseWithResolvers<void> | undefined;
  /** Continues what stalled. */
  let resume: (() => void) | undefined;
  let copies = 0;
  cancelButton.addEventListener('click', () => stop?.abort());
  saveButton.addEventListener('click', () => void saveOnce('asked'));

  function update(kind: 'idle' | 'running' | 'stalled' | 'done' | 'failed', text: string | undefined): void {
    const hadFocus = element.contains(document.activeElement);
    const isBegun = kind === 'running' || kind === 'stalled';
    element.dataset['state'] = kind;
    saveButton.hidden = kind === 'running';
    cancelButton.hidden = !isBegun;
    progress.hidden = !isBegun;
    setText(state, text);
    if (hadFocus) (kind === 'running' ? cancelButton : saveButton).focus();
  }

  function follow(bytes: number, following: ReturnType<typeof followProgress>): void {
    const fraction = following.update(bytes, size);
    if (fraction === undefined) return;
    progress.value = fraction;
    announce(`${name}: ${percentText(fraction, locale)}`, { isProgress: true });
  }

  function stall(error: EngineError, goOn: () => void): void {
    saveButton.textContent = words.retry;
    const text = `${describeFailure(error, words).text} ${words.savingStalled}`;
    update('stalled', text);
    announce(`${name}: ${text}`);
    resume = () => {
      resume = undefined;
      update('running', words.saving);
      goOn();
    };
    endTurn();
  }

  function showSaved(place: SavedPlace): void {
    saveButton.textContent = words.again;
    const text = { picked: words.savedPicked, downloads: words.savedDownloads };
    update('done', place === 'picked' || place === 'downloads' ? text[place] : words.savedHandedOver);
    announce(`${name}: ${state.textContent}`);
    if (place === 'copied') void tellOfCopy(holdOpen());
  }

  /** Says that this origin has a copy, as long as it has. */
  async function tellOfCopy(release: () => void): Promise<void> {
    copies += 1;
    setText(copy, words.copyStays(durationText(deliveryMs(size ?? 0) / 1000, locale)));
    await engine.call('copiesGone', undefined).catch(() => undefined);
    release();
    copies -= 1;
    if (copies === 0) setText(copy, undefined);
  }

  async function saveFile(to: Destination): Promise<void> {
    const controller = new AbortController();
    stop = controller;
    progress.removeAttribute('value');
    update('running', words.saving);
    const following = followProgress(label ?? name, (text) => {
      if (element.dataset['state'] === 'running') setText(state, text);
    });
    try {
      await whileOpen(async () => {
        const onProgress = (bytes: number): void => follow(bytes, following);
        const place = await save(engine, file, { to, onProgress, onStalled: stall, signal: controller.signal });
        isSaved = true;
        showSaved(place);
        onSaved();
      });
    } catch (error) {
      if (error instanceof Dismissed) return update('idle', undefined);
      const isCancelled = isEngineError(error, 'aborted');
      const text = isCancelled ? words.errors.aborted : `${words.notSaved} ${describeFailure(error, words).text}`;
      saveButton.textContent = isCancelled ? (isSaved ? words.again : button) : words.retry;
      update(isCancelled ? 'idle' : 'failed', text);
      announce(`${name}: ${text}`);
    } finally {
      following.end();
      resume = undefined;
    }
  }

  function endTurn(): void {
    turn?.resolve();
    turn = undefined;
  }

  /** Saving all waits for what is being saved already. */
  const saveOnce: FileRowView['save'] = (o) => {
    if (turn !== undefined) return turn.promise;
    turn = Promise.withResolvers();
    const { promise } = turn;
    if (resume === undefined) void saveFile(o).finally(endTurn);
    else resume();
    return promise;
  };

  return { element, isSaved: () => isSaved, save: saveOnce, look };
}
