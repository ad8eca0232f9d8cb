/** The document of `/links`: the links that this browser keeps, as the service sees them now. */
import type { ShareStatus } from '../../shared/api/shares-shapes.ts';
import { parseRetryAfter, sleep } from '../../shared/streams/timing.ts';
import { clockText, dayText, sizeText } from '../amounts.ts';
import { attempt } from '../attempt.ts';
import { confirmFirst } from '../confirm-dialog.ts';
import { EngineError, isEngineError, startSending, type CallOptions, type Engine } from '../engine-client.ts';
import { forgetOpening } from '../kept-opening.ts';
import type { Sending } from '../protocol.ts';
import {
  announce,
  byId,
  focusRow,
  joinedNames,
  onSubmit,
  locale,
  partsOf,
  root,
  setText,
  show,
  translate,
  words,
} from '../states.ts';
import { changeFailureText, namesText, startChanging, type EnteredTerms } from './change-dialog.ts';
import {
  forgetEverything,
  forgetLink,
  keepKey,
  keptKey,
  keptLinks,
  keptSigners,
  noteOpens,
  type KeptLink,
} from './kept-links.ts';
import { removeLeftBehind } from './left-behind.ts';

/**
 * State of a link as it was seen. `unknown`: the service does not have it; `unasked`: it gave no
 * answer that says anything.
 */
type Seen = Pick<ShareStatus, 'state' | 'opensLeft' | 'expiresAt'> | { state: 'unknown' | 'unasked' };

const keyDialog = byId('key', HTMLDialogElement);
const keptLinkList = byId('kept-links', HTMLUListElement);
const enterChange = startChanging();
const taking = { title: words.takingTitle, text: words.takingKeptText, yes: words.takeBack };
const forgetting = { title: words.forgettingTitle, text: words.forgettingText, yes: words.forgetAll, no: words.back };
const states: readonly string[] = ['active', 'used_up', 'expired', 'revoked'];

/** Refusals of a key, after which another one may do it. */
const refusals = ['unauthorized', 'account_disabled', 'insufficient_scope', 'link_invalid'] as const;
/** A link that opens, and that the key does not have. */
class OtherKey extends Error {}

/** After which an address may ask again, where a refusal does not say. */
const minuteSeconds = 60;

/** Submitting the form of the dialog that asks for a key. */
let enterKey: (() => void) | undefined;
/** Ends the check of the key that was entered. */
let keyCheck: AbortController | undefined;

let linksEngine: Engine<Sending> | undefined;
let isSignedIn = false;

/** Asks the service what everybody may know of a link, which uses nothing up. */
async function askShareStatus(shareId: string): Promise<Seen> {
  try {
    const response = await fetch(`v1/shares/${shareId}`, { cache: 'no-store' });
    if (response.status === 429) {
      await sleep((parseRetryAfter(response.headers.get('Retry-After')) || minuteSeconds) * 1000);
      return await askShareStatus(shareId);
    }
    const body = (await response.json()) as { state?: string; code?: string; opensLeft: number; expiresAt: string };
    if (response.status === 404 && body.code === 'not_found') return { state: 'unknown' };
    const isStatus = response.ok && states.includes(body.state ?? '') && Number.isInteger(body.opensLeft);
    return isStatus ? (body as Seen) : { state: 'unasked' };
  } catch {
    return { state: 'unasked' };
  }
}

function stateText(seen: Seen): string {
  if (seen.state === 'unasked') return words.keptUnasked;
  const over = {
    used_up: `${words.usedUpTitle}.`,
    expired: `${words.expiredTitle}.`,
    revoked: `${words.revokedTitle}.`,
    unknown: words.keptUnknown,
  };
  const text =
    seen.state === 'active' ? words.keptActive(seen.opensLeft, dayText(seen.expiresAt, locale)) : over[seen.state];
  return `${text} ${words.seenAt(clockText(new Date(), locale))}`;
}

/** `opens`: how often the link opens in all, as the service said last. */
type KeptLinkRow = { element: HTMLElement; opens: number; showSeen(seen: Seen): void };

function keptLinkRow(link: KeptLink): KeptLinkRow {
  const part = partsOf('kept-link');
  const element = part('li', HTMLLIElement);
  const name = part('bdi', HTMLElement);
  name.textContent = namesText(link);
  name.id = `kept-${link.shareId}`;
  const bytes = link.files.reduce((sum, { size }) => sum + size, 0);
  part('.size', HTMLElement).textContent = [sizeText(bytes, locale), dayText(link.createdAt, locale)].join(' · ');
  const status = part('.status', HTMLElement);
  status.textContent = words.busy;
  const buttons = ['change', 'take', 'forget'].map((kind) => {
    const button = part(`.${kind}`, HTMLButtonElement);
    button.id = `${kind}-${link.shareId}`;
    button.setAttribute('aria-labelledby', `${button.id} ${name.id}`);
    button.hidden = true;
    return button;
  });
  const [changing, take, forget] = buttons;
  const made: KeptLinkRow = {
    element,
    opens: link.opens,
    showSeen(seen) {
      const focused = buttons.find((button) => button === document.activeElement);
      status.textContent = stateText(seen);
      for (const button of buttons) button.hidden = (button === forget) === (seen.state === 'active');
      if (seen.state === 'unasked') for (const button of buttons) button.hidden = true;
      const index = [...keptLinkList.children].indexOf(element);
      if (focused?.hidden === true) focusRow(keptLinkList, index, byId('kept-title', HTMLHeadingElement));
    },
  };
  const submit = (terms: EnteredTerms) =>
    void withKey((sender) => looking(change(sender, link, terms, made), link, made));
  changing?.addEventListener('click', () => enterChange({ ...link, opens: made.opens }, submit));
  const confirmed = () => void withKey((sender) => looking(takeBackKept(sender, link, made), link, made));
  take?.addEventListener('click', () => confirmFirst(taking, namesText(link), confirmed));
  forget?.addEventListener('click', () => void tried(() => forgetOne(link, element)));
  return made;
}

const tried = (work: () => Promise<void> | void): Promise<void> =>
  attempt('kept-error', work, { textOf: changeFailureText });

/**
 * Waits for what a key does to a link. One that the key does not have is over, or is one of another
 * key.
 */
async function looking(work: Promise<void>, { shareId }: KeptLink, { showSeen }: KeptLinkRow): Promise<void> {
  try {
    await work;
  } catch (failure) {
    if (!isEngineError(failure, 'not_found', 'gone')) throw failure;
    const seen = await askShareStatus(shareId);
    showSeen(seen);
    if (seen.state === 'active') throw new OtherKey();
    announce(stateText(seen));
  }
}

async function takeBackKept(sender: Engine<Sending>, link: KeptLink, { showSeen }: KeptLinkRow): Promise<void> {
  await sender.call('takeBackLink', { shareId: link.shareId });
  showSeen(await askShareStatus(link.shareId));
  announce(words.linkTaken(namesText(link)));
}

async function forgetOne({ shareId }: KeptLink, element: HTMLElement): Promise<void> {
  await forgetLink(shareId);
  const index = [...keptLinkList.children].indexOf(element);
  element.remove();
  await showText();
  focusRow(keptLinkList, index, byId('kept-title', HTMLHeadingElement));
}

async function change(sender: Engine<Sending>, link: KeptLink, terms: EnteredTerms, row: KeptLinkRow): Promise<void> {
  const changed = await sender.call('changeLink', { shareId: link.shareId, ...terms });
  row.showSeen(changed);
  row.opens = changed.opens;
  await noteOpens(link.shareId, changed.opens);
  announce(words.linkChanged(namesText(link)));
}

/** Signs in with an API key, or with the link of an invitation. */
async function signIn(sender: Engine<Sending>, text: string, options?: CallOptions): Promise<void> {
  if (!/#|%23/.test(text)) await sender.call('signIn', { root, apiKey: text }, options);
  else if ('host' in (await sender.call('accept', { text, root }, options)))
    throw new EngineError({ code: 'link_invalid', message: '' });
}

/** Does what needs a key: the one that is kept, or one that is asked for, also once refused. */
async function withKey(act: (sender: Engine<Sending>) => Promise<void>): Promise<void> {
  const sender = (linksEngine ??= startSending());
  await tried(async () => {
    const ask = (why?: string): void => askForKey(sender, () => void withKey(act), why);
    try {
      const kept = isSignedIn ? undefined : await keptKey();
      if (kept !== undefined) {
        await signIn(sender, kept);
        isSignedIn = true;
      }
      await (isSignedIn ? act(sender) : ask());
    } catch (failure) {
      if (failure instanceof OtherKey) return ask(words.keyOther);
      if (!isEngineError(failure, ...refusals)) throw failure;
      ask(changeFailureText(failure));
    }
  });
}

/** @param why the key before does not do */
function askForKey(sender: Engine<Sending>, go: () => void, why: string | undefined): void {
  const field = byId('key-field', HTMLInputElement);
  const keep = byId('key-keep', HTMLInputElement);
  const refused = byId('key-error', HTMLParagraphElement);
  setText(refused, why);
  keep.checked = false;
  enterKey = () => {
    const text = field.value.trim();
    // It may be entered twice.
    keyCheck?.abort();
    keyCheck = new AbortController();
    const { signal } = keyCheck;
    signIn(sender, text, { signal })
      .then(async () => {
        if (signal.aborted) return;
        isSignedIn = true;
        if (keep.checked) await keepKey(text);
        field.value = '';
        keyDialog.close();
        await showText();
        go();
      })
      .catch((failure: unknown) => {
        if (signal.aborted) return;
        setText(refused, changeFailureText(failure));
        field.focus();
      });
  };
  keyDialog.showModal();
}

/** Says what is kept here, by looking. */
async function showText(): Promise<void> {
  const [links, key, signers] = [await keptLinks(), await keptKey(), await keptSigners()];
  const names = joinedNames(signers.map(({ name }) => name));
  setText(byId('kept-signers', HTMLParagraphElement), names === '' ? undefined : words.keptSigners(names));
  byId('kept-text', HTMLParagraphElement).textContent = links.length === 0 ? words.keptNone : words.keptText;
  byId('kept-none', HTMLParagraphElement).hidden = links.length > 0;
  byId('kept-key', HTMLParagraphElement).hidden = key === undefined;
  byId('forget', HTMLButtonElement).hidden = links.length + signers.length === 0 && key === undefined;
}

async function forgetAll(): Promise<void> {
  await forgetEverything();
  forgetOpening();
  await removeLeftBehind();
  isSignedIn = false;
  keptLinkList.replaceChildren();
  await showText();
  byId('kept-title', HTMLHeadingElement).focus();
  announce(words.forgotten);
}

async function showKeptLinks(): Promise<void> {
  const links = await keptLinks();
  const rows = links.map((link) => ({ ...keptLinkRow(link), link }));
  keptLinkList.replaceChildren(...rows.map(({ element }) => element));
  await showText();
  // One after the other: an address may ask for so many in a minute.
  for (const { link, showSeen } of rows) showSeen(await askShareStatus(link.shareId));
}

translate();
void removeLeftBehind();
show('kept');
const forget = (): void => confirmFirst(forgetting, '', () => void tried(forgetAll));
byId('forget', HTMLButtonElement).addEventListener('click', forget);
byId('key-no', HTMLButtonElement).addEventListener('click', () => keyDialog.close());
keyDialog.addEventListener('close', () => keyCheck?.abort());
onSubmit('key-form', () => enterKey?.());
void tried(showKeptLinks);
