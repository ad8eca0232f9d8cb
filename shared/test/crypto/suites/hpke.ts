/** HPKE and scrypt against the vectors of their RFCs. */
import accumulated from '../../vectors/hpke/filippo-rfc9180-base-accumulated.json' with { type: 'json' };
import edgeCases from '../../vectors/hpke/hpke-edge-cases.json' with { type: 'json' };
import postQuantum from '../../vectors/hpke/hpke-pq-test-vectors.json' with { type: 'json' };
import appendixA from '../../vectors/hpke/rfc9180-appendix-a.json' with { type: 'json' };
import scryptVectors from '../../vectors/kdf-rfc/scrypt-rfc7914.json' with { type: 'json' };
import ageExamples from '../../vectors/age-spec-examples/age-spec-examples.json' with { type: 'json' };
import { shake128 } from '@noble/hashes/sha3.js';
import { parseIdentities, parseRecipients, type CryptoProvider } from '../../../crypto/index.ts';
import { utf8 } from '../../../crypto/bytes.ts';
import { concat } from '../../../streams/concat.ts';
import {
  decapsulateP256,
  encapsulateP256,
  keySchedule,
  labeledExpand,
  labeledExtract,
  type HpkeAead,
} from '../../../crypto/stanzas/hpke.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { fromHex, hex, text } from '../streams.ts';
import { first, flip } from '../../../../testkit/present.ts';

const aeadOf = (id: number): HpkeAead => ({ id, keyBytes: id === 1 ? 16 : 32 });
const dhkemP256 = 16;
const hkdfSha256 = 1;

/**
 * DeriveKeyPair of DHKEM(P-256) (RFC 9180 section 7.1.3), which the vectors name their keys by and
 * no format uses.
 */
function deriveP256(
  provider: CryptoProvider,
  ikm: Uint8Array,
): { secret: Uint8Array; point: Uint8Array; attempts: number } {
  const suite = concat(utf8('KEM'), Uint8Array.of(0, dhkemP256));
  const prk = labeledExtract(provider, suite, new Uint8Array(0), 'dkp_prk', ikm);
  for (let attempt = 0; ; attempt += 1) {
    const secret = labeledExpand(provider, suite, prk, 'candidate', Uint8Array.of(attempt), 32);
    try {
      return { secret, point: provider.p256.publicKey(secret), attempts: attempt + 1 };
    } catch (error) {
      if (attempt === 255) throw error;
    }
  }
}

/** The nonce of message `sequence` (RFC 9180 section 5.2). */
function nonceOf(base: Uint8Array, sequence: number): Uint8Array {
  const nonce = base.slice();
  flip(nonce, 11, sequence & 0xff);
  flip(nonce, 10, (sequence >> 8) & 0xff);
  return nonce;
}

type Message = { sequence_number?: number; pt: string; aad: string; nonce: string; ct: string };
type Vector = {
  kem_id: number;
  aead_id: number;
  info: string;
  shared_secret: string;
  key: string;
  base_nonce: string;
  encryptions: Message[];
};

async function checkSchedule(provider: CryptoProvider, vector: Vector): Promise<void> {
  const { key, nonce, aead } = await keySchedule(
    provider,
    vector.kem_id,
    aeadOf(vector.aead_id),
    fromHex(vector.shared_secret),
    fromHex(vector.info),
  );
  equal([hex(key), hex(nonce)], [vector.key, vector.base_nonce]);
  for (const message of vector.encryptions) {
    equal(hex(await aead.seal(fromHex(message.nonce), fromHex(message.pt), fromHex(message.aad))), message.ct);
    equal(hex(await aead.open(fromHex(message.nonce), fromHex(message.ct), fromHex(message.aad))), message.pt);
  }
}

/** Encapsulates with the ephemeral key of the vector, and decapsulates. */
async function checkP256(
  provider: CryptoProvider,
  vector: { ikmE: string; ikmR: string; skRm: string; pkRm: string; enc: string; shared_secret?: string },
): Promise<Uint8Array> {
  const own = deriveP256(provider, fromHex(vector.ikmR));
  equal([hex(own.secret), hex(own.point)], [vector.skRm, vector.pkRm]);
  const ephemeral = deriveP256(provider, fromHex(vector.ikmE)).secret;
  const { enc, shared } = await encapsulateP256({ ...provider, random: () => ephemeral }, own.point);
  equal(hex(enc), vector.enc);
  equal(await decapsulateP256(provider, own, enc), shared);
  if (vector.shared_secret !== undefined) equal(hex(shared), vector.shared_secret);
  return shared;
}

export function hpke(tool: Tool, provider: CryptoProvider): void {
  const ofP256 = appendixA.filter(
    (vector) => vector.kem_id === dhkemP256 && vector.kdf_id === hkdfSha256 && vector.mode === 0,
  );
  tool.test(`HPKE, RFC 9180 appendix A: ${ofP256.length} vectors of P-256 in base mode`, async () => {
    equal(ofP256.length, 2);
    for (const vector of ofP256) {
      await checkP256(provider, vector);
      await checkSchedule(provider, vector);
    }
  });

  const suites = accumulated.filter(
    (vector) => vector.kem_id === dhkemP256 && vector.kdf_id === hkdfSha256 && vector.aead_id !== 0xffff,
  );
  tool.test(`HPKE, accumulated: ${suites.length} suites of P-256, 1,000 messages each`, async () => {
    equal(
      suites.map(({ aead_id }) => aead_id),
      [1, 2, 3],
    );
    for (const vector of suites) {
      const shared = await checkP256(provider, vector);
      const { nonce, aead } = await keySchedule(
        provider,
        vector.kem_id,
        aeadOf(vector.aead_id),
        shared,
        fromHex(vector.info),
      );
      const source = shake128.create();
      const sink = shake128.create();
      const drawInput = (): Uint8Array => source.xof(first(source.xof(1)));
      for (let sequence = 0; sequence < 1000; sequence += 1) {
        const aad = drawInput();
        sink.update(await aead.seal(nonceOf(nonce, sequence), drawInput(), aad));
      }
      equal(hex(sink.xof(16)), vector.encryptions_accumulated, `suite ${vector.aead_id}`);
    }
  });

  const base = edgeCases.filter(({ mode }) => mode === 0);
  tool.test(`HPKE edge cases: ${base.length} in base mode`, async () => {
    equal(base.length, 4);
    for (const vector of base) {
      await checkSchedule(provider, vector);
      if (vector.kem_id === dhkemP256) {
        await checkP256(provider, vector);
        equal(deriveP256(provider, fromHex(vector.ikmR)).attempts, 2, 'a candidate out of range is left out');
      }
    }
  });

  const hybrids = postQuantum.filter(({ kem_id }) => kem_id === 0x0050 || kem_id === 0x647a);
  tool.test(`hybrid KEMs: ${hybrids.length} vectors`, async () => {
    equal(hybrids.length, 4);
    for (const vector of hybrids) {
      const kem = vector.kem_id === 0x0050 ? provider.mlkem768p256 : provider.mlkem768x25519;
      equal(hex(kem.publicKey(fromHex(vector.skRm))), vector.pkRm);
      equal(hex(kem.decapsulate(fromHex(vector.skRm), fromHex(vector.enc))), vector.shared_secret);
      const random = provider.random(vector.kem_id === 0x0050 ? 160 : 64);
      const { enc, shared } = kem.encapsulate(fromHex(vector.pkRm), random);
      equal(kem.decapsulate(fromHex(vector.skRm), enc), shared);
      await fails('key_invalid', () => kem.encapsulate(fromHex(vector.pkRm).subarray(1), random));
      if (vector.kdf_id === hkdfSha256) await checkSchedule(provider, vector);
    }
  });

  const isWorkerd = navigator.userAgent === 'Cloudflare-Workers';
  // That of 16 MiB takes workerd seconds.
  const cheap = scryptVectors.filter(({ N }) => N <= (isWorkerd && !tool.long ? 2 ** 10 : 2 ** 14));
  const dear = scryptVectors.filter(({ N }) => N === 2 ** 20);
  tool.test('scrypt, RFC 7914: its vectors, and the one of 1 GiB in the long form', async () => {
    equal([scryptVectors.length, cheap.length, dear.length], [4, isWorkerd && !tool.long ? 2 : 3, 1]);
    const derive = ({ P, S, N, r, p }: (typeof scryptVectors)[number]): Promise<Uint8Array> =>
      provider.scrypt(text(P), text(S), { logN: Math.log2(N), r, p });
    for (const vector of tool.long && !isWorkerd ? [...cheap, ...dear] : cheap)
      equal(hex(await derive(vector)), vector.dk.slice(0, 64));
    if (isWorkerd) for (const vector of dear) await fails('kdf_unavailable', () => derive(vector));
  });

  tool.test('S32: a cost that the machine cannot pay is kdf_unavailable', async () => {
    await fails('kdf_unavailable', () => provider.scrypt(text('x'), text('y'), { logN: 31, r: 8, p: 1 }));
  });

  tool.test('the keys of the age specification are read, and make one another', () => {
    for (const name of ['x25519', 'mlkem768x25519'] as const) {
      const { identity, recipient } = ageExamples[name];
      equal(parseIdentities(`# recipient: ${recipient}\n${identity}`).length, 1);
      equal(parseRecipients(recipient)[0]?.text, recipient);
    }
    for (const name of ['p256tag', 'mlkem768p256tag'] as const)
      equal(parseRecipients(ageExamples[name].recipient)[0]?.text, ageExamples[name].recipient);
    ok(
      parseRecipients(ageExamples.mlkem768p256tag.recipient)[0]?.postQuantum === true,
      'it is not known as post-quantum',
    );
  });
  tool.note(
    `HPKE: RFC 9180 ${ofP256.length} of ${appendixA.length}, accumulated ${suites.length} of ` +
      `${accumulated.length}, edge cases ${base.length} of ${edgeCases.length}, hybrid KEMs ${hybrids.length} of ` +
      `${postQuantum.length}; scrypt ${cheap.length + (tool.long ? 1 : 0)} of ${scryptVectors.length}`,
  );
}
