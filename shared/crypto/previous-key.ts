/** The private key of an account before the current one, while headers are still sealed to it. */
import { SealpinError } from '../errors.ts';
import { streamOf, utf8 } from './bytes.ts';
import { encrypt, open } from './container.ts';
import { identityFromPair, recipientFromSpki } from './keys/key-pair.ts';
import { decodePem, encodePem } from './keys/pem.ts';

/**
 * Seals a private key to the pair that takes its place, as an age file (shared/README.md, "API
 * keys").
 * @param pkcs8 in DER @param spki the new public key, in DER
 */
export async function sealPreviousKey(pkcs8: Uint8Array, spki: Uint8Array): Promise<Uint8Array> {
  const text = utf8(encodePem('PRIVATE KEY', pkcs8));
  const { stream } = await encrypt(streamOf(text), { format: 'age', recipients: [recipientFromSpki(spki)] });
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Opens what `sealPreviousKey` sealed.
 * @param pair in DER
 * @returns the private key before this pair, in DER
 * @throws SealpinError `decrypt_failed`, also for bytes that it did not make
 */
export async function openPreviousKey(
  sealed: Uint8Array,
  pair: { pkcs8: Uint8Array; spki: Uint8Array },
): Promise<Uint8Array> {
  const opened = await open(streamOf(sealed));
  if (opened.kind !== 'age') throw new SealpinError('decrypt_failed');
  const text = await new Response(await opened.decrypt([identityFromPair(pair.pkcs8, pair.spki)])).text();
  const previous = decodePem('PRIVATE KEY', text);
  if (previous === undefined) throw new SealpinError('decrypt_failed');
  return previous;
}
