/** The document of `/send`: files, who may open them, and the link for them. */
import { askForKey } from './api-key-form.ts';
import { clearCompose, compose, composeAgain, startCompose, type ComposedDraft } from './compose-form.ts';
import { startSending } from './engine-client.ts';
import { describeSendingFailure } from './failure-words.ts';
import { showLink, startSentLink } from './sent-link.ts';
import { show, translate, words } from './states.ts';
import { transfer } from './transfer.ts';

const engine = startSending();
let sent: { name: string; size: number }[] = [];

function composeNew(): void {
  clearCompose();
  compose({
    title: words.sendTitle,
    text: words.sendText,
    button: words.send,
    hasTerms: true,
    submit: (draft) => void submit(draft),
  });
}

async function submit({ files, ...about }: ComposedDraft): Promise<void> {
  try {
    const view = await transfer((options) => engine.call('send', { files, ...about }, options));
    sent = files.map(({ name, size }) => ({ name, size }));
    showLink(view);
  } catch (error) {
    composeAgain(describeSendingFailure(error, words));
  }
}

/** Shows the form for another share of the same files: the terms of a share are fixed. */
function composeChange(): void {
  compose({
    title: words.changeTitle,
    text: words.changeText,
    button: words.newLink,
    hasTerms: true,
    fixed: sent,
    submit: (draft) => void changeTerms(draft),
    back: () => show('sent'),
  });
}

async function changeTerms({ terms, words: said }: ComposedDraft): Promise<void> {
  try {
    showLink(await transfer((options) => engine.call('change', { terms, words: said }, options)));
  } catch (error) {
    composeAgain(describeSendingFailure(error, words));
  }
}

translate();
startCompose();
startSentLink(engine, { change: composeChange, more: { label: words.sendMore, go: composeNew } });
askForKey(engine, {
  root: new URL('.', document.baseURI).href,
  text: words.signingSend,
  scopes: ['write', 'share'],
  go: composeNew,
});
