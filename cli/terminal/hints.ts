/**
 * Hints for a person at the command line after a failure. The core gives a code and a reason and
 * knows no command; this table maps them to commands and flags. A hint on the error itself takes
 * precedence.
 */
import { type Code, describe, isSealpinError, ownHint, type Reason, SealpinError } from '../../shared/errors.ts';

const byReason: Readonly<Record<Reason, string>> = {
  wrong_password:
    'check Caps Lock and the keyboard layout, or the first bytes of the file are damaged; a ' +
    'lost password cannot be reset',
  no_key: 'run the same command with --key <private_key_file>, the private key that it was encrypted to',
  header: 'this copy is damaged or was changed: get it from another source',
  payload: 'the password or key is right: fetch the file again, or another copy of it',
  needs_password: 'use sealpin decrypt without a key: it asks for the password',
  needs_key: 'leave the password out, or name the private key that it protects with --key',
  password_and_keys: 'encrypt twice: once with the password, once to the keys',
  mixed_recipients: 'encrypt twice, or use --mix to allow it',
  mistyped: 'copy the whole line again',
  is_public: 'name private.key',
  is_private: 'name public.key, and keep private.key to yourself',
  is_protected: 'remove its password with: openssl pkey -in <file> -out <new file>',
  is_ssh:
    'an SSH key is made to sign, and Sealpin does not encrypt to such keys: ask its owner for one of ' +
    'sealpin keygen or age-keygen',
  unsupported_key: 'P-256 keys and age keys work; the owner of this one can make such a pair with: sealpin keygen',
  not_a_key: 'a key file has PEM blocks, or lines such as age1… or AGE-SECRET-KEY-1… in it',
  incomplete: 'copy all of the link, between quotes, or ask its sender for it again',
  not_a_link: 'a link looks like https://sealpin.example.com/s#1…, and comes between quotes',
  broken_off:
    'try again; if it stops at the same place again, what the service stores is damaged, and its log says more',
  unanswered: 'try again; if it happens again, check the address',
  foreign_layout: 'Sealpin reads files with raw leaves: store it again with ipfs add --cid-version=1',
  other_bytes: 'the bytes changed on the way: run the same command again',
  blob_absent: 'check the blob ID, or name a service or gateway that has it',
  blob_unavailable: 'try again later; for the local service see: sealpin status',
  redirected: 'redirects are not followed: if you trust that address, name it instead',
  subdomain_gateway:
    'a subdomain gateway cannot be used: name one that answers under /ipfs/ itself, such as http://127.0.0.1:8080',
  server_error: 'try again; if it happens again, the log of the service says more',
  not_a_gateway: 'check the address; it must be a Sealpin service or a trustless IPFS gateway that serves CAR files',
  bug: 'please report it, with the command (but without passwords) and the version',
};

const byCode: Readonly<Partial<Record<Code, string>>> = {
  file_exists: 'use --force to replace it',
  content_mismatch: 'ask another service or gateway for the same blob ID',
  archive_invalid:
    'nothing was extracted; without --extract the archive itself is written, to look into with other tools',
  unsupported_version: 'a newer sealpin may be able to read it',
  service_unreachable:
    'log in to one with: sealpin login <url> (or start one of your own with: sealpin start --detach)',
  already_running: 'see: sealpin status',
  not_running: 'start it with: sealpin start',
  port_in_use: 'choose another one with --port',
};

/** The hint for a failure; undefined when there is nothing to add to what it says. */
export function hintFor(error: SealpinError): string | undefined {
  const ofReason = error.reason === undefined ? undefined : byReason[error.reason];
  return ownHint(error) ?? ofReason ?? byCode[error.code] ?? describe(error.code).hint;
}

/** Names the flag where a service refuses what a command has sent for it, in words of its own. */
export function namingFlag(error: unknown, { args }: { readonly args: object }): unknown {
  if (!isSealpinError(error, 'invalid_request') || error.hint !== undefined) return error;
  if (!('expires' in args && /^expiresAt\b/.test(error.message))) return error;
  return new SealpinError(error.code, error.message, { hint: 'change --expires', cause: error });
}

/** Awaits some work; a failure with a certain code gets the hint, and the words, of a command. */
export async function hinting<T>(work: Promise<T>, code: Code, hint: string, detail?: string): Promise<T> {
  return work.catch((cause: unknown) => {
    if (!isSealpinError(cause, code)) throw cause;
    throw new SealpinError(code, detail ?? cause.message, { hint, cause });
  });
}
