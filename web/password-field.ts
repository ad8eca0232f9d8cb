/** A field for a password, with a button that shows what is typed. */
import { byId, words } from './states.ts';

/** Starts the field `password` and its button `reveal`. */
export function startPasswordField(): void {
  const input = byId('password', HTMLInputElement);
  const reveal = byId('reveal', HTMLButtonElement);
  const setRevealed = (isRevealed: boolean): void => {
    input.type = isRevealed ? 'text' : 'password';
    reveal.setAttribute('aria-pressed', String(isRevealed));
    reveal.setAttribute('aria-label', words.showPassword);
  };
  setRevealed(false);
  reveal.addEventListener('click', () => setRevealed(input.type === 'password'));
}
