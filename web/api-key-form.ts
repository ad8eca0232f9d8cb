/**
 * The state that asks for an API key, which then is in the memory of the engine, and nowhere else.
 */
import type { Engine } from './engine-client.ts';
import { describeSendingFailure } from './failure-words.ts';
import type { Sending } from './protocol.ts';
import { announce, byId, setText, show, words } from './states.ts';

/**
 * Asks for an API key that has some scopes, and goes on with it.
 * @param o.text why it is asked for
 */
export function askForKey(
  engine: Engine<Sending>,
  o: { root: string; text: string; scopes: readonly string[]; go: (scopes: readonly string[]) => void },
): void {
  const field = byId('api-key', HTMLInputElement);
  const button = byId('sign-in-button', HTMLButtonElement);
  const error = byId('sign-in-error', HTMLParagraphElement);
  byId('signing-text', HTMLParagraphElement).textContent = o.text;

  async function signIn(): Promise<void> {
    if (button.disabled) return;
    button.disabled = true;
    setText(error, undefined);
    field.removeAttribute('aria-invalid');
    try {
      const { scopes } = await engine.call('signIn', { root: o.root, apiKey: field.value });
      const missing = o.scopes.filter((scope) => !scopes.includes(scope));
      if (missing.length > 0) return refuse(words.scopesMissing(missing.join(', ')));
      field.value = '';
      o.go(scopes);
    } catch (failure) {
      refuse(describeSendingFailure(failure, words));
    } finally {
      button.disabled = false;
    }
  }

  function refuse(text: string): void {
    setText(error, text);
    announce(text);
    field.setAttribute('aria-invalid', 'true');
    field.focus();
    field.select();
  }

  byId('sign-in', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    void signIn();
  });
  show('signing');
}
