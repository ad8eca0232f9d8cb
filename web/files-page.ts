/** The document of `/files`: what an account has stored, to be sent on and deleted. */
import { clockText, dayHeading, dayText, sizeText } from './amounts.ts';
import { askForKey, failureTextOrForm, type KeyRequest } from './api-key-form.ts';
import { startChosenName } from './choosing/chosen-name.ts';
import { clearCompose, compose, composeAgain, readLimits, startCompose, type ComposedDraft } from './compose-form.ts';
import { attempt } from './attempt.ts';
import { confirmFirst } from './confirm-dialog.ts';
import { isEngineError, startSending } from './engine-client.ts';
import { removeLeftBehind } from './kept/left-behind.ts';
import type { StoredView } from './protocol.ts';
import { showLink, startSentLink } from './sent-link.ts';
import {
  announce,
  byId,
  dotted,
  focusRow,
  hasFocusOf,
  locale,
  onClick,
  partsOf,
  show,
  translate,
  words,
} from './states.ts';
import { transfer } from './transfer.ts';

const accountEngine = startSending();
let scopes: readonly string[] = [];
let fileCursor: string | undefined;
const storedFileList = byId('stored-files', HTMLDivElement);
const more = onClick('stored-more', () => listFiles({ again: fileCursor === undefined }));

/** Characters of a blob ID that tell files apart: the first 7 are often the same. */
const blobIdStart = 16;
/** What a file without a name goes by, together with a time. */
const unnamed = ({ isDelivery, size }: StoredView): string =>
  isDelivery ? words.storedDelivery : sizeText(size, locale);
const shownName = (file: StoredView): string => file.name ?? `${unnamed(file)}, ${dayText(file.createdAt, locale)}`;

/** Asks for a key, also where the one before has ended: then the list begins again. */
const keyRequest: KeyRequest = {
  engine: accountEngine,
  text: words.signingFiles,
  scopes: ['read'],
  go(granted) {
    scopes = granted;
    storedFileList.replaceChildren();
    byId('names', HTMLElement).hidden = true;
    show('stored');
    void listFiles({ again: true });
  },
};
/** Recognizes that a file of the list is not stored any more. */
const isFileGone = (failure: unknown): boolean => isEngineError(failure, 'not_found', 'gone');
const textOf = (failure: unknown): string | undefined => failureTextOrForm(failure, keyRequest);

/** Adds a file to the list, below its day. */
function addRow(file: StoredView, element: HTMLElement): void {
  const heading = dayHeading(file.createdAt, locale);
  const before = storedFileList.lastElementChild;
  if (before !== null && before.querySelector('h2')?.textContent === heading)
    return before.querySelector('ul')?.append(element);
  const part = partsOf('stored-day');
  part('h2', HTMLHeadingElement).textContent = heading;
  part('ul', HTMLUListElement).append(element);
  storedFileList.append(part('section', HTMLElement));
}

const storedRows = (): HTMLElement[] => [...storedFileList.querySelectorAll('li')];

let latestListing = Promise.resolve();
/** Adds the next page to the list, or lists again what is stored now, as far as the list went. */
function listFiles({ again = false } = {}): Promise<void> {
  // One after the other: a page that comes late is that of an older list.
  latestListing = latestListing.then(() => listNow(again));
  return latestListing;
}

async function listNow(again: boolean): Promise<void> {
  const work = async (): Promise<void> => {
    const wanted = again ? storedRows().length : 0;
    const files: StoredView[] = [];
    let cursor = again ? undefined : fileCursor;
    do {
      const page = await accountEngine.call('list', { cursor });
      files.push(...page.files);
      ({ cursor } = page);
    } while (cursor !== undefined && files.length < wanted);
    fileCursor = cursor;
    if (again) storedFileList.replaceChildren();
    const before = storedRows().length;
    if (files.some(({ sealedName }) => sealedName === 'closed')) byId('names', HTMLElement).hidden = false;
    for (const file of files) addRow(file, storedFileRow(file));
    more.hidden = fileCursor === undefined;
    const isEmpty = storedFileList.children.length === 0 && fileCursor === undefined;
    byId('stored-text', HTMLParagraphElement).textContent = isEmpty ? words.storedNone : words.newestFirst;
    byId('stored-none', HTMLParagraphElement).hidden = !isEmpty;
    if (isAsked && hasFocusOf(more)) focusRow(storedFileList, before, more);
  };
  const retry = (failure: unknown): string | undefined => {
    more.hidden = false;
    return textOf(failure);
  };
  const isAsked = document.activeElement === more;
  await attempt('stored-error', work, { button: more, textOf: retry });
}

/** Lists the files again, with the names that a private key opens. */
async function showNames(): Promise<void> {
  const [file] = byId('names-key', HTMLInputElement).files ?? [];
  if (file === undefined) return;
  const work = async (): Promise<void> => {
    await accountEngine.call('useKey', { keys: await file.text() });
    await listFiles({ again: true });
  };
  await attempt('names-error', work, { textOf: () => words.errors.key_invalid });
}

function storedFileRow(file: StoredView): HTMLElement {
  const part = partsOf('stored-file');
  const name = part('bdi', HTMLElement);
  const time = clockText(new Date(file.createdAt), locale);
  name.textContent = file.name ?? `${unnamed(file)}, ${time}`;
  name.id = `stored-${file.fileId}`;
  const texts = file.name === undefined ? [`${file.cid.slice(0, blobIdStart)}…`] : [sizeText(file.size, locale), time];
  if (file.isPlain && !file.isDelivery) texts.push(words.storedAsIs);
  if (file.sealedName === 'foreign') texts.push(words.nameForeign);
  const about = part('.size', HTMLElement);
  about.id = `about-${file.fileId}`;
  about.textContent = dotted(...texts);
  const element = part('li', HTMLLIElement);
  const sendOn = part('.send-on', HTMLButtonElement);
  const remove = part('.delete', HTMLButtonElement);
  for (const button of [sendOn, remove]) {
    button.id = `${button.classList.item(0) ?? ''}-${file.fileId}`;
    button.setAttribute('aria-labelledby', `${button.id} ${name.id} ${about.id}`);
  }
  // What was stored as it came is public, or opens with what its sender has kept.
  sendOn.hidden = file.isPlain || !scopes.includes('share');
  remove.hidden = !scopes.includes('delete');
  sendOn.addEventListener('click', () => composeShare(file));
  remove.addEventListener('click', () => confirmDeletion(file));
  return element;
}

const asSent = (file: StoredView) => [{ name: shownName(file), size: file.size }];

function composeShare(file: StoredView): void {
  clearCompose();
  compose({
    title: words.sendOnTitle,
    text: words.sendOnText,
    button: words.newLink,
    hasTerms: true,
    fixed: asSent(file),
    submit: (draft) => void sendOn(file, draft),
    back: () => show('stored'),
  });
}

async function sendOn(file: StoredView, { terms, words: said }: ComposedDraft): Promise<void> {
  const asked = { fileId: file.fileId, terms, words: said };
  try {
    showLink(await transfer((options) => accountEngine.call('sendOn', asked, options)), asSent(file));
  } catch (error) {
    const text = textOf(error);
    if (text !== undefined) composeAgain(text);
    if (isFileGone(error)) void listFiles({ again: true });
  }
}

function confirmDeletion(file: StoredView): void {
  const text = file.isPlain ? words.deletingPlainText : words.deletingText;
  const question = file.isDelivery
    ? { title: words.deletingDeliveryTitle, text: words.deletingDeliveryText, yes: words.delete }
    : { title: words.deletingTitle, text, yes: words.delete };
  confirmFirst(question, shownName(file), () => void remove(file));
}

async function remove(file: StoredView): Promise<void> {
  const work = async (): Promise<void> => {
    const removed = await accountEngine.call('remove', { fileId: file.fileId }).catch((failure: unknown) => {
      if (!isFileGone(failure)) throw failure; // otherwise it was deleted elsewhere
      return { isDestroyed: false };
    });
    // The list may have been read again since the question.
    const index = storedRows().findIndex((row) => row.querySelector(`#stored-${file.fileId}`) !== null);
    const element = storedRows()[index];
    const day = element?.closest('section section');
    element?.remove();
    if (day?.querySelector('li') === null) day.remove();
    if (file.isDelivery) await listFiles({ again: true });
    else if (storedFileList.children.length === 0) await listFiles();
    focusRow(storedFileList, index, byId('stored-title', HTMLHeadingElement));
    const text = words.deleted(shownName(file));
    announce(removed.isDestroyed ? `${text} ${words.keyDestroyed}` : text);
  };
  await attempt('stored-error', work, { textOf });
}

translate();
void removeLeftBehind();
startCompose();
void readLimits().catch(() => undefined); // then a refusal tells them
startSentLink(accountEngine, { label: words.backToFiles, go: () => show('stored') });
startChosenName('names-key');
byId('names-key', HTMLInputElement).addEventListener('change', () => void showNames());
askForKey(keyRequest);
