/** Work that buttons of the pages begin, and what is said where it fails. */
import { describeSendingFailure } from './failure-words.ts';
import { announce, byId, hasFocusOf, setText, words } from './states.ts';

type AttemptOptions = {
  /** Text for a failure; undefined: another state says it. */
  readonly textOf?: (failure: unknown) => string | undefined;
  /** Button that waits meanwhile. */
  readonly button?: HTMLButtonElement;
};

/** Does something, and says why where it fails, in the paragraph `errorId`. */
export async function attempt(
  errorId: string,
  work: () => Promise<void> | void,
  { textOf = (failure) => describeSendingFailure(failure, words), button }: AttemptOptions = {},
): Promise<void> {
  const error = byId(errorId, HTMLParagraphElement);
  const hadFocus = document.activeElement === button;
  if (button !== undefined) button.disabled = true;
  setText(error, undefined);
  try {
    await work();
  } catch (failure) {
    const text = textOf(failure);
    setText(error, text);
    error.scrollIntoView({ block: 'nearest' });
    if (text !== undefined) announce(text);
  } finally {
    if (button !== undefined) button.disabled = false;
    if (hadFocus && button !== undefined && hasFocusOf(button)) button.focus({ preventScroll: true });
  }
}
