/** The line that says who signed what was opened, by a name that this browser keeps for a key. */
import { foldedName } from '../../shared/filename.ts';
import { fingerprintOf } from '../../shared/link/fingerprint-words.ts';
import type { ParcelSignature } from '../../shared/link/index.ts';
import { keepSigner, keptSigners, type KeptSigner } from '../kept/kept-links.ts';
import { announce, byId, onSubmit, setText, words } from '../states.ts';

/** The signature that is shown; another one may be asked for before its words are there. */
let displayedSignature: ParcelSignature | undefined;
/** A name of another key, which this one takes where the name is entered once more. */
let replaced: string | undefined;

const folded = (name: string): string => foldedName(name).trim();
/** Spaces, and what cannot be seen, are no name; one was kept before. */
const isName = (text: string): boolean => /[^\p{Cc}\p{Cf}\p{DI}\p{Z}]/u.test(text);

/** Names by their keys; none in a browser that keeps nothing. */
async function known(): Promise<KeptSigner[]> {
  return (await keptSigners().catch(() => [])).filter(({ name }) => isName(name));
}

/** Shows who signed; nothing where nobody did. @param from the sender's own words */
export async function showSignature(signed: ParcelSignature | undefined, from = ''): Promise<void> {
  const [line, know] = [byId('signed', HTMLParagraphElement), byId('know', HTMLDetailsElement)];
  displayedSignature = signed;
  replaced = undefined;
  byId('know-form', HTMLFormElement).reset();
  setText(byId('know-error', HTMLParagraphElement), undefined);
  setText(line, undefined);
  know.hidden = true;
  know.open = false;
  if (signed === undefined) return;
  const { signer, state } = signed;
  const signers = await known();
  const name = signers.find((each) => each.signer === signer)?.name;
  const who = name ?? (await fingerprint(signer).catch(() => signer));
  if (displayedSignature !== signed) return;
  const claimed = signers.find((each) => folded(each.name) === folded(from))?.name;
  const isOther = name === undefined && claimed !== undefined;
  line.className = state !== 'valid' || isOther ? 'warning' : '';
  if (state !== 'valid') return setText(line, words.signature[state](who));
  know.hidden = name !== undefined;
  const text = name === undefined ? words.signedBy(who) : words.signedKnown(name);
  setText(line, isOther ? `${words.signedOther(claimed)} ${text}` : text);
  if (name === undefined) markWords(line, who);
}

/** Sets words apart in the text of a line. */
function markWords(line: HTMLElement, who: string): void {
  const code = document.createElement('code');
  code.textContent = who;
  const [before = '', after = ''] = line.textContent.split(who);
  line.replaceChildren(before, code, after);
}

/** Keeps the name that was entered. One that has another key is told first. */
async function keepName(signed: ParcelSignature): Promise<void> {
  const field = byId('know-name', HTMLInputElement);
  const name = field.value.trim();
  const error = byId('know-error', HTMLParagraphElement);
  setText(error, undefined);
  if (!isName(name)) {
    field.value = '';
    return void field.reportValidity();
  }
  const before = (await known()).find((each) => folded(each.name) === folded(name));
  if (displayedSignature !== signed) return;
  if (before !== undefined && replaced !== folded(name)) {
    replaced = folded(name);
    setText(error, words.nameTaken(before.name));
    return announce(error.textContent);
  }
  try {
    await keepSigner({ signer: signed.signer, name }, before?.signer);
    if (displayedSignature === signed) await showSignature(signed);
    byId('opened-title', HTMLHeadingElement).focus();
    announce(words.signedKnown(name));
  } catch {
    setText(error, words.keepsNothing);
    announce(error.textContent);
  }
}

onSubmit('know-form', () => {
  if (displayedSignature !== undefined) void keepName(displayedSignature);
});

/** Returns the six words of a signer. @throws TypeError without the list */
async function fingerprint(signer: string): Promise<string> {
  const response = await fetch('web/words.txt');
  return fingerprintOf(signer, (await response.text()).trim().split('\n'));
}
