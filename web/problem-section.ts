/** The section of a document that says why nothing can be done, and what to do instead. */
import { byId, setText, show } from './states.ts';

export type Problem = { title: string; text: string; retry?: () => void; go?: { label: string; address: string } };

let tryAgain: (() => void) | undefined;

export function showProblem({ title, text, retry, go }: Problem): void {
  byId('problem-title', HTMLHeadingElement).textContent = title;
  byId('problem-text', HTMLParagraphElement).textContent = text;
  byId('retry', HTMLButtonElement).hidden = retry === undefined;
  tryAgain = retry;
  const link = byId('elsewhere', HTMLAnchorElement);
  setText(link, go?.label);
  if (go !== undefined) link.href = go.address;
  show('problem');
}

/** Makes the button of the section try again what failed. */
export function startRetrying(): void {
  byId('retry', HTMLButtonElement).addEventListener('click', () => tryAgain?.());
}
