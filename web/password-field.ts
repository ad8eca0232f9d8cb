/** A field for a password, with a button that shows what is typed. */
import { byId, words } from './states.ts';

/**
 * Starts the field `password` and its button `reveal`.
 * @param error ID of what says that it is wrong @param kind for password managers
 */
export function startPasswordField(error: string, kind: 'new-password' | 'current-password'): void {
  const input = byId('password', HTMLInputElement);
  input.autocomplete = kind;
  input.setAttribute('aria-describedby', `password-hint ${error}`);
  const reveal = byId('reveal', HTMLButtonElement);
  const setRevealed = (isRevealed: boolean): void => {
    input.type = isRevealed ? 'text' : 'password';
    reveal.setAttribute('aria-pressed', String(isRevealed));
    reveal.setAttribute('aria-label', words.showPassword);
  };
  setRevealed(false);
  reveal.addEventListener('click', () => setRevealed(input.type === 'password'));
}
