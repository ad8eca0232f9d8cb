/**
 * The document of `/open`, `/s` and `/b`: it reads a link from the address, or takes a link, a blob
 * ID or a container file, and shows what became of it. Loading it uses nothing up: a share is
 * opened by a click.
 */
import { dayText } from './amounts.ts';
import { EngineError, isEngineError, startReceiving } from './engine-client.ts';
import { describeFailure } from './failure-words.ts';
import { forgetOpening, keepOpening, keptOpening } from './kept-opening.ts';
import { showOpened } from './receiving/opened-files.ts';
import { startChosenName } from './choosing/chosen-name.ts';
import { startDropZone } from './choosing/drop-zone.ts';
import { startPasswordField } from './password-field.ts';
import { removeLeftBehind } from './kept/left-behind.ts';
import { elsewhere, showProblem, type Problem } from './problem-section.ts';
import type { Credentials, FileToSend, Found } from './protocol.ts';
import { announce, byId, onSubmit, hideAccountPages, locale, root, setText, show, translate, words } from './states.ts';
import { holdOpen, startOtherLinks } from './stay-open.ts';

const receivingEngine = startReceiving();

let asked: AskedCredentials | undefined;
/** The link that was looked at last, and what its share is opened with. */
let link: { text: string; opening: string } | undefined;
/** Lets the page be closed, which would lose the files of a link that is used up. */
let releasePage: (() => void) | undefined;

/** Maps an error to a problem section. @param again tries once more */
function linkProblem(error: unknown, again: () => void): Problem {
  if (isEngineError(error, 'link_invalid'))
    return error.reason === 'incomplete'
      ? { title: words.incompleteTitle, text: words.incompleteText }
      : { title: words.notALinkTitle, text: words.notALinkText };
  if (isEngineError(error, 'not_found', 'gone')) return { title: words.goneTitle, text: words.goneText };
  return { title: words.problemTitle, text: describeFailure(error, words).text, retry: again };
}

async function findLink(look: () => Promise<Found>): Promise<void> {
  setUsedUp(false);
  show('wait');
  try {
    showFound(await look());
  } catch (error) {
    showProblem(linkProblem(error, () => void findLink(look)));
  }
}

function findText(text: string): void {
  const { opening } = keptOpening(text) ?? { opening: crypto.randomUUID() };
  link = { text, opening };
  void findLink(() => receivingEngine.call('find', { text, root, opening }));
}

/** Tells whether this tab has opened the share that was found, and can do so again. */
function isOpenedHere(found: Found): boolean {
  const ends = found.kind === 'share' && (found.state === 'active' || found.state === 'used_up');
  return ends && link !== undefined && keptOpening(link.text) !== undefined;
}

function showFound(found: Found): void {
  if (found.kind === 'inbox' || found.kind === 'invitation') {
    const text = found.kind === 'inbox' ? words.inboxText : words.invitationText;
    const go = { label: words.sendFiles, address: found.address };
    return showProblem({ title: words.inboxTitle, text, go });
  }
  if (found.kind === 'elsewhere') return showProblem(elsewhere(found));
  if (found.kind === 'share' && found.state !== 'active' && !isOpenedHere(found))
    return showProblem(
      {
        used_up: { title: words.usedUpTitle, text: words.usedUpText },
        expired: { title: words.expiredTitle, text: words.expiredText },
        revoked: { title: words.revokedTitle, text: words.revokedText },
      }[found.state],
    );
  showAsked(found);
}

type AskedCredentials = Extract<Found, { kind: 'share' | 'blob' | 'container' }>;

function showAsked(found: AskedCredentials): void {
  asked = found;
  const { title, text } = {
    share: { title: words.askedTitle, text: '' },
    blob: { title: words.askedTitleBlob, text: words.blobText },
    container: { title: words.askedTitleContainer, text: words.containerText },
  }[found.kind];
  byId('asked-title', HTMLHeadingElement).textContent = title;
  byId('asked-text', HTMLParagraphElement).textContent = found.kind === 'share' ? opensText(found) : text;
  byId('exposed', HTMLParagraphElement).hidden = !('exposed' in found && found.exposed);
  byId('password-field', HTMLDivElement).hidden = found.needs !== 'password';
  byId('password-hint', HTMLParagraphElement).textContent =
    found.kind === 'share' ? words.passwordHint : words.passwordHintContainer;
  byId('password', HTMLInputElement).required = found.needs === 'password';
  byId('key-field', HTMLDivElement).hidden = found.needs !== 'keys';
  byId('key', HTMLInputElement).required = found.needs === 'keys';
  setText(byId('open-error', HTMLParagraphElement), undefined);
  byId('open', HTMLFormElement).reset();
  show('asked');
}

/** Shows that the link is used up, and has the browser ask before the page is closed. */
function setUsedUp(isUsedUp: boolean): void {
  byId('used-up', HTMLParagraphElement).hidden = !isUsedUp;
  const askedText = byId('asked-text', HTMLParagraphElement);
  askedText.classList.toggle('warning', isUsedUp);
  if (isUsedUp) askedText.textContent = words.usedUpAsked;
  if (isUsedUp) return void (releasePage ??= holdOpen());
  releasePage?.();
  releasePage = undefined;
}

function opensText({ opensLeft, expiresAt }: Extract<Found, { kind: 'share' }>): string {
  if (asked !== undefined && isOpenedHere(asked)) return words.opensAgain;
  const until = dayText(expiresAt, locale);
  return opensLeft === 1 ? words.opensOnce(until) : words.opensTimes(opensLeft, until);
}

async function openLink(): Promise<void> {
  const button = byId('open-button', HTMLButtonElement);
  if (button.disabled) return;
  const errorText = byId('open-error', HTMLParagraphElement);
  const password = byId('password', HTMLInputElement);
  const keyFile = byId('key', HTMLInputElement);
  setText(errorText, undefined);
  password.removeAttribute('aria-invalid');
  button.disabled = true;
  button.textContent = words.opening;
  announce(words.opening);
  // What opens it may be wrong, or the page may be closed now: the service has counted it.
  const opening = asked?.kind === 'share' ? holdOpen() : undefined;
  if (opening !== undefined && link !== undefined) keepOpening(link.text, link.opening);
  try {
    const opened = await receivingEngine.call('open', await credentialsIn(password, keyFile));
    password.value = '';
    await noteOpening();
    showOpened(receivingEngine, opened, noteSaved);
  } catch (error) {
    await noteOpening();
    if (error instanceof EngineError && error.reason === 'needs_key') return askForPrivateKey();
    const { text, isCredential } = describeFailure(error, words);
    // It was opened elsewhere, or has ended, since this page was loaded.
    if (asked?.kind === 'share' && isEngineError(error, 'gone', 'not_found')) {
      forgetOpening();
      return void findLink(() => receivingEngine.call('findAgain', undefined));
    }
    if (!isCredential) return showProblem(linkProblem(error, () => show('asked')));
    setText(errorText, text);
    announce(text);
    const input = keyFile.required ? keyFile : password;
    input.setAttribute('aria-invalid', 'true');
    input.focus();
    password.select();
  } finally {
    opening?.();
    button.disabled = false;
    button.textContent = words.open;
  }
}

/** Asks how often the share still opens, which a wrong password uses up as well. */
async function noteOpening(): Promise<void> {
  const opensLeft = await receivingEngine.call('opensLeft', undefined).catch(() => undefined);
  setUsedUp(opensLeft === 0);
  if (asked?.kind !== 'share' || !opensLeft) return;
  asked = { ...asked, opensLeft };
  byId('asked-text', HTMLParagraphElement).textContent = opensText(asked);
}

/** Lets the page be closed: all of its files are saved. */
function noteSaved(): void {
  forgetOpening();
  releasePage?.();
  releasePage = undefined;
}

async function credentialsIn(password: HTMLInputElement, keyFile: HTMLInputElement): Promise<Credentials> {
  const keys = keyFile.required ? await keyFile.files?.[0]?.text() : undefined;
  return { password: password.required ? password.value : undefined, keys };
}

/** A share may be sealed to keys, too, which only its record says. */
function askForPrivateKey(): void {
  byId('key-field', HTMLDivElement).hidden = false;
  const keyFile = byId('key', HTMLInputElement);
  keyFile.required = true;
  keyFile.focus();
  announce(words.keyFileHint);
}

/** Reads the link in the address, and takes it out of the bar, which does not need the key. */
function readAddress(): void {
  const text = location.href;
  const page = text.slice(root.length);
  if (page.startsWith('open')) {
    // What is opened here comes without a network, and may need more than this.
    void receivingEngine.call('prepare', undefined).catch(() => undefined);
    return show('home');
  }
  hideAccountPages();
  history.replaceState(null, '', page.replace(/(?:%23|[#?])[^]*$/, ''));
  if (!/%23|#./.test(page)) {
    const kept = page.startsWith('s') ? keptOpening() : undefined;
    if (kept !== undefined) return findText(kept.link);
    const text = page.startsWith('s') ? `${words.noKeyText} ${words.noKeyCounts}` : words.noKeyText;
    return showProblem({ title: words.noKeyTitle, text });
  }
  findText(text);
}

translate();
void removeLeftBehind();
onSubmit('find', () => {
  const text = byId('link', HTMLInputElement).value;
  byId('find', HTMLFormElement).reset();
  findText(text);
});
const chooser = byId('container', HTMLInputElement);
const findFile = (file: FileToSend | undefined): void => {
  if (file instanceof File) void findLink(() => receivingEngine.call('findFile', { file }));
};
chooser.addEventListener('change', () => findFile(chooser.files?.[0]));
startDropZone({ isOpen: () => !byId('home', HTMLElement).hidden, take: ([file]) => findFile(file) });
onSubmit('open', openLink);
startPasswordField('open-error', 'current-password');
startChosenName('key');
const startOver = byId('start-over', HTMLButtonElement);
startOver.hidden = false;
startOver.addEventListener('click', () => {
  forgetOpening();
  setUsedUp(false);
  show('home');
});
startOtherLinks();
readAddress();
