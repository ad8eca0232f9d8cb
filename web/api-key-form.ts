/** The state that asks for an API key, which the engine has in memory, and nothing else has. */
import type { Engine } from './engine-client.ts';
import { describeSendingFailure, isOver } from './failure-words.ts';
import type { Sending } from './protocol.ts';
import { announce, byId, onClick, onSubmit, root, setText, show, words } from './states.ts';

/**
 * Purpose of an API key. `text` says why it is asked for; the engine gets it; `go` gets what it may
 * do; `back` leads to where it was not needed yet; `refused`: why the key before does not do.
 */
export type KeyRequest = {
  readonly text: string;
  readonly scopes: readonly string[];
  readonly engine: Engine<Pick<Sending, 'signIn'>>;
  go(scopes: readonly string[]): void;
  back?(): void;
  readonly refused?: string | undefined;
};

let request: KeyRequest | undefined;
/** Ends the check of a key. */
let stop = new AbortController();

/** Asks for an API key that has some scopes, and goes on with it. */
export function askForKey(next: KeyRequest): void {
  request = next;
  byId('signing-text', HTMLParagraphElement).textContent = next.text;
  back.hidden = next.back === undefined;
  byId('sign-in-button', HTMLButtonElement).disabled = false;
  setText(byId('sign-in-error', HTMLParagraphElement), next.refused);
  show('signing');
  if (next.refused !== undefined) announce(next.refused);
}

/**
 * Returns the sentence for a failure. Where the key has ended, the form says it instead, and asks
 * for another one: undefined.
 */
export function failureTextOrForm(failure: unknown, next: KeyRequest): string | undefined {
  const refused = describeSendingFailure(failure, words);
  if (!isOver(failure)) return refused;
  askForKey({ ...next, refused });
  return undefined;
}

async function submitApiKey(): Promise<void> {
  const field = byId('api-key', HTMLInputElement);
  const button = byId('sign-in-button', HTMLButtonElement);
  if (button.disabled || request === undefined) return;
  const { scopes: needed, go } = request;
  stop = new AbortController();
  const { signal } = stop;
  button.disabled = true;
  setText(byId('sign-in-error', HTMLParagraphElement), undefined);
  field.removeAttribute('aria-invalid');
  try {
    const { scopes } = await request.engine.call('signIn', { root, apiKey: field.value }, { signal });
    if (signal.aborted) return;
    const missing = needed.filter((scope) => !scopes.includes(scope));
    if (missing.length > 0) return refuseApiKey(field, words.scopesMissing(missing.join(', ')));
    field.value = '';
    go(scopes);
  } catch (failure) {
    if (!signal.aborted) refuseApiKey(field, describeSendingFailure(failure, words));
  } finally {
    if (stop.signal === signal) button.disabled = false;
  }
}

function refuseApiKey(field: HTMLInputElement, text: string): void {
  setText(byId('sign-in-error', HTMLParagraphElement), text);
  announce(text);
  field.setAttribute('aria-invalid', 'true');
  field.focus();
  field.select();
}

onSubmit('sign-in', submitApiKey);
const back = onClick('sign-in-back', () => {
  stop.abort();
  request?.back?.();
});
