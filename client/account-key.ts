/**
 * The key pair of an account, to which the service encrypts. An API key with `read` has the private
 * key, sealed to it.
 */
import { AccountDetails } from '../shared/api.ts';
import {
  apiKeyHint,
  decodePem,
  identityFromPkcs8,
  openPreviousKey,
  parseApiKey,
  unsealPrivateKey,
  type Identity,
} from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import type { ServiceHttp } from './service-http.ts';
import { bytesOfBase64 } from './web-bytes.ts';

/** Fetches what the service knows of the account. */
export function accountOf(http: ServiceHttp, signal: AbortSignal | undefined): Promise<AccountDetails> {
  return http.json(AccountDetails, { path: 'v1/account', signal });
}

/**
 * Unseals the private key of an account.
 * @param apiKey the key with which the account was asked for
 * @returns PKCS#8 in DER
 * @throws SealpinError `unauthorized` for a mistyped key, `insufficient_scope` for one without
 * `read`, `decrypt_failed`
 */
export async function privateKeyOf({ account, key }: AccountDetails, apiKey: string): Promise<Uint8Array> {
  const parsed = await parseApiKey(apiKey);
  if (parsed === undefined)
    throw new SealpinError('unauthorized', 'the API key is mistyped: its checksum does not match', {
      hint: 'copy all of it again',
    });
  if (key.sealed === undefined)
    throw new SealpinError(
      'insufficient_scope',
      'this API key lacks the scope read, so the private key is not sealed to it',
    );
  return unsealPrivateKey(parsed, { id: key.id, sealed: bytesOfBase64(key.sealed), spki: spkiOf(account.publicKey) });
}
/**
 * Returns the identities that open files encrypted to the account, while a rotation runs also that
 * of the pair before; fails as `privateKeyOf`.
 */
export async function accountIdentities(
  http: ServiceHttp,
  apiKey: string | undefined,
  signal: AbortSignal | undefined,
): Promise<Identity[]> {
  if (apiKey === undefined) throw new SealpinError('unauthorized', 'an API key is needed', { hint: apiKeyHint });
  const details = await accountOf(http, signal);
  const pkcs8 = await privateKeyOf(details, apiKey);
  const { account, rotation } = details;
  if (rotation === undefined) return [identityFromPkcs8(pkcs8)];
  const pair = { pkcs8, spki: spkiOf(account.publicKey) };
  return [pkcs8, await openPreviousKey(bytesOfBase64(rotation.previous), pair)].map(identityFromPkcs8);
}

function spkiOf(publicKey: string): Uint8Array {
  const spki = decodePem('PUBLIC KEY', publicKey);
  if (spki === undefined) throw new SealpinError('service_answer', 'the public key of the account is not a PEM block');
  return spki;
}
