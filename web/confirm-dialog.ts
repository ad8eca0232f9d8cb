/** A dialog that asks before what cannot be undone. Its buttons end in `-yes` and `-no`. */
import { byId } from './states.ts';

/**
 * Starts the buttons of a dialog, once.
 * @returns what shows it: `act` runs when it is confirmed
 */
export function startConfirming(id: string): (name: string, act: () => void) => void {
  const dialog = byId(id, HTMLDialogElement);
  const keep = byId(`${id}-no`, HTMLButtonElement);
  let confirmed: (() => void) | undefined;
  keep.addEventListener('click', () => dialog.close());
  byId(`${id}-yes`, HTMLButtonElement).addEventListener('click', () => {
    dialog.close();
    confirmed?.();
  });
  return (name, act) => {
    byId(`${id}-name`, HTMLElement).textContent = name;
    confirmed = act;
    dialog.showModal();
    keep.focus();
  };
}
