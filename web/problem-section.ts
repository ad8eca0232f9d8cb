/** The section of a document that says why nothing can be done, and what to do instead. */
import { isEngineError } from './engine-client.ts';
import { describeSendingFailure, isOver } from './failure-words.ts';
import { byId, onClick, setText, show, words } from './states.ts';

export type Problem = { title: string; text: string; retry?: () => void; go?: { label: string; address: string } };

/** A link of another service, which its own page takes. */
export function elsewhere({ host, address }: { host: string; address: string }): Problem {
  const go = { label: words.elsewhereGo(host), address };
  return { title: words.elsewhereTitle, text: words.elsewhereText(host), go };
}

/** Why the link of an inbox or an invitation cannot be used. @param ended where it is over */
export function sendingProblem(error: unknown, ended: Pick<Problem, 'title' | 'text'>, retry: () => void): Problem {
  if (isEngineError(error, 'link_invalid')) return { title: words.incompleteTitle, text: words.incompleteText };
  if (isOver(error)) return ended;
  return { title: words.unusableTitle, text: describeSendingFailure(error, words), retry };
}

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

onClick('retry', () => tryAgain?.());
