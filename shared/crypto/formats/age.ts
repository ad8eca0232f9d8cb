import { ageStream } from '../payload/age-stream.ts';
import { aeads } from '../stanzas/hpke.ts';
import { parsePasswordStanza } from '../stanzas/password.ts';
import type { FormatRow } from './format-row.ts';

/**
 * age v1 (C2SP age.md). A file may name recipients of other tools: only a password, which must be
 * the only stanza, is checked before a key is asked for.
 */
export const age: FormatRow = {
  name: 'age',
  versionLine: 'age-encryption.org/v1',
  isArmorable: true,
  fileKeyBytes: 16,
  macInfo: 'header',
  wrapAead: aeads.chaChaPoly,
  p256: { name: 'p256tag', info: 'age-encryption.org/p256tag', isTagged: true },
  // age and rage have the same upper limit and no lower one: reading a weak file does not make it
  // weaker.
  passwords: { scrypt: { saltLabel: 'age-encryption.org/v1/scrypt', min: 1, max: 22 } },
  stanzas: new Map([
    ['scrypt', { kind: 'password', check: parsePasswordStanza }],
    ['X25519', { kind: 'key' }],
    ['p256tag', { kind: 'key' }],
    ['mlkem768x25519', { kind: 'key' }],
    ['mlkem768p256tag', { kind: 'key' }],
  ]),
  payload: ageStream,
};
