/** The state in which a link was made: its QR code, copying, keeping, changing, taking back. */
import { generate } from 'lean-qr/nano';
import { dayText } from './amounts.ts';
import { isEngineError, type Engine } from './engine-client.ts';
import { attempt } from './attempt.ts';
import { changeFailureText, namesText, startChanging, type EnteredTerms } from './kept/change-dialog.ts';
import { forgetLink, keepLink, noteOpens, type KeptLink } from './kept/kept-links.ts';
import type { LinkView, Sending } from './protocol.ts';
import { announce, byId, hasFocusOf, locale, onClick, setText, show, words } from './states.ts';
import { showCopied } from './receiving/copy-button.ts';
import { holdOpen } from './stay-open.ts';

/** The light margin around a code, in modules (ISO/IEC 18004, "quiet zone"). */
const quietModules = 4;

const tick = byId('keep-link', HTMLInputElement);

/** Lets the page be closed, which would lose a link that was not copied. */
let release: (() => void) | undefined;
let shownLink: KeptLink | undefined;
/** Set while this browser keeps what that link leads to. */
let isKept = false;
/** Tells whether a link is still there when its answer comes. */
const isShown = (link: KeptLink): boolean => shownLink?.shareId === link.shareId;

function letGo(): void {
  release?.();
  release = undefined;
}

/** @param files that it leads to */
export function showLink(view: LinkView, files: KeptLink['files']): void {
  const { shareId, createdAt, opens } = view;
  shownLink = { shareId, createdAt, opens, files };
  isKept = false;
  tick.checked = tick.disabled = false;
  setText(byId('keep-said', HTMLParagraphElement), undefined);
  release ??= holdOpen();
  const text = view.needs === undefined ? [words.sentText, words.sentAnyone] : [words.sentText];
  byId('sent-text', HTMLParagraphElement).textContent = [...text, words.sentOnce].join(' ');
  byId('sent-link', HTMLInputElement).value = view.link;
  drawCode(view.link);
  showTerms(view);
  byId('tell-password', HTMLParagraphElement).hidden = view.needs !== 'password';
  byId('tell-keys', HTMLParagraphElement).hidden = view.needs !== 'keys';
  setText(byId('sent-error', HTMLParagraphElement), undefined);
  byId('take-back', HTMLButtonElement).disabled = false;
  show('sent');
}

/** Says until when and how often the link opens. */
function showTerms({ opens, expiresAt }: { opens: number; expiresAt: string }): void {
  setText(byId('sent-terms', HTMLParagraphElement), words.opensUntil(opens, dayText(expiresAt, locale)));
}

/** Black on white in both colour schemes: some readers know no other. */
function drawCode(link: string): void {
  const code = generate(link);
  let path = '';
  for (let y = 0; y < code.size; y += 1)
    for (let x = 0; x < code.size; x += 1) if (code.get(x, y)) path += `M${x} ${y}h1v1h-1z`;
  const drawing = document.querySelector('#code');
  const side = code.size + 2 * quietModules;
  drawing?.setAttribute('viewBox', `${-quietModules} ${-quietModules} ${side} ${side}`);
  drawing?.setAttribute('aria-label', words.codeLabel);
  drawing?.querySelector('path')?.setAttribute('d', path);
}

async function copy(): Promise<void> {
  const field = byId('sent-link', HTMLInputElement);
  const button = byId('copy', HTMLButtonElement);
  try {
    await navigator.clipboard.writeText(field.value);
    letGo();
    showCopied(button);
  } catch {
    field.select();
    setText(byId('sent-error', HTMLParagraphElement), words.copyByHand);
    announce(words.copyByHand);
  }
}

/** Has this browser keep what the link leads to, or forget it. */
async function keep(link: KeptLink, wanted: boolean): Promise<void> {
  const said = byId('keep-said', HTMLParagraphElement);
  const hadFocus = document.activeElement === tick;
  tick.disabled = true;
  const isDone = await (wanted ? keepLink(link) : forgetLink(link.shareId)).then(
    () => true,
    () => false,
  );
  // The tick is beside another link by now.
  if (!isShown(link)) return;
  if (isDone) isKept = wanted;
  setText(said, isDone ? (wanted ? words.keptNow : undefined) : words.keepsNothing);
  announce(said.textContent);
  tick.checked = isKept;
  tick.disabled = false;
  if (hadFocus && hasFocusOf(tick)) tick.focus();
}

/** Hands the link to the system's dialog, which passes it on to other programs. */
async function passOn(): Promise<void> {
  try {
    await navigator.share({ url: byId('sent-link', HTMLInputElement).value });
    letGo();
  } catch {
    // The dialog was closed, and the link is still there.
  }
}

/** Does something with a link. Once it is not shown any more, a failure is only read out. */
async function attemptOn(link: KeptLink, work: () => Promise<void>, button?: HTMLButtonElement): Promise<void> {
  const textOf = (failure: unknown): string | undefined => {
    const text = changeFailureText(failure);
    const isOver = isEngineError(failure, 'gone', 'not_found');
    if (isShown(link) && isOver) setText(byId('sent-terms', HTMLParagraphElement), undefined);
    if (isShown(link)) return text;
    announce(`${namesText(link)}: ${text}`);
    return undefined;
  };
  await attempt('sent-error', work, { textOf, ...(button && { button }) });
}

/** Changes the terms of the link that is shown, which stays as it is. */
async function changeShownLink(engine: Engine<Sending>, link: KeptLink, terms: EnteredTerms): Promise<void> {
  const work = async (): Promise<void> => {
    const { opens, opensLeft, expiresAt } = await engine.call('changeLink', { shareId: link.shareId, ...terms });
    if (isShown(link)) {
      shownLink = { ...link, opens };
      showTerms({ opens: opensLeft, expiresAt });
    }
    announce(words.linkChanged(namesText(link)));
    await noteOpens(link.shareId, opens);
  };
  await attemptOn(link, work);
}

async function takeBackSent(engine: Engine<Sending>, link: KeptLink): Promise<void> {
  const work = async (): Promise<void> => {
    const { opened, isDeleted } = await engine.call('takeBack', { shareId: link.shareId });
    if (!isShown(link)) return announce(words.linkTaken(namesText(link)));
    letGo();
    byId('sent-link', HTMLInputElement).value = '';
    const parts = [words.takenText, ...(isDeleted ? [words.takenDeleted] : [])];
    if (opened !== undefined) parts.push(opened === 0 ? words.takenUnopened : words.takenOpened(opened));
    byId('taken-text', HTMLParagraphElement).textContent = parts.join(' ');
    show('taken');
  };
  await attemptOn(link, work, byId('take-back', HTMLButtonElement));
}

/** Starts the buttons, once. @param more next action, of the button below the link */
export function startSentLink(engine: Engine<Sending>, more: { label: string; go(): void }): void {
  tick.addEventListener('change', () => {
    if (shownLink !== undefined) void keep(shownLink, tick.checked);
  });
  onClick('copy', copy);
  onClick('pass-on', passOn).hidden = !('share' in navigator);
  const enterChange = startChanging();
  onClick('change', () => {
    const link = shownLink;
    if (link !== undefined) enterChange(link, (terms) => void changeShownLink(engine, link, terms));
  });
  onClick('take-back', () => {
    if (shownLink !== undefined) void takeBackSent(engine, shownLink);
  });
  const leave = (): void => {
    if (release !== undefined && !confirm(words.leavePage)) return;
    letGo();
    shownLink = undefined;
    more.go();
  };
  for (const id of ['sent-more', 'taken-more']) onClick(id, leave).textContent = more.label;
  const field = byId('sent-link', HTMLInputElement);
  field.addEventListener('focus', () => field.select());
  field.addEventListener('copy', letGo);
}
