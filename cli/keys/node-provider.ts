/**
 * The crypto provider on `node:crypto`: the same formats as `webProvider`, at the speed of OpenSSL.
 */
import * as openssl from 'node:crypto';
import { promisify } from 'node:util';
import {
  webProvider,
  type Aead,
  type CryptoProvider,
  type CompressibleCurve,
  type Curve,
} from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { release } from '../io/byte-stream.ts';

const authTagBytes = 16;
/** Without this option, OpenSSL accepts a tag of 4 bytes. */
const tagOptions = { authTagLength: authTagBytes } as const;

function aead(cipher: openssl.CipherGCMTypes, rawKey: Uint8Array): Aead {
  const key = openssl.createSecretKey(rawKey);
  return {
    seal(nonce, plaintext, aad, out = new Uint8Array(plaintext.length + authTagBytes)) {
      const sealing = openssl.createCipheriv(cipher, key, nonce, tagOptions);
      if (aad !== undefined) sealing.setAAD(aad);
      const sealed = sealing.update(plaintext);
      out.set(sealed);
      release(sealed);
      sealing.final();
      out.set(sealing.getAuthTag(), plaintext.length);
      return out;
    },
    open(nonce, ciphertext, aad, out = new Uint8Array(Math.max(0, ciphertext.length - authTagBytes))) {
      if (ciphertext.length < authTagBytes) throw new SealpinError('decrypt_failed');
      const opening = openssl.createDecipheriv(cipher, key, nonce, tagOptions);
      if (aad !== undefined) opening.setAAD(aad);
      opening.setAuthTag(ciphertext.subarray(-authTagBytes));
      const opened = opening.update(ciphertext.subarray(0, -authTagBytes));
      try {
        opening.final();
      } catch {
        throw new SealpinError('decrypt_failed');
      }
      out.set(opened);
      release(opened);
      return out;
    },
  };
}

const curve = 'prime256v1';

function convert(point: Uint8Array, length: number, form: 'compressed' | 'uncompressed'): Uint8Array {
  // OpenSSL also accepts the hybrid form (06, 07), which no format here uses.
  const isForm = point[0] === 4 ? length === 65 : point[0] === 2 || point[0] === 3;
  try {
    if (isForm && point.length === length)
      return new Uint8Array(openssl.ECDH.convertKey(point, curve, undefined, undefined, form) as Buffer);
  } catch {
    // Not a point: refused below, like a point of another length.
  }
  throw new SealpinError('key_invalid', 'the public key is not a point of P-256');
}

function ecdhOf(secret: Uint8Array): openssl.ECDH {
  const ecdh = openssl.createECDH(curve);
  try {
    ecdh.setPrivateKey(secret);
  } catch {
    throw new SealpinError('key_invalid', 'the private key is out of range');
  }
  return ecdh;
}

const p256: CompressibleCurve = {
  publicKey: (secret) => new Uint8Array(ecdhOf(secret).getPublicKey()),
  agree(secret, peer) {
    convert(peer, 65, 'compressed');
    return new Uint8Array(ecdhOf(secret).computeSecret(peer));
  },
  compress: (point) => convert(point, 65, 'compressed'),
  decompress: (point) => convert(point, 33, 'uncompressed'),
};

/** PKCS#8 and SPKI of X25519 (RFC 8410), up to the 32 bytes of the key. */
const x25519Pkcs8 = Buffer.from('302e020100300506032b656e04220420', 'hex');
const x25519Spki = Buffer.from('302a300506032b656e032100', 'hex');
const x25519Private = (secret: Uint8Array) =>
  openssl.createPrivateKey({ key: Buffer.concat([x25519Pkcs8, secret]), format: 'der', type: 'pkcs8' });

const x25519: Curve = {
  publicKey: (secret) =>
    new Uint8Array(
      openssl.createPublicKey(x25519Private(secret)).export({ format: 'der', type: 'spki' }).subarray(-32),
    ),
  agree(secret, peer) {
    try {
      const publicKey = openssl.createPublicKey({
        key: Buffer.concat([x25519Spki, peer]),
        format: 'der',
        type: 'spki',
      });
      return new Uint8Array(openssl.diffieHellman({ privateKey: x25519Private(secret), publicKey }));
    } catch {
      // OpenSSL refuses an all-zero result itself.
      throw new SealpinError('key_invalid', 'the public key is not one of X25519');
    }
  },
};

const scryptAsync = promisify<Uint8Array, Uint8Array, number, openssl.ScryptOptions, Buffer>(openssl.scrypt);
const pbkdf2Async = promisify(openssl.pbkdf2);

/** Takes more memory only where it is free: a system that overcommits would end the process. */
const uncheckedBytes = 2 ** 30 + 2 ** 20;

/** Ciphers run on the main thread, where they cost least; passwords on the thread pool. */
export const nodeProvider: CryptoProvider = {
  name: 'node',
  random: (bytes) => openssl.randomFillSync(new Uint8Array(bytes)),
  sha256: (data) => new Uint8Array(openssl.createHash('sha256').update(data).digest()),
  hmac: (hash, key, data) => new Uint8Array(openssl.createHmac(hash, key).update(data).digest()),
  aesGcm: (key) => aead(key.length === 16 ? 'aes-128-gcm' : 'aes-256-gcm', key),
  // Node's types name the method of GCM ciphers alone, which ChaCha20-Poly1305 shares.
  chaChaPoly: (key) => aead('chacha20-poly1305' as openssl.CipherGCMTypes, key),
  p256,
  x25519,
  // Node has ML-KEM from version 24.7 on, and the hybrids not at all.
  mlkem768x25519: webProvider.mlkem768x25519,
  mlkem768p256: webProvider.mlkem768p256,
  async scrypt(password, salt, { logN, r, p }) {
    const memoryBytes = 128 * r * (2 ** logN + p);
    const freeBytes = process.availableMemory();
    const needs = `deriving the key from the password needs ${Math.ceil(memoryBytes / 2 ** 20)} MiB of memory`;
    if (memoryBytes > uncheckedBytes && memoryBytes > freeBytes) {
      const free = `this machine has ${Math.floor(freeBytes / 2 ** 20)} MiB free`;
      throw new SealpinError('kdf_unavailable', `${needs}; ${free}`);
    }
    const options = { N: 2 ** logN, r, p, maxmem: memoryBytes + 2 ** 20 };
    try {
      return new Uint8Array(await scryptAsync(password, salt, 32, options));
    } catch (cause) {
      throw new SealpinError('kdf_unavailable', `${needs}, which this machine refuses`, { cause });
    }
  },
  async pbkdf2(password, salt, iterations) {
    return new Uint8Array(await pbkdf2Async(password, salt, iterations, 32, 'sha512'));
  },
};
