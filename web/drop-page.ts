/** The document of `/drop`: handing files over to the inbox whose link is in the address. */
import { dayText, sizeText } from './amounts.ts';
import { clearCompose, compose, composeAgain, roomOf, showLimits, startCompose } from './compose-form.ts';
import type { ComposedDraft } from './compose-form.ts';
import { startSending } from './engine-client.ts';
import { describeSendingFailure, isOver } from './failure-words.ts';
import { removeLeftBehind } from './kept/left-behind.ts';
import { elsewhere, sendingProblem, showProblem } from './problem-section.ts';
import type { InvitationView, Sending } from './protocol.ts';
import { byId, hideAccountPages, locale, onClick, root, show, translate, words } from './states.ts';
import { startOtherLinks } from './stay-open.ts';
import { transfer } from './transfer.ts';

const inboxEngine = startSending();
let inboxName = '';
let inboxLink = '';

async function findInbox(text: string): Promise<void> {
  inboxLink = text;
  show('wait');
  try {
    const found = await askInbox();
    if ('host' in found) return showProblem(elsewhere(found));
    inboxName = found.name;
    composeNew();
  } catch (error) {
    showInboxProblem(error);
  }
}

/** Asks for what the inbox takes, and shows it. */
async function askInbox(): Promise<ReturnType<Sending['findInbox']>> {
  const found = await inboxEngine.call('findInbox', { text: inboxLink, root });
  if ('name' in found) showLimits(limitsText(found));
  return found;
}

function showInboxProblem(error: unknown): void {
  const closed = { title: words.closedTitle, text: words.closedText };
  showProblem(sendingProblem(error, closed, () => void findInbox(inboxLink)));
}

/** Limits of the inbox, in words, as far as it has any. */
function limitsText({ fileBytes, expiresAt, ...room }: InvitationView): string | undefined {
  const texts = roomOf(room);
  if (fileBytes !== undefined) texts.push(words.fileLimit(sizeText(fileBytes, locale)));
  if (expiresAt !== undefined) texts.push(words.linkUntil(dayText(expiresAt, locale)));
  return texts.length === 0 ? undefined : words.inboxLimits(texts.join(', '));
}

function composeNew(): void {
  clearCompose();
  compose({
    title: words.dropTitle(inboxName),
    text: words.dropText,
    button: words.send,
    hasTerms: false,
    submit: (draft) => void deliverFiles(draft),
  });
}

async function deliverFiles({ files, words: said }: ComposedDraft): Promise<void> {
  try {
    const names = files.map(({ name }) => name);
    const { count } = await transfer((options) => inboxEngine.call('deliver', { files, words: said }, options), names);
    byId('handed-text', HTMLParagraphElement).textContent = words.handedText(count, inboxName);
    show('handed');
  } catch (error) {
    if (isOver(error)) return showInboxProblem(error);
    composeAgain(describeSendingFailure(error, words));
    // What had been sent has taken of the limits.
    await askInbox().catch(() => undefined);
  }
}

/** Reads the link in the address, and takes it out of the address bar. */
function readAddress(): void {
  const text = location.href;
  history.replaceState(null, '', 'drop');
  if (!/%23|#./.test(text)) return showProblem({ title: words.noKeyTitle, text: words.noKeyText });
  void findInbox(text);
}

translate();
void removeLeftBehind();
hideAccountPages();
startCompose();
// What was handed over has taken of the limits.
onClick('handed-more', () => findInbox(inboxLink));
startOtherLinks();
readAddress();
