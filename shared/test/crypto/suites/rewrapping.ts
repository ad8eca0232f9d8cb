import {
  encryptDetached,
  generateKeyPair,
  openDetached,
  parseIdentities,
  parseRecipients,
  passwordIdentity,
  passwordRecipient,
  recipientFromSpki,
  rewrap,
  rewrapHeader,
  identityFromPkcs8,
  type CryptoProvider,
  type Identity,
  type Recipient,
} from '../../../crypto/index.ts';
import { utf8 } from '../../../crypto/bytes.ts';
import { makeHeader } from '../../../crypto/file-key.ts';
import { formatOf } from '../../../crypto/formats/index.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, hex, join, pattern, pieces, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';
import { itemOf, present } from '../../../../testkit/present.ts';

const cheap = (password: string): Recipient => passwordRecipient(password, { name: 'scrypt', logN: 10 });
/** Returns what follows the MAC line. */
const payloadOf = (container: Uint8Array): Uint8Array =>
  container.subarray(present(/\n--- .{43}\n/.exec(String.fromCharCode(...container.subarray(0, 4000)))).index + 49);

/** Other recipients for containers that exist, and headers that do not belong to their payload. */
export function rewrapping(tool: Tool, provider: CryptoProvider): void {
  tool.test('a new password, or other keys, open the same payload; the old ones do not', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const plaintext = pattern(100_000);
    for (const format of ['age', 'sealpin'] as const) {
      const old = await seal(provider, format, [cheap('old')], plaintext);
      const change = async (
        container: Uint8Array,
        identities: Identity[],
        recipients: Recipient[],
      ): Promise<Uint8Array> => collect(await rewrap(pieces(container, 777), { identities, recipients, provider }));
      const renewed = await change(old, [passwordIdentity('old')], [cheap('new')]);
      equal(payloadOf(renewed), payloadOf(old), 'the payload');
      equal(await unseal(provider, pieces(renewed), [passwordIdentity('new')]), plaintext);
      await fails('decrypt_failed', () => unseal(provider, pieces(renewed), [passwordIdentity('old')]));
      const forKey = await change(renewed, [passwordIdentity('new')], parseRecipients(recipient));
      equal(payloadOf(forKey), payloadOf(old), 'the payload');
      equal(await unseal(provider, pieces(forKey), parseIdentities(privatePem)), plaintext);
      await fails('wrong_kind', () => unseal(provider, pieces(forKey), [passwordIdentity('new')]));
      await fails('decrypt_failed', () => change(old, [passwordIdentity('wrong')], [cheap('new')]));
      await fails('no_recipients', () => change(old, [passwordIdentity('old')], []));
    }
    await fails('not_encrypted', () =>
      rewrap(pieces(text('plain')), { identities: [passwordIdentity('x')], recipients: [cheap('y')], provider }),
    );
  });

  tool.test('the header of the encrypted mode goes to another key, and stays the header of its file', async () => {
    const [first, second] = [await generateKeyPair(provider), await generateKeyPair(provider)];
    const made = await encryptDetached(pieces(text('content')), { recipient: recipientFromSpki(first.spki), provider });
    const payload = await collect(made.payload);
    const file = { filename: 'a.txt', contentType: 'text/plain', size: 7 };
    const header = await made.header('file-1', file);
    const moved = await rewrapHeader(header, {
      identities: [identityFromPkcs8(first.pkcs8)],
      recipients: [recipientFromSpki(second.spki)],
      provider,
    });
    const opened = await openDetached(moved, {
      fileId: 'file-1',
      identities: [identityFromPkcs8(second.pkcs8)],
      provider,
    });
    equal(opened.file, file);
    equal(await collect(opened.decrypt(pieces(payload))), text('content'));
    await fails('decrypt_failed', () =>
      openDetached(moved, { fileId: 'file-1', identities: [identityFromPkcs8(first.pkcs8)], provider }),
    );
    await fails('decrypt_failed', () =>
      openDetached(moved, { fileId: 'file-2', identities: [identityFromPkcs8(second.pkcs8)], provider }),
    );
    await fails('invalid_request', () =>
      rewrapHeader(header, { identities: [identityFromPkcs8(first.pkcs8)], recipients: [cheap('x')], provider }),
    );
    await fails('header_invalid', () =>
      rewrapHeader(join([header, text('x')]), {
        identities: [identityFromPkcs8(first.pkcs8)],
        recipients: [recipientFromSpki(second.spki)],
        provider,
      }),
    );
  });

  tool.test('S8: a header and a payload that do not belong together are refused like a wrong password', async () => {
    for (const format of ['age', 'sealpin'] as const) {
      const [one, other] = [
        await seal(provider, format, [cheap('same')], text('one')),
        await seal(provider, format, [cheap('same')], text('two')),
      ];
      const crossed = join([one.subarray(0, one.length - payloadOf(one).length), payloadOf(other)]);
      await fails('decrypt_failed', () => unseal(provider, pieces(crossed), [passwordIdentity('same')]));
    }
  });

  tool.test(
    'S21: a body forged for two passwords opens under the one whose MAC it has, and not under the other',
    async () => {
      const salt = new Uint8Array(16).fill(9);
      const keyOf = (password: string): Promise<Uint8Array> =>
        provider.scrypt(utf8(password), join([utf8('sealpin/v1 scrypt'), salt]), { logN: 10, r: 8, p: 1 });
      const [keyA, keyB] = [await keyOf('alice'), await keyOf('bob')];
      const body = await forgeGcm(keyA, keyB);
      const fileKeys = await Promise.all(
        [keyA, keyB].map(async (key) => (await provider.aesGcm(key)).open(new Uint8Array(12), body)),
      );
      ok(
        hex(itemOf(fileKeys, 0)) !== hex(itemOf(fileKeys, 1)),
        'the body does not open under both keys to two file keys',
      );
      const stanza = { args: ['scrypt', btoa(String.fromCharCode(...salt)).replaceAll('=', ''), '10'], body };
      const { preamble, chunks } = await formatOf('sealpin').payload.create(provider, itemOf(fileKeys, 0));
      const container = join([
        makeHeader(provider, formatOf('sealpin'), itemOf(fileKeys, 0), [stanza]),
        preamble,
        await chunks.aead.seal(chunks.nonce(0, true), text('for alice')),
      ]);
      equal(await unseal(provider, pieces(container), [passwordIdentity('alice')]), text('for alice'));
      await fails('decrypt_failed', () => unseal(provider, pieces(container), [passwordIdentity('bob')]));
    },
  );
}

/** Products in GHASH's field (NIST SP 800-38D section 6.3): bit 0 is the leftmost. */
function multiply(x: bigint, y: bigint): bigint {
  let product = 0n;
  let v = y;
  for (let bit = 127n; bit >= 0n; bit -= 1n) {
    if ((x >> bit) & 1n) product ^= v;
    v = v & 1n ? (v >> 1n) ^ (0xe1n << 120n) : v >> 1n;
  }
  return product;
}

function invert(x: bigint): bigint {
  // x^(2^128 - 2), by squaring.
  let result = 1n << 127n;
  let power = x;
  for (let bit = 1; bit < 128; bit += 1) {
    power = multiply(power, power);
    result = multiply(result, power);
  }
  return result;
}

const toNumber = (bytes: Uint8Array): bigint => BigInt(`0x${hex(bytes)}`);
const toBytes = (value: bigint): Uint8Array =>
  Uint8Array.from(present(value.toString(16).padStart(32, '0').match(/../g)), (pair) => Number.parseInt(pair, 16));

/** AES of one block, by the key stream of counter mode. */
async function block(key: Uint8Array, input: Uint8Array): Promise<bigint> {
  const imported = await crypto.subtle.importKey('raw', key as Uint8Array<ArrayBuffer>, 'AES-CTR', false, ['encrypt']);
  return toNumber(
    new Uint8Array(
      await crypto.subtle.encrypt(
        { name: 'AES-CTR', counter: input as Uint8Array<ArrayBuffer>, length: 128 },
        imported,
        new Uint8Array(16),
      ),
    ),
  );
}

/**
 * 48 bytes that open under both keys with a nonce of zeros: two blocks of ciphertext and a tag that
 * both keys agree on.
 */
async function forgeGcm(keyA: Uint8Array, keyB: Uint8Array): Promise<Uint8Array> {
  const parts = async (key: Uint8Array) => {
    const h = await block(key, new Uint8Array(16));
    const h2 = multiply(h, h);
    return { h, h2, h3: multiply(h2, h), mask: await block(key, Uint8Array.of(...new Uint8Array(15), 1)) };
  };
  const [a, b] = [await parts(keyA), await parts(keyB)];
  const lengths = 256n;
  const first = 0x0123456789abcdefn;
  const tagWithout = (of: typeof a): bigint => multiply(first, of.h3) ^ multiply(lengths, of.h) ^ of.mask;
  const second = multiply(tagWithout(a) ^ tagWithout(b), invert(a.h2 ^ b.h2));
  return join([toBytes(first), toBytes(second), toBytes(tagWithout(a) ^ multiply(second, a.h2))]);
}
