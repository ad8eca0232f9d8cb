/** The state that lists the links which an invitation has made, to be taken back. */
import { dayText } from './amounts.ts';
import { attempt } from './attempt.ts';
import { confirmFirst } from './confirm-dialog.ts';
import { isEngineError, type Engine } from './engine-client.ts';
import { describeSendingFailure, isOver } from './failure-words.ts';
import { namesText } from './kept/change-dialog.ts';
import { keptLinks } from './kept/kept-links.ts';
import type { MadeLinkView, Sending } from './protocol.ts';
import { announce, byId, dotted, focusRow, hasFocusOf, locale, onClick, partsOf, show, words } from './states.ts';

type Sender = Engine<Sending>;

const madeLinkList = byId('made-links', HTMLUListElement);
const more = byId('links-more', HTMLButtonElement);
const taking = { title: words.takingTitle, text: words.takingText, yes: words.takeBack };
/** Names of files that this browser keeps, by the links that lead to them. */
let keptNames: ReadonlyMap<string, string> = new Map();
let cursor: string | undefined;
let leave: (() => void) | undefined;

function aboutText({ shareId, files, createdAt }: MadeLinkView): string {
  const made = dayText(createdAt, locale);
  const names = keptNames.get(shareId);
  return names === undefined ? words.linkAbout(files, made) : `${names}, ${made}`;
}

function stateText({ state, opened, opens, expiresAt, password }: MadeLinkView): string {
  const over = { used_up: words.linkUsedUp, expired: words.linkExpired, revoked: words.takenTitle };
  const ending = state === 'active' ? words.linkUntil(dayText(expiresAt, locale)) : over[state];
  return dotted(words.linkOpened(opened, opens), ending, password ? words.linkPassword : undefined);
}

function madeLinkRow(engine: Sender, link: MadeLinkView): HTMLElement {
  const part = partsOf('made-link');
  const element = part('li', HTMLLIElement);
  const about = part('.name', HTMLParagraphElement);
  about.textContent = aboutText(link);
  about.id = `made-${link.shareId}`;
  part('.size', HTMLElement).textContent = stateText(link);
  const take = part('.take', HTMLButtonElement);
  take.id = `take-${link.shareId}`;
  take.setAttribute('aria-labelledby', `${take.id} ${about.id}`);
  const taken = () => void takeBackMade(engine, link, element);
  take.addEventListener('click', () => confirmFirst(taking, aboutText(link), taken));
  return element;
}

/** Tells why something fails; what is there instead says that the invitation is over. */
function linksFailureText(failure: unknown): string | undefined {
  if (!isOver(failure)) return describeSendingFailure(failure, words);
  leave?.();
  return undefined;
}

function takeBackMade(engine: Sender, link: MadeLinkView, element: HTMLElement): Promise<void> {
  const work = async (): Promise<void> => {
    await engine.call('takeBackLink', { shareId: link.shareId }).catch((failure: unknown) => {
      // The list is of this invitation: what it does not know any more was taken back elsewhere.
      if (!isEngineError(failure, 'not_found')) throw failure;
    });
    const index = [...madeLinkList.children].indexOf(element);
    element.remove();
    if (madeLinkList.children.length === 0 && cursor !== undefined) await showPage(engine);
    showText();
    focusRow(madeLinkList, index, byId('links-title', HTMLHeadingElement));
    announce(words.linkTaken(aboutText(link)));
  };
  return attempt('links-error', work, { textOf: linksFailureText });
}

function showText(): void {
  const isEmpty = madeLinkList.children.length === 0 && cursor === undefined;
  byId('links-text', HTMLParagraphElement).textContent = isEmpty ? words.linksNone : words.linksText;
}

async function showPage(engine: Sender): Promise<void> {
  const isAsked = document.activeElement === more;
  const work = async (): Promise<void> => {
    const page = await engine.call('links', { cursor });
    const found = await keptLinks().catch(() => []); // without names, as in another browser
    keptNames = new Map(found.map((link) => [link.shareId, namesText(link)]));
    // A link that was taken back elsewhere moves others to this page.
    const known = new Set([...madeLinkList.querySelectorAll('button')].map(({ id }) => id));
    const added = page.links.filter(({ shareId }) => !known.has(`take-${shareId}`));
    const before = madeLinkList.children.length;
    madeLinkList.append(...added.map((link) => madeLinkRow(engine, link)));
    ({ cursor } = page);
    more.hidden = cursor === undefined;
    showText();
    if (isAsked && hasFocusOf(more)) focusRow(madeLinkList, before, byId('links-title', HTMLHeadingElement));
  };
  const textOf = (failure: unknown): string | undefined => {
    more.hidden = false;
    byId('links-text', HTMLParagraphElement).textContent = '';
    return linksFailureText(failure);
  };
  await attempt('links-error', work, { textOf, button: more });
}

/** Shows the state, with what there is now. */
export function showMadeLinks(engine: Sender): void {
  madeLinkList.replaceChildren();
  cursor = undefined;
  byId('links-text', HTMLParagraphElement).textContent = words.busy;
  show('links');
  void showPage(engine);
}

/** Starts the buttons of the state, once. @param back leaves it */
export function startMadeLinks(engine: Sender, back: () => void): void {
  more.addEventListener('click', () => void showPage(engine));
  leave = back;
  onClick('links-back', back);
}
