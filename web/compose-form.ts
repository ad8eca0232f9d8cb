/** The form that all sending begins with: files, who may open them, and words for the receiver. */
import { dayMs, hourMs } from '../shared/time.ts';
import { dayText, durationText, sizeText } from './amounts.ts';
import { startPasswordField } from './password-field.ts';
import { sendableName, type SendableName } from './sendable-name.ts';
import type { SenderWords, FormTerms } from './protocol.ts';
import { announce, byId, locale, partsOf, setText, show, words } from './states.ts';

/** Choices that a service allows unless its operator says otherwise: 30 days, 100 opens. */
const lifetimes = [hourMs, dayMs, 7 * dayMs, 30 * dayMs];
const counts = [1, 5, 20, 100];
const defaults = { lifetime: 7 * dayMs, count: 5 };

export type ComposedDraft = { files: File[]; terms: FormTerms; words: SenderWords };

/** Purpose of the form. `fixed`: files that are stored already, which cannot be chosen. */
export type Purpose = {
  readonly title: string;
  readonly text: string;
  readonly button: string;
  readonly hasTerms: boolean;
  readonly fixed?: readonly { name: string; size: number }[];
  /** Time at which every link ends, whatever is chosen. */
  readonly latest?: string | undefined;
  readonly submit: (draft: ComposedDraft) => void;
  readonly back?: () => void;
  /** Label of the button that goes back, where it leads to something else. */
  readonly backLabel?: string;
};

let purpose: Purpose | undefined;
let chosenFiles: File[] = [];
/** Edited names of files. */
const renamed = new WeakMap<object, SendableName>();

/** Shows the form for a purpose. What was typed and chosen stays. */
export function compose(next: Purpose): void {
  purpose = next;
  byId('compose-title', HTMLHeadingElement).textContent = next.title;
  byId('compose-text', HTMLParagraphElement).textContent = next.text;
  byId('compose-button', HTMLButtonElement).textContent = next.button;
  byId('chooser', HTMLDivElement).hidden = next.fixed !== undefined;
  byId('terms', HTMLDivElement).hidden = !next.hasTerms;
  const back = byId('compose-back', HTMLButtonElement);
  back.hidden = next.back === undefined;
  back.textContent = next.backLabel ?? words.back;
  showEnd();
  complain(undefined);
  showFiles();
  show('compose');
}

/** Shows the form again, with what is wrong. */
export function composeAgain(problem: string): void {
  show('compose');
  complain(problem);
}

/** Forgets what was typed and chosen. */
export function clearCompose(): void {
  chosenFiles = [];
  byId('compose-form', HTMLFormElement).reset();
  showWays();
}

function complain(problem: string | undefined): void {
  setText(byId('compose-error', HTMLParagraphElement), problem);
  if (problem !== undefined) announce(problem);
}

function showFiles(): void {
  const listed = purpose?.fixed ?? chosenFiles;
  const rows = listed.map((file, index) => {
    const { name, size } = file;
    const change = renamed.get(file);
    const changeText = change === undefined ? undefined : words.renamed(change.refused.join(', '));
    const part = partsOf('chosen-file');
    const nameText = part('bdi', HTMLElement);
    nameText.textContent = name;
    nameText.id = `chosen-${index}`;
    part('.size', HTMLElement).textContent = sizeText(size, locale);
    setText(part('.renamed', HTMLElement), changeText);
    const remove = part('.remove', HTMLButtonElement);
    remove.id = `remove-${index}`;
    remove.setAttribute('aria-labelledby', `${remove.id} ${nameText.id}`);
    remove.hidden = purpose?.fixed !== undefined;
    remove.addEventListener('click', () => {
      chosenFiles.splice(index, 1);
      showFiles();
      // The focus goes to the next file, or to the chooser after the last one.
      const next = document.querySelector<HTMLElement>(`#remove-${Math.min(index, chosenFiles.length - 1)}`);
      (next ?? byId('choose', HTMLInputElement)).focus();
      announce(words.removed(name));
    });
    return part('li', HTMLLIElement);
  });
  byId('chosen', HTMLUListElement).replaceChildren(...rows);
}

function addFiles(added: Iterable<File>): void {
  const all = [...added];
  if (all.length === 0 || purpose?.fixed !== undefined) return;
  chosenFiles.push(...all.map(sendable));
  complain(undefined);
  showFiles();
  const changed = all.filter(({ name }) => sendableName(name) !== undefined).length;
  announce([words.chosen(chosenFiles.length), ...(changed === 0 ? [] : [words.chosenRenamed(changed)])].join(' '));
}

/** A file under a name that can be sent; nothing is read. */
function sendable(file: File): File {
  const change = sendableName(file.name);
  if (change === undefined) return file;
  const { type, lastModified } = file;
  const sent = new File([file], change.name, { type, lastModified });
  renamed.set(sent, change);
  return sent;
}

/** Shows the field of the way that is chosen. */
function showWays(): void {
  byId('password-field', HTMLDivElement).hidden = !byId('by-password', HTMLInputElement).checked;
  byId('keys-field', HTMLDivElement).hidden = !byId('by-keys', HTMLInputElement).checked;
}

/** Says so where links end before the chosen time. */
function showEnd(): void {
  const latest = purpose?.latest;
  const chosenMs = Number(byId('expires', HTMLSelectElement).value);
  const isCut = latest !== undefined && Date.now() + chosenMs > Date.parse(latest);
  setText(byId('expires-end', HTMLParagraphElement), isCut ? words.guestEnd(dayText(latest, locale)) : undefined);
}

function submit(): void {
  const password = byId('password', HTMLInputElement);
  const keys = byId('keys', HTMLTextAreaElement);
  const hasTerms = purpose?.hasTerms === true;
  const byPassword = hasTerms && byId('by-password', HTMLInputElement).checked;
  const byKeys = hasTerms && byId('by-keys', HTMLInputElement).checked;
  const missing = (element: HTMLElement, problem: string): void => {
    complain(problem);
    element.focus();
  };
  if (purpose?.fixed === undefined && chosenFiles.length === 0)
    return missing(byId('choose', HTMLInputElement), words.chooseFirst);
  if (byPassword && password.value === '') return missing(password, words.passwordMissing);
  if (byKeys && keys.value.trim() === '') return missing(keys, words.keysMissing);
  const note = byId('note', HTMLTextAreaElement).value.trim();
  const from = byId('from', HTMLInputElement).value.trim();
  complain(undefined);
  purpose?.submit({
    files: chosenFiles,
    terms: {
      expiresInMs: Number(byId('expires', HTMLSelectElement).value),
      opens: Number(byId('opens', HTMLSelectElement).value),
      password: byPassword ? password.value : undefined,
      keys: byKeys ? keys.value : undefined,
    },
    words: { note: note || undefined, from: from || undefined },
  });
}

function option(value: number, text: string, chosen: number): HTMLOptionElement {
  return new Option(text, String(value), value === chosen, value === chosen);
}

/** Starts the form, once. */
export function startCompose(): void {
  byId('expires', HTMLSelectElement).replaceChildren(
    ...lifetimes.map((ms) => option(ms, words.inTime(durationText(ms / 1000, locale)), defaults.lifetime)),
  );
  byId('opens', HTMLSelectElement).replaceChildren(
    ...counts.map((count) => option(count, words.times(count), defaults.count)),
  );
  startPasswordField('compose-error');
  const chooser = byId('choose', HTMLInputElement);
  chooser.addEventListener('change', () => {
    addFiles(chooser.files ?? []);
    chooser.value = ''; // so that the same file can be chosen again
  });
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    if (!byId('compose', HTMLElement).hidden) addFiles(event.dataTransfer?.files ?? []);
  });
  byId('terms', HTMLDivElement).addEventListener('change', () => {
    showWays();
    showEnd();
  });
  byId('keys', HTMLTextAreaElement).setAttribute('aria-label', words.publicKeys);
  byId('password', HTMLInputElement).setAttribute('aria-label', words.password);
  byId('compose-form', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  byId('compose-back', HTMLButtonElement).addEventListener('click', () => purpose?.back?.());
}

/** Until when and how often a share can be opened. */
export function termsText({ opens, expiresAt }: { opens: number; expiresAt: string }): string {
  return words.opensUntil(opens, dayText(expiresAt, locale));
}
