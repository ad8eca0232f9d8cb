/** The tick beside a new link: whether this browser keeps what it leads to. */
import { announce, byId, setText, words } from '../states.ts';
import { forgetLink, keepLink, type KeptLink } from './kept-links.ts';

let offeredLink: KeptLink | undefined;
let isKept = false;

async function set(wanted: boolean): Promise<void> {
  const tick = byId('keep-link', HTMLInputElement);
  const said = byId('keep-said', HTMLParagraphElement);
  const link = offeredLink;
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
export function offerToKeep(link: KeptLink): void {
  offeredLink = link;
  isKept = false;
  byId('keep-link', HTMLInputElement).checked = false;
  setText(byId('keep-said', HTMLParagraphElement), undefined);
}

/** Notes how often the link opens in all by now, where it is kept. */
export async function noteOpens(opens: number): Promise<void> {
  if (offeredLink === undefined) return;
  offeredLink = { ...offeredLink, opens };
  if (isKept) await keepLink(offeredLink);
}

/** Starts the tick, once. */
export function startKeepTick(): void {
  const tick = byId('keep-link', HTMLInputElement);
  tick.addEventListener('change', () => void set(tick.checked));
}
