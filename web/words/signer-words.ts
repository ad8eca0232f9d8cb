import { fingerprintOf } from '../../shared/link/fingerprint-words.ts';

/** Returns the six words of a signer. @throws TypeError without the list */
export async function fingerprint(signer: string): Promise<string> {
  const response = await fetch('web/words.txt');
  return fingerprintOf(signer, (await response.text()).trim().split('\n'));
}
