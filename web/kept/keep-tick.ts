/** The tick beside a new link: whether this browser keeps what it leads to. */
import { announce, byId, setText, words } from '../states.ts';
import { forgetLink, keepLink, type KeptLink } from './kept-links.ts';

let isKept = false;

async function set(link: KeptLink | undefined, wanted: boolean): Promise<void> {
  const tick = byId('keep-link', HTMLInputElement);
  const said = byId('keep-said', HTMLParagraphElement);
  if (link === undefined) return;
  tick.disabled = true;
  try {
    if (wanted) await keepLink(link);
    else await forgetLink(link.shareId);
    isKept = wanted;
    setText(said, wanted ? words.keptNow : undefined);
  } catch {
    setText(said, words.keepsNothing);
  }
  announce(said.textContent);
  tick.checked = isKept;
  tick.disabled = false;
}

/** Shows the tick for a new link. */
export function offerToKeep(): void {
  isKept = false;
  byId('keep-link', HTMLInputElement).checked = false;
  setText(byId('keep-said', HTMLParagraphElement), undefined);
}

/** Starts the tick, once. @param shown gives the link beside it */
export function startKeepTick(shown: () => KeptLink | undefined): void {
  const tick = byId('keep-link', HTMLInputElement);
  tick.addEventListener('change', () => void set(shown(), tick.checked));
}
