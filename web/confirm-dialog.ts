/** The dialog that asks before what cannot be undone. */
import { byId, onClick, words } from './states.ts';

/** Texts of the dialog; `yes` and `no` are those of its buttons. */
type Question = { title: string; text: string; yes: string; no?: string };

const dialog = byId('confirming', HTMLDialogElement);
let confirmed: (() => void) | undefined;
const keep = onClick('confirming-no', () => dialog.close());
const proceed = onClick('confirming-yes', () => {
  dialog.close();
  confirmed?.();
});

/** Asks. @param name of what it is about; '' for everything @param act runs after a yes */
export function confirmFirst({ title, text, yes, no = words.keep }: Question, name: string, act: () => void): void {
  byId('confirming-title', HTMLHeadingElement).textContent = title;
  byId('confirming-named', HTMLParagraphElement).hidden = name === '';
  byId('confirming-name', HTMLElement).textContent = name;
  byId('confirming-text', HTMLParagraphElement).textContent = text;
  proceed.textContent = yes;
  keep.textContent = no;
  confirmed = act;
  dialog.showModal();
  keep.focus();
}
