/** The document of `/files`: what an account has stored, to be sent on and deleted. */
import { dayText, sizeText } from './amounts.ts';
import { askForKey } from './api-key-form.ts';
import { clearCompose, compose, composeAgain, startCompose, type ComposedDraft } from './compose-form.ts';
import { startConfirming } from './confirm-dialog.ts';
import { startSending } from './engine-client.ts';
import { describeSendingFailure } from './failure-words.ts';
import type { StoredView } from './protocol.ts';
import { showLink, startSentLink } from './sent-link.ts';
import { announce, byId, locale, partsOf, setText, show, translate, words } from './states.ts';
import { transfer } from './transfer.ts';

const accountEngine = startSending();
let scopes: readonly string[] = [];
let cursor: string | undefined;
let shared: StoredView | undefined;
let sharedFiles: { name: string; size: number }[] = [];
const confirm = startConfirming('deleting');

/**
 * Part of a blob ID that tells files apart: its first 7 characters say how it was made, and are
 * often the same.
 */
const blobIdStart = 16;
const shownName = ({ name, size, createdAt }: StoredView): string =>
  name ?? words.noName(sizeText(size, locale), dayText(createdAt, locale));

/** Adds the next page of the list. */
async function showPage(): Promise<void> {
  const list = byId('stored-files', HTMLUListElement);
  const more = byId('stored-more', HTMLButtonElement);
  const error = byId('stored-error', HTMLParagraphElement);
  more.disabled = true;
  setText(error, undefined);
  try {
    const page = await accountEngine.call('list', { cursor });
    if (page.files.some(({ sealedName }) => sealedName === 'closed')) byId('names', HTMLElement).hidden = false;
    const rows = page.files.map(row);
    list.append(...rows.map(({ element }) => element));
    cursor = page.cursor;
    more.hidden = cursor === undefined;
    byId('stored-text', HTMLParagraphElement).textContent =
      list.children.length === 0 && cursor === undefined ? words.storedNone : words.storedText;
    if (document.activeElement === document.body) rows[0]?.focus();
  } catch (failure) {
    setText(error, describeSendingFailure(failure, words));
    announce(error.textContent);
  } finally {
    more.disabled = false;
  }
}

/** Lists the files again, with the names that a private key opens. */
async function showNames(): Promise<void> {
  const field = byId('names-key', HTMLInputElement);
  const error = byId('names-error', HTMLParagraphElement);
  const [file] = field.files ?? [];
  if (file === undefined) return;
  setText(error, undefined);
  try {
    await accountEngine.call('useKey', { keys: await file.text() });
    byId('stored-files', HTMLUListElement).replaceChildren();
    cursor = undefined;
    await showPage();
  } catch {
    setText(error, words.errors.key_invalid);
    announce(error.textContent);
  }
}

function row(file: StoredView): { element: HTMLElement; focus(): void } {
  const part = partsOf('stored-file');
  const name = part('bdi', HTMLElement);
  name.textContent = shownName(file);
  name.id = `stored-${file.fileId}`;
  const texts =
    file.name === undefined
      ? [`${file.cid.slice(0, blobIdStart)}…`]
      : [sizeText(file.size, locale), dayText(file.createdAt, locale)];
  if (file.isSealed) texts.push(words.sealedBefore);
  if (file.sealedName === 'foreign') texts.push(words.nameForeign);
  const about = part('.size', HTMLElement);
  about.id = `about-${file.fileId}`;
  about.textContent = texts.join(' · ');
  const element = part('li', HTMLLIElement);
  const sendOn = part('.send-on', HTMLButtonElement);
  const remove = part('.delete', HTMLButtonElement);
  for (const button of [sendOn, remove]) {
    button.id = `${button.classList.item(0) ?? ''}-${file.fileId}`;
    button.setAttribute('aria-labelledby', `${button.id} ${name.id} ${about.id}`);
  }
  // What was sealed before it came here is opened by what its sender kept, which is not here.
  sendOn.hidden = file.isSealed || !scopes.includes('share');
  remove.hidden = !scopes.includes('delete');
  sendOn.addEventListener('click', () => composeShare(file));
  remove.addEventListener('click', () => confirmDeletion(file, element));
  return { element, focus: () => [sendOn, remove].find(({ hidden }) => !hidden)?.focus() };
}

function composeShare(file: StoredView): void {
  shared = file;
  sharedFiles = [{ name: shownName(file), size: file.size }];
  clearCompose();
  compose({
    title: words.sendOnTitle,
    text: words.sendOnText,
    button: words.newLink,
    hasTerms: true,
    fixed: sharedFiles,
    submit: (draft) => void sendDraft('sendOn', draft),
    back: () => show('stored'),
  });
}

function composeChange(): void {
  if (shared === undefined) return;
  compose({
    title: words.changeTitle,
    text: words.changeText,
    button: words.newLink,
    hasTerms: true,
    fixed: sharedFiles,
    submit: (draft) => void sendDraft('change', draft),
    back: () => show('sent'),
  });
}

async function sendDraft(how: 'sendOn' | 'change', { terms, words: said }: ComposedDraft): Promise<void> {
  const fileId = shared?.fileId ?? '';
  try {
    const view = await transfer((options) =>
      how === 'sendOn'
        ? accountEngine.call('sendOn', { fileId, terms, words: said }, options)
        : accountEngine.call('change', { terms, words: said }, options),
    );
    showLink(view, sharedFiles);
  } catch (error) {
    composeAgain(describeSendingFailure(error, words));
  }
}

function confirmDeletion(file: StoredView, element: HTMLElement): void {
  const text = file.isSealed ? words.deletingSealedText : words.deletingText;
  byId('deleting-text', HTMLParagraphElement).textContent = text;
  confirm(shownName(file), () => void remove(file, element));
}

async function remove(file: StoredView, element: HTMLElement): Promise<void> {
  const error = byId('stored-error', HTMLParagraphElement);
  setText(error, undefined);
  try {
    const { isDestroyed } = await accountEngine.call('remove', { fileId: file.fileId });
    element.remove();
    byId('stored-title', HTMLHeadingElement).focus();
    const text = words.deleted(shownName(file));
    announce(isDestroyed ? `${text} ${words.keyDestroyed}` : text);
    if (byId('stored-files', HTMLUListElement).children.length === 0) await showPage();
  } catch (failure) {
    setText(error, describeSendingFailure(failure, words));
    announce(error.textContent);
  }
}

translate();
startCompose();
startSentLink(accountEngine, { change: composeChange, more: { label: words.backToFiles, go: () => show('stored') } });
byId('names-key', HTMLInputElement).addEventListener('change', () => void showNames());
byId('stored-more', HTMLButtonElement).addEventListener('click', () => void showPage());
askForKey({
  signIn: (o) => accountEngine.call('signIn', o),
  text: words.signingFiles,
  scopes: ['read'],
  go(granted) {
    scopes = granted;
    show('stored');
    void showPage();
  },
});
