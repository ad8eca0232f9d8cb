/** The dialog that changes until when and how often a link opens. Its address stays as it is. */
import type { Health } from '../../shared/api/service-shapes.ts';
import { dayMs, hourMs } from '../../shared/time.ts';
import { durationText } from '../amounts.ts';
import { isEngineError } from '../engine-client.ts';
import { describeSendingFailure } from '../failure-words.ts';
import type { Sending } from '../protocol.ts';
import { byId, joinedNames, onClick, onSubmit, locale, words } from '../states.ts';
import type { KeptLink } from './kept-links.ts';

/** Choices, from now, as far as the service allows them. */
const lifetimes = [hourMs, dayMs, 7 * dayMs, 14 * dayMs];
/** Names of a link that are shown. */
const shownNames = 3;

/** What the service says of itself that forms go by. */
export type ServiceLimits = Pick<Health, 'maxFileBytes' | 'shares'>;

/** Asks the service. Where that fails, what it refuses is told when it is met. */
export async function askLimits(): Promise<ServiceLimits> {
  return (await (await fetch('v1/health?live')).json()) as ServiceLimits;
}

/** The entered terms. */
export type EnteredTerms = Omit<Parameters<Sending['changeLink']>[0], 'shareId'>;

/** Starts the dialog, once. @returns shows it for a link, and hands out what was entered */
export function startChanging(): (
  link: Pick<KeptLink, 'files' | 'opens' | 'createdAt'>,
  submit: (terms: EnteredTerms) => void,
) => void {
  const dialog = byId('changing', HTMLDialogElement);
  const opens = byId('changing-opens', HTMLInputElement);
  const expires = byId('changing-expires', HTMLSelectElement);
  const options = lifetimes.map((ms) => new Option(words.inTime(durationText(ms / 1000, locale)), String(ms)));
  expires.append(...options);
  let limits: ServiceLimits['shares'];
  askLimits()
    .then(({ shares }) => (limits = shares))
    .catch(() => undefined);
  let entered: ((terms: EnteredTerms) => void) | undefined;
  onClick('changing-no', () => dialog.close());
  onSubmit('changing-form', () => {
    dialog.close();
    const expiresInMs = expires.value === '' ? undefined : Number(expires.value);
    entered?.({ opens: Number(opens.value), expiresInMs });
  });
  return (link, submit) => {
    byId('changing-name', HTMLElement).textContent = namesText(link);
    opens.value = String(link.opens);
    expires.value = '';
    // A link that has more from before keeps them.
    if (limits) opens.max = String(Math.max(limits.maxOpens, link.opens));
    const latestMs = Date.parse(link.createdAt) + (limits?.maxDays ?? Infinity) * dayMs;
    for (const option of options) option.disabled = option.hidden = Date.now() + Number(option.value) > latestMs;
    entered = submit;
    dialog.showModal();
  };
}

/** The names of what a link leads to. */
export function namesText({ files }: Pick<KeptLink, 'files'>): string {
  const names = joinedNames(files.slice(0, shownNames).map(({ name }) => name));
  const more = files.length - shownNames;
  return more > 0 ? words.keptMore(names, more) : names;
}

/** A sentence about why a link was not changed or taken back. */
export function changeFailureText(failure: unknown): string {
  if (failure instanceof DOMException) return words.keepsNothing;
  return isEngineError(failure, 'gone', 'not_found') ? words.keptEnded : describeSendingFailure(failure, words);
}
