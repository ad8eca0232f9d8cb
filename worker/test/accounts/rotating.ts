/** Drives the rotation of an account's key pair, and opens what is sealed to a pair. */
import type { Rotation } from '../../../shared/api.ts';
import {
  decodePem,
  identityFromPkcs8,
  openContainerHeader,
  openPreviousKey,
  parseApiKey,
  unsealPrivateKey,
} from '../../../shared/crypto/index.ts';
import { isSealpinError } from '../../../shared/errors.ts';
import { present } from '../../../testkit/present.ts';
import { bytesOf, type Client } from '../../../testkit/api-client.ts';

/** The public key that a rotation by this key replaces: of one that runs, or the account's. */
export async function replacedBy(call: Client): Promise<string> {
  const { account, rotation } = await call.getAccount();
  return rotation?.replaces ?? account.publicKey;
}

/** Rotates until all is done. @returns the answer of each request */
export async function rotate(call: Client): Promise<Rotation[]> {
  const publicKey = await replacedBy(call);
  const answers: Rotation[] = [];
  do answers.push(await call.rotateAccount({ publicKey }));
  while (answers.at(-1)?.done !== true);
  return answers;
}

/** The private keys of the account that an API key opens, in DER: the current one first. */
export async function privateKeysOf(call: Client): Promise<Uint8Array[]> {
  const { account, key, rotation } = await call.getAccount();
  const spki = present(decodePem('PUBLIC KEY', account.publicKey));
  const sealed = Buffer.from(present(key.sealed), 'base64');
  const pkcs8 = await unsealPrivateKey(present(await parseApiKey(call.apiKey)), { id: key.id, sealed, spki });
  if (rotation === undefined) return [pkcs8];
  return [pkcs8, await openPreviousKey(Buffer.from(rotation.previous, 'base64'), { pkcs8, spki })];
}

/** The container of a file that the service encrypted. */
export function containerOf(call: Client, fileId: string): Promise<Buffer> {
  return bytesOf(call.ask('getFile', { fileId }, { headers: { Accept: 'application/vnd.sealpin' } }));
}

/** Tells whether a private key opens the container of a file. */
export async function opens(pkcs8: Uint8Array, container: Uint8Array, fileId: string): Promise<boolean> {
  try {
    const stream = present(new Response(container as BodyInit).body);
    await openContainerHeader(stream, { fileId, identities: [identityFromPkcs8(pkcs8)] });
    return true;
  } catch (error) {
    if (isSealpinError(error, 'decrypt_failed')) return false;
    throw error;
  }
}
