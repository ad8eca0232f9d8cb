/** The tick beside a new link: whether this browser keeps what it leads to. */
import { announce, byId, setText, words } from '../states.ts';
import { forgetLink, keepLink, type KeptLink } from './kept-links.ts';

let shown: KeptLink | undefined;
let isKept = false;

async function set(wanted: boolean): Promise<void> {
  const tick = byId('keep-link', HTMLInputElement);
  const said = byId('keep-said', HTMLParagraphElement);
  const link = shown;
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

/**
 * Shows the tick for a link. One that takes the place of another, for the same files, is kept if
 * that was.
 */
export async function offerToKeep(link: KeptLink): Promise<void> {
  const before = shown;
  const isReplaced = isKept && before?.files === link.files;
  shown = link;
  isKept = false;
  byId('keep-link', HTMLInputElement).checked = false;
  setText(byId('keep-said', HTMLParagraphElement), undefined);
  if (!isReplaced) return;
  await set(true);
  await forgetLink(before.shareId).catch(() => undefined); // it is shown as ended
}

/** Starts the tick, once. */
export function startKeepTick(): void {
  const tick = byId('keep-link', HTMLInputElement);
  tick.addEventListener('change', () => void set(tick.checked));
}
