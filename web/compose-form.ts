/** The form that all sending begins with: files, who may open them, and words for the receiver. */
import { dayMs, hourMs } from '../shared/time.ts';
import { dayText, durationText, sizeText } from './amounts.ts';
import { startDropZone } from './choosing/drop-zone.ts';
import { filesOrFolder } from './choosing/dropped-files.ts';
import { startPasswordField } from './password-field.ts';
import type { FileToSend, FormTerms, InvitationView, SenderWords } from './protocol.ts';
import { badgeText } from './receiving/file-kind.ts';
import { sendableName, sendableText, type SendableName } from './sendable-name.ts';
import { askLimits, type ServiceLimits } from './kept/change-dialog.ts';
import {
  announce,
  byId,
  dotted,
  joinedNames,
  locale,
  onClick,
  onSubmit,
  partsOf,
  setText,
  show,
  words,
} from './states.ts';
import { messageFile } from './choosing/text-message.ts';

/** Choices where the service does not say what it allows. */
const lifetimes = [hourMs, dayMs, 7 * dayMs, 30 * dayMs];
const counts = [1, 5, 20, 100];
const defaults = { lifetime: 7 * dayMs, count: 5 };

/** The most bytes of a note beside files (docs/links.md), and of a text alone, which is shown. */
const noteBytes = { beside: 4096, alone: 1024 * 1024 };

export type ComposedDraft = { files: FileToSend[]; terms: FormTerms; words: SenderWords };

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
let chosenFiles: FileToSend[] = [];
let limits: string | undefined;
let shareLimits: ServiceLimits['shares'];
/** Edited names of files. */
const renamed = new WeakMap<object, SendableName>();

/** Shows the form for a purpose. What was typed and chosen stays. */
export function compose(next: Purpose): void {
  purpose = next;
  byId('compose-title', HTMLHeadingElement).textContent = next.title;
  byId('compose-text', HTMLParagraphElement).textContent = isOff() ? words.linksOff : next.text;
  byId('compose-form', HTMLFormElement).toggleAttribute('data-off', isOff());
  byId('compose-button', HTMLButtonElement).textContent = next.button;
  byId('chooser', HTMLDivElement).hidden = next.fixed !== undefined;
  byId('note-hint', HTMLParagraphElement).hidden = next.fixed !== undefined;
  byId('terms', HTMLDetailsElement).hidden = !next.hasTerms;
  const back = byId('compose-back', HTMLButtonElement);
  back.hidden = next.back === undefined;
  back.textContent = next.backLabel ?? words.back;
  showTerms();
  complain(undefined);
  showFiles();
  show('compose');
}

/** Tells whether the form is for what this service never does. */
const isOff = (): boolean => purpose?.hasTerms === true && shareLimits === null;

/** Reads the limits of the service, and offers the terms that it allows. */
export async function readLimits(): Promise<ServiceLimits> {
  const limits = await askLimits();
  shareLimits = limits.shares;
  offerTerms();
  return limits;
}

/** Shows limits of what is sent, in words, now and with every purpose. */
export function showLimits(text: string | undefined): void {
  limits = text;
  showFiles();
}

/** Says how much more may be sent. */
export function roomOf({ files, bytes }: Pick<InvitationView, 'files' | 'bytes'>): string[] {
  const texts = files === undefined ? [] : [words.guestFiles(files)];
  return bytes === undefined ? texts : [...texts, words.guestSize(sizeText(bytes, locale))];
}

/** Shows the form again, with what is wrong, at the field that it is about. */
export function composeAgain(problem: string): void {
  show('compose');
  byId('compose-button', HTMLButtonElement).focus();
  const { public_key: publicKey, password } = words.errors;
  if (problem === publicKey || problem === password) complainAt(problem === password ? 'password' : 'keys', problem);
  else complain(problem);
}

/** Forgets what was typed and chosen. */
export function clearCompose(): void {
  chosenFiles = [];
  byId('compose-form', HTMLFormElement).reset();
  showWays();
}

function complain(problem: string | undefined): void {
  const error = byId('compose-error', HTMLParagraphElement);
  setText(error, problem);
  error.scrollIntoView({ block: 'nearest' });
  for (const field of document.querySelectorAll('#compose [aria-invalid]')) field.removeAttribute('aria-invalid');
  if (problem !== undefined) announce(problem);
}

/** Says what is wrong with a field, and goes there. */
function complainAt(id: string, problem: string): void {
  complain(problem);
  const field = byId(id, HTMLElement);
  const terms = byId('terms', HTMLDetailsElement);
  if (terms.contains(field)) terms.open = true;
  field.setAttribute('aria-invalid', 'true');
  field.focus();
}

function showFiles(): void {
  const listed = purpose?.fixed ?? chosenFiles;
  const rows = listed.map((file, index) => {
    const { name, size } = file;
    const refused = renamed.get(file)?.refused.join(', ');
    const part = partsOf('chosen-file');
    const nameText = part('bdi', HTMLElement);
    nameText.textContent = name;
    nameText.id = `chosen-${index}`;
    part('.kind', HTMLElement).textContent = badgeText(name);
    const count = 'files' in file ? words.folderOf(file.files.length) : undefined;
    part('.size', HTMLElement).textContent = dotted(sizeText(size, locale), count);
    setText(part('.renamed', HTMLElement), refused === undefined ? undefined : words.renamed(refused));
    const remove = part('.remove', HTMLButtonElement);
    remove.id = `remove-${index}`;
    remove.setAttribute('aria-label', `${words.remove} ${name}`);
    remove.hidden = purpose?.fixed !== undefined;
    remove.addEventListener('click', () => {
      chosenFiles.splice(index, 1);
      complain(undefined);
      showFiles();
      // The focus goes to the next file, or to the chooser after the last one.
      const next = document.querySelector<HTMLElement>(`#remove-${Math.min(index, chosenFiles.length - 1)}`);
      (next ?? byId('choose', HTMLInputElement)).focus();
      announce(words.removed(name));
    });
    return part('li', HTMLLIElement);
  });
  byId('chosen', HTMLUListElement).replaceChildren(...rows);
  byId('choosing', HTMLDivElement).toggleAttribute('data-chosen', listed.length > 0);
  document.querySelector('#choose + label')?.replaceChildren(listed.length > 0 ? words.addFiles : words.chooseFiles);
  const total = listed.reduce((sum, { size }) => sum + size, 0);
  const sum = listed.length > 1 ? words.filesOf(listed.length, sizeText(total, locale)) : undefined;
  setText(byId('chosen-total', HTMLParagraphElement), dotted(sum, limits) || undefined);
}

/** @param left paths of what was chosen, and is left out */
function addFiles(added: Iterable<FileToSend>, left: readonly string[] = []): void {
  const all = [...added];
  if (all.length + left.length === 0 || purpose?.fixed !== undefined) return;
  chosenFiles.push(...all.map(sendable));
  const leftOut = left.length === 0 ? undefined : words.leftOut(joinedNames(left));
  complain(leftOut);
  showFiles();
  const changed = all.filter(({ name }) => sendableName(name) !== undefined).length;
  const changedText = changed === 0 ? '' : words.chosenRenamed(changed);
  announce([words.chosen(chosenFiles.length), changedText, leftOut].join(' ').trim());
}

/** A file or folder under a name that can be sent; nothing is read. */
function sendable(file: FileToSend): FileToSend {
  const change = sendableName(file.name);
  if (change === undefined) return file;
  const { name } = change;
  const sent = file instanceof File ? new File([file], name, file) : { ...file, name };
  renamed.set(sent, change);
  return sent;
}

/** Tells what is to open the link. */
function chosenWay(): 'link' | 'password' | 'keys' {
  if (byId('by-link', HTMLInputElement).checked) return 'link';
  return byId('by-password', HTMLInputElement).checked ? 'password' : 'keys';
}

/** Shows the field of the way that is chosen. */
function showWays(): void {
  byId('password-field', HTMLDivElement).hidden = chosenWay() !== 'password';
  byId('keys-field', HTMLDivElement).hidden = chosenWay() !== 'keys';
}

/** Shows the terms in one line, and says so where links end before the chosen time. */
function showTerms(): void {
  const latest = purpose?.latest;
  const chosenMs = Number(byId('expires', HTMLSelectElement).value);
  const ways = { link: words.withLink, password: words.withPassword, keys: words.withKeys };
  const count = Number(byId('opens', HTMLSelectElement).value);
  const line = [words.expiresIn(durationText(chosenMs / 1000, locale)), words.opensCount(count), ways[chosenWay()]];
  byId('terms-line', HTMLSpanElement).textContent = dotted(...line);
  const isCut = latest !== undefined && Date.now() + chosenMs > Date.parse(latest);
  setText(byId('expires-end', HTMLParagraphElement), isCut ? words.guestEnd(dayText(latest, locale)) : undefined);
}

function submit(): void {
  const password = byId('password', HTMLInputElement);
  const keys = byId('keys', HTMLTextAreaElement);
  const way = purpose?.hasTerms === true ? chosenWay() : 'link';
  const note = sendableText(byId('note', HTMLTextAreaElement).value);
  const from = sendableText(byId('from', HTMLInputElement).value).replace(/\s+/g, ' ');
  const isAlone = purpose?.fixed === undefined && chosenFiles.length === 0;
  if (isAlone && note === '') {
    complain(words.chooseFirst);
    return byId('choose', HTMLInputElement).focus();
  }
  const bytes = new TextEncoder().encode(note).length;
  const most = noteBytes[isAlone ? 'alone' : 'beside'];
  if (bytes > most) return complainAt('note', words.noteTooLong(bytes, most));
  if (way === 'password' && password.value === '') return complainAt('password', words.passwordMissing);
  if (way === 'keys' && keys.value.trim() === '') return complainAt('keys', words.keysMissing);
  complain(undefined);
  purpose?.submit({
    files: isAlone ? [messageFile(note)] : chosenFiles,
    terms: {
      expiresInMs: Number(byId('expires', HTMLSelectElement).value),
      opens: Number(byId('opens', HTMLSelectElement).value),
      password: way === 'password' ? password.value : undefined,
      keys: way === 'keys' ? keys.value : undefined,
    },
    words: { note: isAlone ? undefined : note || undefined, from: from || undefined },
  });
}

/** Offers choices, up to the most that is allowed. What was chosen stays, as far as it may. */
function offer(
  id: string,
  all: readonly number[],
  preset: number,
  most: number | undefined,
  text: (value: number) => string,
): void {
  const select = byId(id, HTMLSelectElement);
  const allowed = (value: number): number => Math.min(value, most ?? Infinity);
  const offered = new Set([...all, most ?? preset].map(allowed));
  const chosen = allowed(Number(select.value) || preset);
  const options = [...offered].map(
    (value) => new Option(text(value), String(value), value === allowed(preset), value === chosen),
  );
  select.replaceChildren(...options);
}

function offerTerms(): void {
  const { maxDays, maxOpens } = shareLimits ?? {};
  const mostMs = maxDays === undefined ? undefined : maxDays * dayMs;
  offer('expires', lifetimes, defaults.lifetime, mostMs, (ms) => words.inTime(durationText(ms / 1000, locale)));
  offer('opens', counts, defaults.count, maxOpens, words.times);
  showTerms();
}

/** Starts the form, once. */
export function startCompose(): void {
  offerTerms();
  startPasswordField('compose-error', 'new-password');
  for (const chooser of document.querySelectorAll<HTMLInputElement>('#chooser input')) {
    chooser.disabled = chooser.id !== 'choose' && !('webkitdirectory' in chooser);
    chooser.addEventListener('change', () => {
      addFiles(filesOrFolder(chooser.files ?? []));
      chooser.value = ''; // so that the same file can be chosen again
    });
  }
  startDropZone({
    isOpen: () => !byId('compose', HTMLElement).hidden && purpose?.fixed === undefined && !isOff(),
    take: addFiles,
  });
  for (const id of ['terms', 'note'])
    byId(id, HTMLElement).addEventListener('change', () => {
      complain(undefined);
      showWays();
      showTerms();
    });
  onSubmit('compose-form', submit);
  onClick('compose-back', () => purpose?.back?.());
}
