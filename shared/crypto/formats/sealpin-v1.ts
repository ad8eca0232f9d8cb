import { hkdf } from '../providers/kdf.ts';
import type { CryptoProvider } from '../providers/provider.ts';
import { utf8 } from '../bytes.ts';
import { cobblestoneChunking, newCobblestone, preambleBytes, readCobblestone } from '../payload/cobblestone.ts';
import { parseFileStanza } from '../stanzas/file-stanza.ts';
import { aeads } from '../stanzas/hpke.ts';
import { parsePointStanza } from '../stanzas/p256.ts';
import { costs, parsePasswordStanza } from '../stanzas/password.ts';
import type { FormatRow } from './format-row.ts';

/** The context of Cobblestone-256. */
const payloadContext = utf8('sealpin/v1');

/** Derives the input key of Cobblestone-256. */
function payloadKey(provider: CryptoProvider, fileKey: Uint8Array): Uint8Array {
  return hkdf(provider, fileKey, new Uint8Array(0), 'sealpin/v1 payload');
}

/** `sealpin/v1`. No other tool writes it, so each stanza that it defines must be right. */
export const sealpinV1 = {
  name: 'sealpin',
  versionLine: 'sealpin/v1',
  detachedLine: 'sealpin/v1 detached\n',
  isArmorable: false,
  fileKeyBytes: 32,
  macInfo: 'sealpin/v1 header',
  wrapAead: aeads.aes256Gcm,
  p256: { name: 'p256', info: 'sealpin/v1 p256', isTagged: false },
  passwords: {
    scrypt: { saltLabel: 'sealpin/v1 scrypt', ...costs.scrypt },
    'pbkdf2-sha512': { saltLabel: 'sealpin/v1 pbkdf2-sha512', ...costs['pbkdf2-sha512'] },
  },
  stanzas: new Map([
    ['scrypt', { kind: 'password', check: parsePasswordStanza }],
    ['pbkdf2-sha512', { kind: 'password', check: parsePasswordStanza }],
    ['p256', { kind: 'key', check: parsePointStanza }],
    ['file', { kind: 'file', check: parseFileStanza }],
  ]),
  payload: {
    chunking: cobblestoneChunking,
    preambleBytes,
    create: (provider, fileKey) => newCobblestone(provider, payloadKey(provider, fileKey), payloadContext),
    read: (source, provider, fileKey) =>
      readCobblestone(source, provider, payloadKey(provider, fileKey), payloadContext),
  },
} satisfies FormatRow;
