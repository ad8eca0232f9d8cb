/** The words of a fingerprint, as the command line makes them: 66 bits of SHA-256, 11 for each. */
const wordCount = 6;
const bitsOfWord = 11;

/** Returns the six words of a signer, which people compare. @throws TypeError without the list */
export async function fingerprint(signer: string): Promise<string> {
  const response = await fetch('web/words.txt');
  const list = (await response.text()).trim().split('\n');
  if (list.length !== 2 ** bitsOfWord) throw new TypeError('the list of words is incomplete');
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(signer)));
  const bits = Array.from(digest, (byte) => byte.toString(2).padStart(8, '0')).join('');
  const indices = Array.from({ length: wordCount }, (_, at) => bits.slice(at * bitsOfWord, (at + 1) * bitsOfWord));
  return indices.map((each) => list[Number.parseInt(each, 2)]).join('-');
}
