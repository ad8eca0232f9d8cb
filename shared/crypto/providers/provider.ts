import { SealpinError } from '../../errors.ts';

/** A value, or the promise of one: a provider that is done at once need not wrap its result. */
export type Awaitable<T> = T | Promise<T>;

/** AES-256-GCM or ChaCha20-Poly1305 under one key: 12-byte nonces, the 16-byte tag at the end. */
export interface Aead {
  /**
   * Seals plaintext. The caller makes sure that a nonce is used once per key.
   * @param nonce 12 bytes
   * @param aad additional data, none by default
   * @param out where the result may be written, plaintext.length + 16 bytes; an implementation is
   * free to return another array
   */
  seal(nonce: Uint8Array, plaintext: Uint8Array, aad?: Uint8Array, out?: Uint8Array): Awaitable<Uint8Array>;
  /**
   * Opens what `seal` made; throws `decrypt_failed`, whatever the reason.
   * @param ciphertext at least 16 bytes
   * @param out where the result may be written, ciphertext.length - 16 bytes
   */
  open(nonce: Uint8Array, ciphertext: Uint8Array, aad?: Uint8Array, out?: Uint8Array): Awaitable<Uint8Array>;
}

/**
 * Key agreement on a curve: P-256 (points as 65 bytes, uncompressed) or X25519 (32 bytes). Secrets
 * are 32 bytes.
 */
export interface Curve {
  /** The public key of a secret; throws `key_invalid` for a scalar out of range. */
  publicKey(secret: Uint8Array): Uint8Array;
  /**
   * The shared secret, 32 bytes (P-256: x); throws `key_invalid` for points off the curve,
   * infinity, low order.
   */
  agree(secret: Uint8Array, peer: Uint8Array): Awaitable<Uint8Array>;
}

/** P-256, which also has a short form of its points. */
export interface CompressibleCurve extends Curve {
  /** 65 bytes → 33 bytes; throws `key_invalid` for anything but a point of the curve. */
  compress(point: Uint8Array): Uint8Array;
  /** 33 bytes → 65 bytes; throws `key_invalid` when there is no such point. */
  decompress(point: Uint8Array): Uint8Array;
}

/** A post-quantum hybrid key encapsulation (draft-ietf-hpke-pq). Secrets are seeds of 32 bytes. */
export interface HybridKem {
  publicKey(seed: Uint8Array): Uint8Array;
  /** @param random 64 bytes for X25519, 160 for P-256; throws `key_invalid` */
  encapsulate(publicKey: Uint8Array, random: Uint8Array): { enc: Uint8Array; shared: Uint8Array };
  /** Throws `key_invalid` when the part of the curve is not a usable point. */
  decapsulate(seed: Uint8Array, enc: Uint8Array): Uint8Array;
}

/** The cost of scrypt (RFC 7914 section 2), with N = 2^logN. */
export type ScryptCost = { logN: number; r: number; p: number };

/** All primitives that the formats use. Every test vector runs against each implementation. */
export interface CryptoProvider {
  readonly name: string;
  /** Bytes from the system's random generator. */
  random(bytes: number): Uint8Array;
  sha256(data: Uint8Array): Uint8Array;
  hmac(hash: 'sha256' | 'sha512', key: Uint8Array, data: Uint8Array): Uint8Array;
  /** @param key 16 or 32 bytes; the formats use 32 */
  aesGcm(key: Uint8Array): Awaitable<Aead>;
  chaChaPoly(key: Uint8Array): Awaitable<Aead>;
  readonly p256: CompressibleCurve;
  readonly x25519: Curve;
  readonly mlkem768x25519: HybridKem;
  readonly mlkem768p256: HybridKem;
  /**
   * scrypt (RFC 7914), 32 bytes, without blocking; `kdf_unavailable` where the runtime cannot
   * afford it.
   */
  scrypt(password: Uint8Array, salt: Uint8Array, cost: ScryptCost): Promise<Uint8Array>;
  /**
   * PBKDF2-HMAC-SHA-512 (RFC 8018), 32 bytes, without blocking; `kdf_unavailable` where the runtime
   * refuses it.
   */
  pbkdf2(password: Uint8Array, salt: Uint8Array, iterations: number): Promise<Uint8Array>;
}

/**
 * Draws random bytes and refuses a generator that is plainly broken: one that fails, gives too few
 * bytes or repeats one byte.
 * @param bytes how many, at least 12
 * @throws SealpinError `random_failed`
 */
export function draw(provider: CryptoProvider, bytes: number): Uint8Array {
  let drawn: Uint8Array;
  try {
    drawn = provider.random(bytes);
  } catch (cause) {
    throw new SealpinError('random_failed', undefined, { cause });
  }
  if (drawn.length !== bytes || drawn.every((byte) => byte === drawn[0])) throw new SealpinError('random_failed');
  return drawn;
}

/**
 * Throws `random_failed` for a generator that gives the same bytes twice; called once before each
 * encryption.
 */
export function checkRandom(provider: CryptoProvider): void {
  const first = draw(provider, 16);
  if (draw(provider, 16).every((byte, index) => byte === first[index])) throw new SealpinError('random_failed');
}
