/** The document of `/drop`: handing files over to the inbox whose link is in the address. */
import { clearCompose, compose, composeAgain, startCompose, type ComposedDraft } from './compose-form.ts';
import { EngineError, startSending } from './engine-client.ts';
import { describeSendingFailure } from './failure-words.ts';
import { showProblem, startRetrying, type Problem } from './problem-section.ts';
import { byId, show, translate, words } from './states.ts';
import { transfer } from './transfer.ts';

const inboxEngine = startSending();
const root = new URL('.', document.baseURI).href;
let inbox = '';

async function findInbox(text: string): Promise<void> {
  show('wait');
  try {
    const found = await inboxEngine.call('findInbox', { text, root });
    if ('host' in found) {
      const go = { label: words.elsewhereGo(found.host), address: found.address };
      return showProblem({ title: words.elsewhereTitle, text: words.elsewhereText(found.host), go });
    }
    inbox = found.name;
    composeNew();
  } catch (error) {
    showProblem(problemOf(error, () => void findInbox(text)));
  }
}

function problemOf(error: unknown, retry: () => void): Problem {
  const code = error instanceof EngineError ? error.code : undefined;
  if (code === 'link_invalid') return { title: words.incompleteTitle, text: words.incompleteText };
  if (code === 'unauthorized') return { title: words.closedTitle, text: words.closedText };
  return { title: words.unusableTitle, text: describeSendingFailure(error, words), retry };
}

function composeNew(): void {
  clearCompose();
  compose({
    title: words.dropTitle(inbox),
    text: words.dropText,
    button: words.handOver,
    hasTerms: false,
    submit: (draft) => void deliverFiles(draft),
  });
}

async function deliverFiles({ files, words: said }: ComposedDraft): Promise<void> {
  try {
    const { count } = await transfer((options) => inboxEngine.call('deliver', { files, words: said }, options));
    byId('handed-text', HTMLParagraphElement).textContent = words.handedText(count, inbox);
    show('handed');
  } catch (error) {
    composeAgain(describeSendingFailure(error, words));
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
startCompose();
byId('handed-more', HTMLButtonElement).addEventListener('click', composeNew);
startRetrying();
addEventListener('hashchange', readAddress);
readAddress();
