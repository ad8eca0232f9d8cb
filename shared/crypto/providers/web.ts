/**
 * The provider for every runtime: WebCrypto where all runtimes have it, noble for the rest. With
 * `curves.ts` and `ed25519.ts` the one file that touches either.
 */
import { chacha20poly1305 } from '@noble/ciphers/chacha.js';
import { hmac } from '@noble/hashes/hmac.js';
import { scryptAsync } from '@noble/hashes/scrypt.js';
import { sha256, sha512 } from '@noble/hashes/sha2.js';
import { isSealpinError, SealpinError } from '../../errors.ts';
import type { Aead, CryptoProvider, CompressibleCurve, Curve, HybridKem } from './provider.ts';
import { concat } from '../../streams/concat.ts';
import { ml_kem768_p256, ml_kem768_x25519, p256, x25519 } from './curves.ts';

/** The most bytes of a call of `getRandomValues` (W3C Web Cryptography API, section 10.1.1). */
const maxRandomBytes = 65_536;
/**
 * The PBKDF2 iterations that a deployed Worker allows (workerd src/workerd/io/limit-enforcer.h,
 * DEFAULT_MAX_PBKDF2_ITERATIONS); workerd alone does not enforce it.
 */
const workersMaxIterations = 100_000;
/** Half of the 128 MB that a Worker's isolate has. */
const workersMaxMiB = 64;
/** Memory of scrypt at the highest cost that is read: 128 · 2^22 · 8 bytes (RFC 7914 section 2). */
const maxMiB = 4096;

const userAgent = (): string => (typeof navigator === 'undefined' ? '' : navigator.userAgent);
const isWorkers = (): boolean => userAgent() === 'Cloudflare-Workers';
const isChromium = (): boolean => userAgent().includes('Chrome/');

// WebCrypto's types ask for a view that is not on shared memory; none of ours is.
const owned = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => bytes as Uint8Array<ArrayBuffer>;

async function webAesGcm(rawKey: Uint8Array): Promise<Aead> {
  const key = await crypto.subtle.importKey('raw', owned(rawKey), 'AES-GCM', false, ['encrypt', 'decrypt']);
  const parameters = (nonce: Uint8Array, aad: Uint8Array | undefined) =>
    aad === undefined
      ? { name: 'AES-GCM', iv: owned(nonce), tagLength: 128 }
      : { name: 'AES-GCM', iv: owned(nonce), additionalData: owned(aad), tagLength: 128 };
  return {
    seal: (nonce, plaintext, aad, out) =>
      crypto.subtle.encrypt(parameters(nonce, aad), key, owned(plaintext)).then((sealed) => copyInto(out, sealed)),
    open: (nonce, ciphertext, aad, out) =>
      crypto.subtle.decrypt(parameters(nonce, aad), key, owned(ciphertext)).then(
        (opened) => copyInto(out, opened),
        () => {
          throw new SealpinError('decrypt_failed');
        },
      ),
  };
}

/**
 * Copies a result of WebCrypto, and frees its memory where the garbage collector would keep too
 * much of it.
 */
function copyInto(out: Uint8Array | undefined, result: ArrayBuffer): Uint8Array {
  if (out === undefined) return new Uint8Array(result);
  out.set(new Uint8Array(result));
  // Chromium holds on to what is transferred, and V8, which collects by what it counts, no longer
  // counts it.
  if (!isChromium()) result.transfer(0);
  return out;
}

function nobleChaChaPoly(key: Uint8Array): Aead {
  return {
    seal: (nonce, plaintext, aad, out) => chacha20poly1305(key, nonce, aad).encrypt(plaintext, out),
    open(nonce, ciphertext, aad, out) {
      try {
        return chacha20poly1305(key, nonce, aad).decrypt(ciphertext, out);
      } catch {
        throw new SealpinError('decrypt_failed');
      }
    },
  };
}

/** PKCS#8 of a P-256 key (RFC 5208, RFC 5915) without the public half, up to the scalar. */
const pkcs8Prefix = Uint8Array.from([
  0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
  0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20,
]);
const ecdh = { name: 'ECDH', namedCurve: 'P-256' };

/** Undefined where WebCrypto does not take a private key without its public half. */
async function importScalar(secret: Uint8Array): Promise<CryptoKey | undefined> {
  if (!p256.utils.isValidSecretKey(secret)) throw new SealpinError('key_invalid', 'the private key is out of range');
  try {
    return await crypto.subtle.importKey('pkcs8', owned(concat(pkcs8Prefix, secret)), ecdh, false, ['deriveBits']);
  } catch {
    return undefined;
  }
}

/** Returns the result of `body`. @throws SealpinError `key_invalid` for what noble refuses */
function withValidKey<T>(detail: string, body: () => T): T {
  try {
    return body();
  } catch (cause) {
    if (isSealpinError(cause)) throw cause;
    throw new SealpinError('key_invalid', detail, { cause });
  }
}

function p256Point(bytes: Uint8Array, length: number): InstanceType<typeof p256.Point> {
  return withValidKey('the public key is not a point of P-256', () => {
    if (bytes.length !== length) throw new RangeError(`a point has ${length} bytes`);
    return p256.Point.fromBytes(bytes);
  });
}

const webP256: CompressibleCurve = {
  publicKey(secret) {
    if (!p256.utils.isValidSecretKey(secret)) throw new SealpinError('key_invalid', 'the private key is out of range');
    return p256.getPublicKey(secret, false);
  },
  async agree(secret, peer) {
    const point = p256Point(peer, 65);
    const key = await importScalar(secret);
    if (key === undefined) return p256.getSharedSecret(secret, point.toBytes(true), true).subarray(1);
    const other = await crypto.subtle.importKey('raw', owned(peer), ecdh, false, []);
    const algorithm = { name: 'ECDH', public: other };
    return new Uint8Array(await crypto.subtle.deriveBits(algorithm, key, 256));
  },
  compress: (point) => p256Point(point, 65).toBytes(true),
  decompress: (point) => p256Point(point, 33).toBytes(false),
};

const nobleX25519: Curve = {
  publicKey: (secret) => x25519.getPublicKey(secret),
  agree: (secret, peer) =>
    withValidKey('the public key is not one of X25519', () => x25519.getSharedSecret(secret, peer)),
};

/** @param kem called at each use: where noble is loaded late, it is needed only then */
function nobleHybrid(kem: () => typeof ml_kem768_p256): HybridKem {
  const checked = <T>(body: () => T): T => withValidKey('the post-quantum key is not valid', body);
  return {
    publicKey: (seed) => kem().getPublicKey(seed),
    encapsulate: (publicKey, random) =>
      checked(() => {
        const { cipherText, sharedSecret } = kem().encapsulate(publicKey, random);
        return { enc: cipherText, shared: sharedSecret };
      }),
    decapsulate: (seed, enc) => checked(() => kem().decapsulate(enc, seed)),
  };
}

/** WebCrypto and noble: runs in workerd, Node and browsers. */
export const webProvider: CryptoProvider = {
  name: 'web',
  random(bytes) {
    const drawn = new Uint8Array(bytes);
    for (let offset = 0; offset < bytes; offset += maxRandomBytes)
      crypto.getRandomValues(drawn.subarray(offset, offset + maxRandomBytes));
    return drawn;
  },
  sha256: (data) => sha256(data),
  hmac: (hash, key, data) => hmac(hash === 'sha256' ? sha256 : sha512, key, data),
  aesGcm: webAesGcm,
  chaChaPoly: nobleChaChaPoly,
  p256: webP256,
  x25519: nobleX25519,
  mlkem768x25519: nobleHybrid(() => ml_kem768_x25519),
  mlkem768p256: nobleHybrid(() => ml_kem768_p256),
  async scrypt(password, salt, { logN, r, p }) {
    const mebibytes = (128 * r * 2 ** logN) / 2 ** 20;
    const unavailable = (cause?: unknown): SealpinError =>
      new SealpinError('kdf_unavailable', `the password needs ${mebibytes} MiB, more than this runtime has`, { cause });
    if (mebibytes > (isWorkers() ? workersMaxMiB : maxMiB)) throw unavailable();
    try {
      const limits = { dkLen: 32, asyncTick: 20, maxmem: 2 * maxMiB * 2 ** 20 };
      return await scryptAsync(password, salt, { N: 2 ** logN, r, p, ...limits });
    } catch (cause) {
      throw cause instanceof RangeError ? unavailable(cause) : cause;
    }
  },
  async pbkdf2(password, salt, iterations) {
    const detail = `the password needs ${iterations} iterations of PBKDF2; a Worker allows ${workersMaxIterations}`;
    if (isWorkers() && iterations > workersMaxIterations) throw new SealpinError('kdf_unavailable', detail);
    const key = await crypto.subtle.importKey('raw', owned(password), 'PBKDF2', false, ['deriveBits']);
    const algorithm = { name: 'PBKDF2', hash: 'SHA-512', salt: owned(salt), iterations };
    return new Uint8Array(await crypto.subtle.deriveBits(algorithm, key, 256));
  },
};
