/**
 * Post-quantum hybrid keys of age (C2SP age.md, "The mlkem768x25519 recipient type" and "The
 * mlkem768p256tag recipient type"), for files that must resist the quantum computers of the future.
 */
import { SealpinError } from '../../errors.ts';
import { draw, type CryptoProvider } from '../providers/provider.ts';
import { encodeBase64, timingSafeEqual, utf8 } from '../bytes.ts';
import { aeads, agreed, firstOpened, kems, keySchedule, openedBy, parseKeyStanza, stanzaTag } from './hpke.ts';
import { decodeKey, encodeKey } from '../keys/bech32.ts';
import type { NamedIdentity, Recipient } from '../types.ts';

/** The kinds, by their stanzas. The prefix of `mlkem768p256tag` identities is Sealpin's own. */
const hybridKinds = {
  mlkem768x25519: {
    kem: kems.mlkem768x25519,
    of: (provider: CryptoProvider) => provider.mlkem768x25519,
    randomBytes: 64,
    isTagged: false,
    encBytes: 1120,
    publicBytes: 1216,
    prefix: 'age1pq',
    secretPrefix: 'age-secret-key-pq-',
  },
  mlkem768p256tag: {
    kem: kems.mlkem768p256,
    of: (provider: CryptoProvider) => provider.mlkem768p256,
    randomBytes: 160,
    isTagged: true,
    encBytes: 1153,
    publicBytes: 1249,
    prefix: 'age1tagpq',
    secretPrefix: 'sealpin-secret-key-pq-',
  },
} as const;
/** Offset of the P-256 part of an `mlkem768p256tag` public key, which the tag is made of. */
const pointOffset = 1184;
const seedBytes = 32;

/** The name of a post-quantum stanza. */
export type HybridName = keyof typeof hybridKinds;

const infoOf = (name: HybridName): Uint8Array => utf8(`age-encryption.org/${name}`);

/** Makes the recipient of an `age1pq1…` or `age1tagpq1…` text; throws `key_invalid`. */
export function hybridRecipient(text: string): Recipient {
  const name: HybridName = text.startsWith('age1tagpq1') ? 'mlkem768p256tag' : 'mlkem768x25519';
  const kind = hybridKinds[name];
  const publicKey = decodeKey(text, kind.prefix, kind.publicBytes);
  return {
    kind: 'key',
    text,
    postQuantum: true,
    async wrap(fileKey, format, provider) {
      if (!format.stanzas.has(name)) throw new SealpinError('key_invalid', 'a post-quantum key takes age files only');
      const { enc, shared } = kind.of(provider).encapsulate(publicKey, draw(provider, kind.randomBytes));
      const { aead, nonce } = await keySchedule(provider, kind.kem, aeads.chaChaPoly, shared, infoOf(name));
      const tag = kind.isTagged
        ? [encodeBase64(stanzaTag(provider, infoOf(name), enc, publicKey.subarray(pointOffset)))]
        : [];
      return { args: [name, ...tag, encodeBase64(enc)], body: await aead.seal(nonce, fileKey) };
    },
  };
}

/** Recognizes the beginning of a post-quantum private key. */
export function isHybridSecret(text: string): boolean {
  return Object.values(hybridKinds).some(({ secretPrefix }) => text.startsWith(`${secretPrefix.toUpperCase()}1`));
}

/**
 * Makes a post-quantum key pair as texts; throws `random_failed`.
 * @param given its seed, 32 bytes; a fresh one by default
 */
export function newHybridKey(
  provider: CryptoProvider,
  name: HybridName,
  given?: Uint8Array,
): { seed: Uint8Array; secret: string; recipient: string } {
  const seed = given ?? draw(provider, seedBytes);
  if (seed.length !== seedBytes) throw new TypeError(`a seed has ${seedBytes} bytes`);
  const { prefix, secretPrefix, of } = hybridKinds[name];
  return {
    seed,
    secret: encodeKey(secretPrefix, seed).toUpperCase(),
    recipient: encodeKey(prefix, of(provider).publicKey(seed)),
  };
}

/**
 * Makes the identity of an `AGE-SECRET-KEY-PQ-1…` or `SEALPIN-SECRET-KEY-PQ-1…` text; throws
 * `key_invalid`.
 */
export function hybridIdentity(text: string, provider: CryptoProvider): NamedIdentity {
  const name: HybridName = text.startsWith('SEALPIN-') ? 'mlkem768p256tag' : 'mlkem768x25519';
  const kind = hybridKinds[name];
  const seed = decodeKey(text, kind.secretPrefix, seedBytes);
  const publicKey = kind.of(provider).publicKey(seed);
  return {
    kind: 'key',
    recipient: encodeKey(kind.prefix, publicKey),
    unwrap: ({ stanzas }, format, provider) =>
      firstOpened(name, format.stanzas.has(name) ? stanzas : [], async (stanza) => {
        const parsed = parseKeyStanza(stanza, { ...kind, bodyBytes: 32 });
        if (parsed === undefined)
          throw new SealpinError('header_invalid', 'an entry for a post-quantum key is malformed');
        const { tag, enc } = parsed;
        const isOwn = (given: Uint8Array): boolean =>
          timingSafeEqual(given, stanzaTag(provider, infoOf(name), enc, publicKey.subarray(pointOffset)));
        if (tag !== undefined && !isOwn(tag)) return undefined;
        const shared = await agreed('a post-quantum key has a point that cannot be used', () =>
          kind.of(provider).decapsulate(seed, enc),
        );
        const { aead, nonce } = await keySchedule(provider, kind.kem, aeads.chaChaPoly, shared, infoOf(name));
        return openedBy(aead, nonce, stanza.body);
      }),
  };
}
