/** Project Wycheproof for every primitive of the formats. */
import aesGcm from '../../vectors/wycheproof/aes_gcm_test.json' with { type: 'json' };
import cobblestone from '../../vectors/wycheproof/c2sp_chunked_encryption_aes_256_gcm_test.json' with { type: 'json' };
import chaChaPoly from '../../vectors/wycheproof/chacha20_poly1305_test.json' with { type: 'json' };
import ecdhPoint from '../../vectors/wycheproof/ecdh_secp256r1_ecpoint_test.json' with { type: 'json' };
import ecdhPem from '../../vectors/wycheproof/ecdh_secp256r1_pem_test.json' with { type: 'json' };
import ecdhJwk from '../../vectors/wycheproof/ecdh_secp256r1_webcrypto_test.json' with { type: 'json' };
import hkdf256 from '../../vectors/wycheproof/hkdf_sha256_test.json' with { type: 'json' };
import hkdf512 from '../../vectors/wycheproof/hkdf_sha512_test.json' with { type: 'json' };
import hmac256 from '../../vectors/wycheproof/hmac_sha256_test.json' with { type: 'json' };
import mlKem from '../../vectors/wycheproof/mlkem_768_test.json' with { type: 'json' };
import mlKemKeys from '../../vectors/wycheproof/mlkem_768_keygen_seed_test.json' with { type: 'json' };
import pbkdf2 from '../../vectors/wycheproof/pbkdf2_hmacsha512_test.json' with { type: 'json' };
import { ml_kem768 } from '@noble/post-quantum/ml-kem.js';
import type { Aead, CryptoProvider } from '../../../crypto/index.ts';
import { openChunks } from '../../../crypto/payload/open-chunks.ts';
import { readCobblestone } from '../../../crypto/payload/cobblestone.ts';
import { parsePkcs8, parseSpki } from '../../../crypto/keys/der.ts';
import { expand, extract } from '../../../crypto/providers/kdf.ts';
import { ByteSource } from '../../../streams/byte-source.ts';
import { isSealpinError } from '../../../errors.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { isWebKit } from '../../../../testkit/browsers/engine.ts';
import { collect, digest, fromBase64, fromHex, hex, pieces, released } from '../streams.ts';
import { first, present } from '../../../../testkit/present.ts';

/** Expands zlib data. */
export function inflate(data: Uint8Array): Promise<Uint8Array> {
  return collect(
    pieces(data).pipeThrough(new DecompressionStream('deflate') as ReadableWritablePair<Uint8Array, Uint8Array>),
  );
}

/** The error of a call, or undefined. */
async function errorOf(body: () => unknown): Promise<Error | undefined> {
  try {
    await body();
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

type AeadGroup = {
  ivSize: number;
  tagSize: number;
  keySize: number;
  tests: { tcId: number; key: string; iv: string; aad: string; msg: string; ct: string; tag: string; result: string }[];
};

async function aeadVectors(
  groups: readonly AeadGroup[],
  cipher: (key: Uint8Array) => Aead | Promise<Aead>,
): Promise<void> {
  for (const { tests } of groups) {
    for (const { tcId, result, ...vector } of tests) {
      const [key, iv, aad, msg, ct, tag] = [vector.key, vector.iv, vector.aad, vector.msg, vector.ct, vector.tag].map(
        fromHex,
      ) as [Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array];
      const aead = await cipher(key);
      const sealed = Uint8Array.of(...ct, ...tag);
      if (result === 'valid') {
        equal(await aead.seal(iv, msg, aad), sealed, `sealing ${tcId}`);
        equal(await aead.open(iv, sealed, aad), msg, `opening ${tcId}`);
        const out = new Uint8Array(sealed.length);
        equal(await aead.seal(iv, msg, aad, out), sealed, `sealing ${tcId} in place`);
      } else await fails('decrypt_failed', async () => aead.open(iv, sealed, aad), `${tcId}`);
    }
  }
}

/** A private key of a wrong length has no public one. */
type MlKemTest = { tcId: number; result: string; seed: string; ek?: string; c: string; K: string };

type EcdhTest = { tcId: number; result: string; shared: string };

/**
 * Agrees as `read` says; valid ones must give the shared secret, invalid ones must fail, acceptable
 * ones may do either.
 */
async function ecdhVectors<T extends EcdhTest>(
  provider: CryptoProvider,
  tests: readonly T[],
  read: (test: T) => { secret: Uint8Array; point: Uint8Array },
): Promise<void> {
  for (const test of tests) {
    let shared: Uint8Array | undefined;
    const error = await errorOf(async () => {
      const { secret, point } = read(test);
      shared = await provider.p256.agree(secret, point.length === 33 ? provider.p256.decompress(point) : point);
    });
    if (test.result === 'valid') ok(error === undefined, `${test.tcId} fails with ${String(error)}`);
    if (test.result === 'invalid')
      ok(isSealpinError(error, 'key_invalid'), `${test.tcId} does not fail, or with ${String(error)}`);
    if (error === undefined) equal(hex(present(shared)), test.shared, `${test.tcId}`);
    else ok(isSealpinError(error, 'key_invalid'), `${test.tcId} fails with ${String(error)}`);
  }
}

const fixedScalar = (bytes: Uint8Array): Uint8Array => {
  const scalar = new Uint8Array(32);
  const trimmed = bytes.subarray(Math.max(0, bytes.length - 32));
  scalar.set(trimmed, 32 - trimmed.length);
  return scalar;
};
const fromUrlBase64 = (text: string): Uint8Array => fromBase64(text.replaceAll('-', '+').replaceAll('_', '/'));
const derOfPem = (pem: string): Uint8Array => fromBase64(pem.replace(/-----[^-]*-----/g, '').replace(/\s/g, ''));

export function wycheproof(tool: Tool, provider: CryptoProvider): void {
  const counts: string[] = [];
  /** @param count how many run @param all how many the file has */
  const family = (name: string, count: number, body: () => Promise<void>, all = count): void => {
    const said = count === all ? `${count}` : `${count} of ${all}`;
    counts.push(`${name} ${said}`);
    tool.test(`Wycheproof ${name}: ${said} vectors`, body);
  };
  const sum = (groups: readonly { tests: readonly unknown[] }[]): number =>
    groups.reduce((total, { tests }) => total + tests.length, 0);

  // The formats have nonces of 96 bits and keys of 256; keys of 128 run because the providers take
  // them.
  const gcm = (aesGcm.testGroups as AeadGroup[]).filter(
    ({ ivSize, tagSize, keySize }) => ivSize === 96 && tagSize === 128 && keySize !== 192,
  );
  family(
    'AES-GCM with 96-bit nonces',
    sum(gcm),
    () => aeadVectors(gcm, (key) => provider.aesGcm(key)),
    sum(aesGcm.testGroups),
  );
  const chaCha = (chaChaPoly.testGroups as AeadGroup[]).filter(({ ivSize }) => ivSize === 96);
  family(
    'ChaCha20-Poly1305',
    sum(chaCha),
    () => aeadVectors(chaCha, (key) => provider.chaChaPoly(key)),
    sum(chaChaPoly.testGroups),
  );

  family('ECDH P-256 with points', sum(ecdhPoint.testGroups), () =>
    ecdhVectors(provider, first(ecdhPoint.testGroups).tests, (test) => ({
      secret: fixedScalar(fromHex(test.private)),
      point: fromHex(test.public),
    })),
  );
  family('ECDH P-256 with JWK', sum(ecdhJwk.testGroups), () =>
    ecdhVectors(
      provider,
      first(ecdhJwk.testGroups).tests as (EcdhTest & { private: JsonWebKey; public: JsonWebKey })[],
      (test) => ({
        secret: fixedScalar(fromUrlBase64(present(test.private.d))),
        // A coordinate of another length makes a point of another length, which is refused.
        point: Uint8Array.of(4, ...fromUrlBase64(present(test.public.x)), ...fromUrlBase64(test.public.y ?? '')),
      }),
    ),
  );
  family('ECDH P-256 with PEM', sum(ecdhPem.testGroups), () =>
    ecdhVectors(provider, first(ecdhPem.testGroups).tests, (test) => ({
      secret: parsePkcs8(derOfPem(test.private)).secret,
      point: parseSpki(derOfPem(test.public)),
    })),
  );

  for (const [name, hash, file] of [
    ['HKDF-SHA-256', 'sha256', hkdf256],
    ['HKDF-SHA-512', 'sha512', hkdf512],
  ] as const) {
    family(name, sum(file.testGroups), async () => {
      for (const { tcId, result, ikm, salt, info, size, okm } of file.testGroups.flatMap(({ tests }) => tests)) {
        const prk =
          hash === 'sha256'
            ? extract(provider, fromHex(salt), fromHex(ikm))
            : provider.hmac('sha512', salt === '' ? new Uint8Array(64) : fromHex(salt), fromHex(ikm));
        if (result === 'valid') equal(hex(expand(provider, hash, prk, fromHex(info), size)), okm, `${tcId}`);
        else
          ok(
            (await errorOf(() => expand(provider, hash, prk, fromHex(info), size))) instanceof RangeError,
            `${tcId} does not fail`,
          );
      }
    });
  }
  family('HMAC-SHA-256', sum(hmac256.testGroups), async () => {
    for (const { tagSize, tests } of hmac256.testGroups) {
      for (const { tcId, result, key, msg, tag } of tests)
        equal(
          hex(provider.hmac('sha256', fromHex(key), fromHex(msg)).subarray(0, tagSize / 8)) === tag,
          result === 'valid',
          `${tcId}`,
        );
    }
  });
  family('PBKDF2-HMAC-SHA-512', sum(pbkdf2.testGroups), async () => {
    for (const { tcId, password, salt, iterationCount, dk } of pbkdf2.testGroups.flatMap(({ tests }) => tests)) {
      // WebKit takes no empty password, and neither do the formats.
      if (password === '' && isWebKit) continue;
      // Ours gives 32 bytes: the beginning of a longer result, within a block of the hash.
      const derived = hex(await provider.pbkdf2(fromHex(password), fromHex(salt), iterationCount));
      const length = Math.min(dk.length, 64);
      equal(derived.slice(0, length), dk.slice(0, length), `${tcId}`);
    }
  });
  // The providers have ML-KEM only inside the hybrids: this is the implementation that those use.
  family('ML-KEM-768', sum(mlKem.testGroups), async () => {
    for (const { tcId, result, seed, c, K, ek } of mlKem.testGroups.flatMap(({ tests }): MlKemTest[] => tests)) {
      let made: { ek: string; shared: string } | undefined;
      const error = await errorOf(() => {
        const { publicKey, secretKey } = ml_kem768.keygen(fromHex(seed));
        made = { ek: hex(publicKey), shared: hex(ml_kem768.decapsulate(fromHex(c), secretKey)) };
      });
      equal(error === undefined, result === 'valid', `${tcId} (${String(error)})`);
      if (result === 'valid') equal(made, { ek, shared: K }, `${tcId}`);
    }
  });
  family('ML-KEM-768 key generation', sum(mlKemKeys.testGroups), async () => {
    for (const { tcId, seed, ek, dk } of mlKemKeys.testGroups.flatMap(({ tests }) => tests)) {
      const { publicKey, secretKey } = ml_kem768.keygen(fromHex(seed));
      equal([hex(publicKey), hex(secretKey)], [ek, dk], `${tcId}`);
    }
  });
  family('C2SP chunked encryption', sum(cobblestone.testGroups), async () => {
    for (const { tcId, result, key, ctx, ct, msgLength, msgSha512, flags } of cobblestone.testGroups.flatMap(
      ({ tests }) => tests,
    )) {
      const source = new ByteSource(pieces(await inflate(fromHex(ct))));
      let bytes = new Uint8Array(0) as Uint8Array;
      const error = await errorOf(async () => {
        const chunks = await readCobblestone(source, provider, fromHex(key), fromHex(ctx));
        const out = await released(openChunks(source, () => chunks));
        bytes = out.bytes;
        if (out.error !== undefined) throw out.error;
      });
      equal(error === undefined, result === 'valid', `${tcId} (${String(error)})`);
      const isPartial = flags.includes('PartialPlaintext');
      if (result === 'valid' || isPartial) {
        equal(bytes.length, msgLength, `${tcId}`);
        equal(await digest('SHA-512', bytes), msgSha512, `${tcId}`);
      } else equal(bytes.length, 0, `${tcId}: bytes that came out`);
    }
  });
  tool.note(`Wycheproof: ${counts.join(', ')}`);
}
