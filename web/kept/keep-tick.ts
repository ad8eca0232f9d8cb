/** The tick beside a new link: whether this browser keeps what it leads to. */
import { announce, byId, setText, words } from '../states.ts';
import { forgetLink, keepLink, type KeptLink } from './kept-links.ts';

let isKept = false;

async function set(shown: () => KeptLink | undefined, wanted: boolean): Promise<void> {
  const tick = byId('keep-link', HTMLInputElement);
  const said = byId('keep-said', HTMLParagraphElement);
  const link = shown();
  if (link === undefined) return;
  tick.disabled = true;
  const isDone = await (wanted ? keepLink(link) : forgetLink(link.shareId)).then(
    () => true,
    () => false,
  );
  // The tick is beside another link by now.
  if (shown()?.shareId !== link.shareId) return;
  if (isDone) isKept = wanted;
  setText(said, isDone ? (wanted ? words.keptNow : undefined) : words.keepsNothing);
  announce(said.textContent);
  tick.checked = isKept;
  tick.disabled = false;
}

/** Shows the tick for a new link. */
export function offerToKeep(): void {
  isKept = false;
  const tick = byId('keep-link', HTMLInputElement);
  tick.checked = tick.disabled = false;
  setText(byId('keep-said', HTMLParagraphElement), undefined);
}

/** Starts the tick, once. @param shown gives the link beside it */
export function startKeepTick(shown: () => KeptLink | undefined): void {
  const tick = byId('keep-link', HTMLInputElement);
  tick.addEventListener('change', () => void set(shown, tick.checked));
}
