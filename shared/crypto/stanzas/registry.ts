/** What each format demands of its header, beyond the grammar. */
import { SealpinError } from '../../errors.ts';
import { parseFileStanza } from './file-stanza.ts';
import { isPasswordStanza, parsePasswordStanza } from './password.ts';
import { parsePointStanza } from './p256.ts';
import type { Format, Stanza } from '../types.ts';

/** Bytes of a file key. */
export const fileKeyBytes = { age: 16, sealpin: 32 } as const satisfies Record<Format, number>;

/**
 * Stanzas that are checked before a key is asked for; unknown names are ignored (C2SP age.md, "Recipient stanza"). `sealpin/v1` has no
 * writer but Sealpin, so each stanza that it knows has to be right. An age file may name recipients of other tools: only a password, which
 * stands alone, is checked here, and each identity checks the stanzas of its own kind.
 */
const known: Record<Format, Record<string, (stanza: Stanza) => unknown>> = {
  age: {
    scrypt: (stanza) => parsePasswordStanza(stanza, 'age', fileKeyBytes.age),
  },
  sealpin: {
    scrypt: (stanza) => parsePasswordStanza(stanza, 'sealpin', fileKeyBytes.sealpin),
    'pbkdf2-sha512': (stanza) => parsePasswordStanza(stanza, 'sealpin', fileKeyBytes.sealpin),
    p256: (stanza) => parsePointStanza(stanza, 'sealpin'),
    file: parseFileStanza,
  },
};

/** Checks that a password stands alone, and the stanzas that have to be right whoever opens the file; throws `header_invalid`. */
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
