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

/** Makes a button that copies the text of an element, or selects it where that is forbidden. */
export function copyButton(shown: HTMLElement): HTMLButtonElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = words.copy;
  button.addEventListener('click', () => {
    navigator.clipboard.writeText(shown.textContent).then(
      () => showCopied(button),
      () => {
        getSelection()?.selectAllChildren(shown);
        button.textContent = words.copyByHand;
        announce(words.copyByHand);
      },
    );
  });
  return button;
}
