/** Recipients of a container, and the credentials that open one. */
import {
  parseIdentities,
  parseRecipients,
  passwordIdentity,
  passwordRecipient,
  type Identity,
  type Recipient,
} from '../shared/crypto/index.ts';

/**
 * Recipients of what is sealed: anyone who knows the password, or the holders of the private keys
 * that belong to these public keys (`age1…`, `age1tag1…`, `age1tagpq1…`, or the text of a public
 * key file; a text may have several).
 */
export type To = { readonly password: string } | { readonly keys: string | readonly string[] };

/** A password, or the texts of private keys. */
export type Credentials = { readonly password: string } | { readonly keys: string | readonly string[] };

/**
 * Credentials that open a container: a password, private keys, or the file key (16 or 32 bytes) of
 * this one.
 */
export type With = Credentials | { readonly fileKey: Uint8Array };

/** Throws `password_invalid`, `key_invalid`. */
export function recipientsOf(to: To): Recipient[] {
  return 'password' in to
    ? [passwordRecipient(to.password)]
    : [to.keys].flat().flatMap((text) => parseRecipients(text));
}

/** Throws `password_invalid`, `key_invalid`. */
export function identitiesOf(credentials: Credentials): Identity[] {
  return 'password' in credentials
    ? [passwordIdentity(credentials.password)]
    : [credentials.keys].flat().flatMap((text) => parseIdentities(text));
}
