/** The document of `/files`: what an account has stored, to be sent on and deleted. */
import { clockText, dayHeading, dayText, sizeText } from './amounts.ts';
import { askForKey, failureTextOrForm, type KeyRequest } from './api-key-form.ts';
import { startChosenName } from './choosing/chosen-name.ts';
import { clearCompose, compose, composeAgain, readLimits, startCompose, type ComposedDraft } from './compose-form.ts';
import { attempt } from './attempt.ts';
import { confirmFirst } from './confirm-dialog.ts';
import { startSending } from './engine-client.ts';
import { removeLeftBehind } from './kept/left-behind.ts';
import type { StoredView } from './protocol.ts';
import { showLink, startSentLink } from './sent-link.ts';
import { announce, byId, dotted, locale, onClick, partsOf, show, translate, words } from './states.ts';
import { transfer } from './transfer.ts';

const accountEngine = startSending();
let scopes: readonly string[] = [];
let fileCursor: string | undefined;
const storedFileList = byId('stored-files', HTMLDivElement);
const more = onClick('stored-more', showFilePage);

/** Characters of a blob ID that tell files apart: the first 7 are often the same. */
const blobIdStart = 16;
const shownName = ({ name, size, createdAt }: StoredView): string =>
  name ?? `${sizeText(size, locale)}, ${dayText(createdAt, locale)}`;

/** Asks for a key, also where the one before has ended: then the list begins again. */
const keyRequest: KeyRequest = {
  engine: accountEngine,
  text: words.signingFiles,
  scopes: ['read'],
  go(granted) {
    scopes = granted;
    show('stored');
    void showFirstPage();
  },
};
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

function showFirstPage(): Promise<void> {
  storedFileList.replaceChildren();
  fileCursor = undefined;
  return showFilePage();
}

/** Adds the next page of the list. */
async function showFilePage(): Promise<void> {
  const work = async (): Promise<void> => {
    const page = await accountEngine.call('list', { cursor: fileCursor });
    if (page.files.some(({ sealedName }) => sealedName === 'closed')) byId('names', HTMLElement).hidden = false;
    const rows = page.files.map((file) => ({ file, ...storedFileRow(file) }));
    for (const { file, element } of rows) addRow(file, element);
    fileCursor = page.cursor;
    more.hidden = fileCursor === undefined;
    const isEmpty = storedFileList.children.length === 0 && fileCursor === undefined;
    byId('stored-text', HTMLParagraphElement).textContent = isEmpty ? words.storedNone : words.newestFirst;
    byId('stored-none', HTMLParagraphElement).hidden = !isEmpty;
    if (document.activeElement === document.body) rows[0]?.focus();
  };
  await attempt('stored-error', work, { button: more, textOf });
}

/** Lists the files again, with the names that a private key opens. */
async function showNames(): Promise<void> {
  const [file] = byId('names-key', HTMLInputElement).files ?? [];
  if (file === undefined) return;
  const work = async (): Promise<void> => {
    await accountEngine.call('useKey', { keys: await file.text() });
    await showFirstPage();
  };
  await attempt('names-error', work, { textOf: () => words.errors.key_invalid });
}

function storedFileRow(file: StoredView): { element: HTMLElement; focus(): void } {
  const part = partsOf('stored-file');
  const name = part('bdi', HTMLElement);
  const time = clockText(new Date(file.createdAt), locale);
  name.textContent = file.name ?? `${sizeText(file.size, locale)}, ${time}`;
  name.id = `stored-${file.fileId}`;
  const texts = file.name === undefined ? [`${file.cid.slice(0, blobIdStart)}…`] : [sizeText(file.size, locale), time];
  if (file.isPlain) texts.push(words.storedAsIs);
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
  remove.addEventListener('click', () => confirmDeletion(file, element));
  return { element, focus: () => [sendOn, remove].find(({ hidden }) => !hidden)?.focus() };
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
  }
}

function confirmDeletion(file: StoredView, element: HTMLElement): void {
  const text = file.isPlain ? words.deletingPlainText : words.deletingText;
  const question = { title: words.deletingTitle, text, yes: words.delete };
  confirmFirst(question, shownName(file), () => void remove(file, element));
}

async function remove(file: StoredView, element: HTMLElement): Promise<void> {
  const work = async (): Promise<void> => {
    const { isDestroyed } = await accountEngine.call('remove', { fileId: file.fileId });
    const day = element.closest('section section');
    element.remove();
    if (day?.querySelector('li') === null) day.remove();
    byId('stored-title', HTMLHeadingElement).focus();
    const text = words.deleted(shownName(file));
    announce(isDestroyed ? `${text} ${words.keyDestroyed}` : text);
    if (storedFileList.children.length === 0) await showFilePage();
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
