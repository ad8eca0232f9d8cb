/** The script of `open.html`, which opens files from the disk without any service. */
import type { Credentials } from '../../client/credentials.ts';
import { isSealpinError } from '../../shared/errors.ts';
import { chunksOf } from '../../shared/streams/read-all.ts';
import { sleep } from '../../shared/streams/timing.ts';
import { sizeText } from '../amounts.ts';
import { startChosenName } from '../choosing/chosen-name.ts';
import { EngineError } from '../engine-client.ts';
import { describeFailure } from '../failure-words.ts';
import { startPasswordField } from '../password-field.ts';
import { Dismissed, download, pickedFile, picker, TooLargeToSave } from '../save.ts';
import { announce, byId, onSubmit, locale, partsOf, setText, show, translate, words } from '../states.ts';
import { lookAtChosen, type Chosen, type SavableFile } from './chosen-files.ts';
import { openerWords } from './words.ts';

const own = openerWords(words);
/** The largest file that was saved from memory, in Firefox on Linux: Chromium has a picker. */
const memoryBytes = 1024 ** 3;
/** Progress is shown this often, in bytes. */
const stepBytes = 4 * 1024 * 1024;

let chosen: Chosen | undefined;

function describe(error: unknown): { text: string; isCredential: boolean } {
  if (error instanceof TooLargeToSave) return { text: own.noRoom, isCredential: false };
  if (!isSealpinError(error)) return describeFailure(error, words);
  const { code, reason, message } = error;
  return describeFailure(new EngineError({ code, reason, message }), words);
}

/** Waits until the browser has painted, since deriving a key holds it up. */
const painted = (): Promise<void> => sleep(50);

function showProblem(error: unknown): void {
  setText(byId('problem-text', HTMLParagraphElement), describe(error).text);
  show('problem');
}

async function choose(files: readonly File[]): Promise<void> {
  if (files.length === 0) return;
  show('wait');
  try {
    chosen = await lookAtChosen(files);
    if (chosen.needs === undefined) return await openWith(undefined);
    const isBackup = chosen.kind === 'backup';
    setText(byId('asked-title', HTMLHeadingElement), isBackup ? own.backupTitle : words.askedTitleContainer);
    setText(byId('asked-text', HTMLParagraphElement), isBackup ? own.backupText : words.containerText);
    byId('password-field', HTMLDivElement).hidden = chosen.needs !== 'password';
    byId('key-field', HTMLDivElement).hidden = chosen.needs !== 'keys';
    setText(byId('open-error', HTMLParagraphElement), undefined);
    show('asked');
  } catch (error) {
    showProblem(error);
  }
}

async function openWith(credentials: Credentials | undefined): Promise<void> {
  if (chosen === undefined) return;
  show('wait');
  await painted();
  try {
    const { files, unreadable } = await chosen.open(credentials);
    setText(byId('opened-title', HTMLHeadingElement), own.openedTitle(files.length));
    setText(byId('unreadable', HTMLParagraphElement), unreadable === 0 ? undefined : own.unreadable(unreadable));
    byId('files', HTMLUListElement).replaceChildren(...files.map((file, index) => openedFileRow(file, index)));
    byId('password', HTMLInputElement).value = '';
    show('opened');
  } catch (error) {
    const { text, isCredential } = describe(error);
    if (!isCredential) return showProblem(error);
    setText(byId('open-error', HTMLParagraphElement), text);
    show('asked');
    announce(text);
  }
}

/** The row of a file, with the button that saves it. */
function openedFileRow(file: SavableFile, index: number): HTMLElement {
  const part = partsOf('file');
  const button = part('.save', HTMLButtonElement);
  const state = part('.state', HTMLElement);
  const name = part('bdi', HTMLElement);
  name.textContent = file.name;
  name.id = `name-${index}`;
  button.id = `save-${index}`;
  button.setAttribute('aria-labelledby', `${button.id} ${name.id}`);
  setText(part('.size', HTMLElement), file.size === undefined ? undefined : sizeText(file.size, locale));
  if (file.isSealed) setText(state, own.sealed);
  const isTooLarge = picker() === undefined && file.most > memoryBytes;
  if (isTooLarge) setText(state, own.tooLarge(sizeText(memoryBytes, locale)));
  button.disabled = isTooLarge;
  const tell = (text: string, isProgress = false): void => {
    setText(state, text);
    announce(`${file.name}: ${text}`, { isProgress });
  };
  button.addEventListener('click', () => {
    button.disabled = true;
    void saveWhole(file, tell)
      .then((text) => tell(text))
      .catch((error: unknown) => tell(error instanceof Dismissed ? words.errors.aborted : describe(error).text))
      .finally(() => (button.disabled = false));
  });
  return part('li', HTMLLIElement);
}

/** Saves a file whole, or nothing of it. @returns what became of it */
async function saveWhole(file: SavableFile, tell: (text: string, isProgress: boolean) => void): Promise<string> {
  const handle = await pickedFile(file.name);
  const writable = await handle?.createWritable();
  const parts: Blob[] = [];
  let held: Uint8Array<ArrayBuffer>[] = [];
  let [bytes, next] = [0, 0];
  try {
    for await (const chunk of chunksOf(await file.open())) {
      bytes += chunk.length;
      const piece = chunk.slice();
      if (writable === undefined) held.push(piece);
      else await writable.write(piece);
      if (bytes < next) continue;
      // Browsers keep large Blobs outside of the page's memory.
      if (held.length > 0) parts.push(new Blob(held));
      held = [];
      next = bytes + stepBytes;
      tell(words.progressUnknown(sizeText(bytes, locale)), true);
      await painted();
    }
  } catch (error) {
    await writable?.abort(error).catch(() => undefined); // the first error is the one to report
    throw error;
  }
  if (writable !== undefined) {
    await writable.close();
    return words.savedPicked;
  }
  const whole = new Blob([...parts, ...held], { type: 'application/octet-stream' });
  // Private windows hold less: what found no room there cannot be read, and would be saved cut off.
  const last = whole.slice(-1).arrayBuffer();
  await last.catch(() => {
    throw new TooLargeToSave();
  });
  download(whole, file.name);
  return own.savedHandedOver;
}

async function submit(): Promise<void> {
  if (chosen?.needs === 'password') return openWith({ password: byId('password', HTMLInputElement).value });
  const [file] = byId('key', HTMLInputElement).files ?? [];
  if (file !== undefined) await openWith({ keys: await file.text() });
}

translate();
startPasswordField('open-error', 'current-password');
startChosenName('key');
for (const element of document.querySelectorAll<HTMLElement>('[data-own]')) {
  const text = own[element.dataset['own'] as keyof typeof own];
  if (typeof text === 'string') element.textContent = text;
}
for (const id of ['container', 'folder']) {
  const input = byId(id, HTMLInputElement);
  input.addEventListener('change', () => {
    void choose([...(input.files ?? [])]).finally(() => (input.value = ''));
  });
}
onSubmit('open', submit);
for (const button of document.querySelectorAll('.start-over')) button.addEventListener('click', () => show('home'));
show('home');
