/** What each format demands of its header, beyond the grammar. */
import { SealpinError } from '../errors.ts';
import { parseFileStanza } from './file-stanza.ts';
import { isPasswordStanza, parsePasswordStanza } from './password.ts';
import { parsePointStanza } from './p256.ts';
import { parseHybridStanza } from './post-quantum.ts';
import type { Format, Stanza } from './types.ts';
import { parseX25519Stanza } from './x25519.ts';

/** The first lines, without the line feed. */
export const versions = { age: 'age-encryption.org/v1', sealpin: 'sealpin/v1' } as const satisfies Record<
  Format,
  string
>;
/** Anything that starts like a version line: never taken for a plain file. */
export const versionLike = /^(?:age-encryption\.org\/|sealpin\/v[0-9])/i;
/** The first line of a detached payload, with it. */
export const detachedLine = 'sealpin/v1 detached\n';
/** Bytes of a file key. */
export const fileKeyBytes = { age: 16, sealpin: 32 } as const satisfies Record<Format, number>;

/** Known names with their strict readers; all others are ignored (C2SP age.md, "Recipient stanza"). */
const known: Record<Format, Record<string, (stanza: Stanza) => unknown>> = {
  age: {
    scrypt: (stanza) => parsePasswordStanza(stanza, 'age', fileKeyBytes.age),
    X25519: parseX25519Stanza,
    p256tag: (stanza) => parsePointStanza(stanza, 'age'),
    mlkem768x25519: parseHybridStanza,
    mlkem768p256tag: parseHybridStanza,
  },
  sealpin: {
    scrypt: (stanza) => parsePasswordStanza(stanza, 'sealpin', fileKeyBytes.sealpin),
    'pbkdf2-sha512': (stanza) => parsePasswordStanza(stanza, 'sealpin', fileKeyBytes.sealpin),
    p256: (stanza) => parsePointStanza(stanza, 'sealpin'),
    file: parseFileStanza,
  },
};

/** Checks every stanza with a known name, and that a password stands alone; throws `header_invalid`. */
export function checkStanzas(stanzas: readonly Stanza[], format: Format): void {
  if (stanzas.length > 1 && stanzas.some((stanza) => isPasswordStanza(stanza, format)))
    throw new SealpinError('header_invalid', 'The header combines a password with something else');
  for (const stanza of stanzas) {
    const name = stanza.args[0]!;
    if (Object.hasOwn(known[format], name)) known[format][name]!(stanza);
  }
  if (format === 'sealpin' && stanzas.filter(({ args }) => args[0] === 'file').length > 1)
    throw new SealpinError('header_invalid', 'The header belongs to more than one file');
}

/** Whether the header is one of the service's encrypted mode. */
export function isDetachedHeader(stanzas: readonly Stanza[], format: Format): boolean {
  return format === 'sealpin' && stanzas.some(({ args }) => args[0] === 'file');
}
