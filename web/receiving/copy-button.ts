/** A button that copies a text. */
import { announce, words } from '../states.ts';

/** Time for which a button says that it has copied, in ms. */
const copiedMs = 3_000;

/** Says on a button, for a while, that it has copied. */
export function showCopied(button: HTMLElement): void {
  button.textContent = words.copied;
  button.classList.add('copied');
  announce(words.copied);
  setTimeout(() => {
    button.textContent = words.copy;
    button.classList.remove('copied');
  }, copiedMs);
}

/** Makes a button that copies what `text` gives. */
export function copyButton(text: () => string): HTMLButtonElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = words.copy;
  button.addEventListener('click', () => {
    navigator.clipboard.writeText(text()).then(
      () => showCopied(button),
      () => announce(words.copyByHand),
    );
  });
  return button;
}
