/**
 * The document of `/` and `/send`: files, who may open them, and the link for them. On `/` an API
 * key is asked for once there is something to send.
 */
import { dayText, sizeText } from './amounts.ts';
import { askForKey } from './api-key-form.ts';
import { clearCompose, compose, composeAgain, readLimits, roomOf, showLimits, startCompose } from './compose-form.ts';
import type { ComposedDraft } from './compose-form.ts';
import { startSending } from './engine-client.ts';
import { describeSendingFailure, isOver, speakToGuests } from './failure-words.ts';
import { removeLeftBehind } from './kept/left-behind.ts';
import { showMadeLinks, startMadeLinks } from './made-links.ts';
import { elsewhere, sendingProblem, showProblem } from './problem-section.ts';
import type { InvitationView } from './protocol.ts';
import { showLink, startSentLink } from './sent-link.ts';
import { byId, hideAccountPages, locale, root, show, translate, words } from './states.ts';
import { startOtherLinks } from './stay-open.ts';
import { transfer } from './transfer.ts';

const sendingEngine = startSending();
const isHome = location.pathname === new URL(root).pathname;
let isSignedIn = false;
/** Link by which a guest is here, and what it permits. */
let invitation: { text: string; view: InvitationView } | undefined;

function composeNew(): void {
  clearCompose();
  composeFiles();
}

function composeFiles(): void {
  compose({
    title: isHome ? words.heroTitle : words.sendFiles,
    text: invitation === undefined ? words.sendText : guestText(invitation.view),
    button: words.send,
    hasTerms: true,
    latest: invitation?.view.expiresAt,
    submit: (draft) => void sendDraft(draft),
    ...(invitation === undefined ? {} : { back: () => showMadeLinks(sendingEngine), backLabel: words.linksTitle }),
  });
}

/**
 * Shows the size of the largest file that the service takes; a guest has less room. Without links,
 * that is all there is to say.
 */
async function showServiceLimits(): Promise<void> {
  const { maxFileBytes, shares } = await readLimits();
  if (shares === null) composeFiles();
  if (maxFileBytes !== undefined && invitation === undefined)
    showLimits(words.fileLimit(sizeText(maxFileBytes, locale)));
}

function guestText(view: InvitationView): string {
  const until = view.expiresAt === undefined ? undefined : dayText(view.expiresAt, locale);
  return words.guestText(until, roomOf(view).join(', '));
}

async function sendDraft(draft: ComposedDraft): Promise<void> {
  const { files, ...about } = draft;
  if (invitation === undefined && !isSignedIn) return askToSend(() => void sendDraft(draft), composeFiles);
  try {
    const names = files.map(({ name }) => name);
    const view = await transfer((options) => sendingEngine.call('send', { files, ...about }, options), names);
    const sent = files.map(({ name, size }) => ({ name, size }));
    showLink(view, sent);
  } catch (error) {
    showSendingFailure(error, draft);
  }
}

/**
 * Shows the form again, with what is wrong; asks for another key where the one before has ended, or
 * says that the invitation has.
 */
function showSendingFailure(error: unknown, draft: ComposedDraft): void {
  const text = describeSendingFailure(error, words);
  if (!isOver(error)) return composeAgain(text);
  if (invitation !== undefined) return showInvitationProblem(error, again);
  isSignedIn = false;
  askToSend(() => void sendDraft(draft), composeFiles, text);
}

/** @param back where no key was needed yet @param refused why the key before does not do */
function askToSend(go: () => void, back?: () => void, refused?: string): void {
  askForKey({
    text: words.signingSend,
    scopes: ['write', 'share'],
    engine: sendingEngine,
    go() {
      isSignedIn = true;
      go();
    },
    ...(back && { back }),
    refused,
  });
}

/** Sends by an invitation from now on, with what it permits now. */
async function acceptInvitation(text: string, next: () => void): Promise<void> {
  show('wait');
  try {
    const found = await sendingEngine.call('accept', { text, root });
    if ('host' in found) return showProblem(elsewhere(found));
    invitation = { text, view: found };
    // Whose limit or account it is, is not theirs to know.
    speakToGuests(words);
    showLimits(undefined);
    next();
  } catch (error) {
    showInvitationProblem(error, () => void acceptInvitation(text, next));
  }
}

function showInvitationProblem(error: unknown, retry: () => void): void {
  showProblem(sendingProblem(error, { title: words.guestEndedTitle, text: words.guestEndedText }, retry));
}

/** Starts with a new form; a guest's says what the invitation permits by now. */
function again(): void {
  if (invitation === undefined) composeNew();
  else void acceptInvitation(invitation.text, composeNew);
}

/** Takes an invitation out of the address bar. @returns whether there is one */
function readInvitation(): boolean {
  const text = location.href;
  if (isHome || !/%23|#./.test(text)) return false;
  history.replaceState(null, '', 'send');
  hideAccountPages();
  void acceptInvitation(text, composeNew);
  return true;
}

translate();
void removeLeftBehind();
startCompose();
startSentLink(sendingEngine, { label: words.sendMore, go: again });
startMadeLinks(sendingEngine, () => {
  if (invitation !== undefined) void acceptInvitation(invitation.text, composeFiles);
});
if (!isHome) startOtherLinks();
void showServiceLimits().catch(() => undefined); // then the limit is told when it is met
byId('about', HTMLElement).hidden = !isHome;
if (isHome) composeNew();
else if (!readInvitation()) askToSend(composeNew);
