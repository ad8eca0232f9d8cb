import {
  generateKeyPair,
  identityFromPkcs8,
  parseIdentities,
  parseRecipients,
  recipientFromSpki,
  type CryptoProvider,
} from '../../../crypto/index.ts';
import { encodeKey } from '../../../crypto/keys/bech32.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { fromBase64, join, pieces, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';
import { itemOf, present } from '../../../../testkit/present.ts';

const pem = (label: string, der: Uint8Array): string =>
  `-----BEGIN ${label}-----\n${btoa(String.fromCharCode(...der)).replace(/.{64}/g, '$&\n')}\n-----END ${label}-----\n`;
const derOf = (file: string): Uint8Array =>
  fromBase64(
    file
      .replace(/^#.*$/gm, '')
      .replace(/-----.*-----/g, '')
      .replaceAll('\n', ''),
  );
const x25519 = {
  identity: 'AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX',
  recipient: 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj',
};

/** Key pairs and key files. */
export function keys(tool: Tool, provider: CryptoProvider): void {
  tool.test('a key pair is four texts of one key', async () => {
    const { pkcs8, spki, privatePem, publicPem, recipient } = await generateKeyPair(provider);
    ok(/^age1tag1[02-9ac-hj-np-z]{58,}$/.test(recipient), recipient);
    equal(derOf(privatePem), pkcs8);
    equal(derOf(publicPem), spki);
    equal(
      [privatePem, publicPem].map((file) => file.split('\n')[0]),
      [`# recipient: ${recipient}`, `# recipient: ${recipient}`],
    );
    equal(recipientFromSpki(spki).text, recipient);
    equal(
      [publicPem, recipient, `# mine\n\n${recipient}\r\n`]
        .flatMap((file) => parseRecipients(file))
        .map((one) => one.text),
      [recipient, recipient, recipient],
    );
    const container = await seal(provider, 'sealpin', [recipientFromSpki(spki)], text('x'));
    equal(await unseal(provider, pieces(container), [identityFromPkcs8(pkcs8)]), text('x'));
    equal(
      await unseal(provider, pieces(container), parseIdentities(privatePem.replaceAll('\n', '\r\n'))),
      text('x'),
      'CRLF',
    );
  });

  tool.test('age keys open age files, and take no file of the other format', async () => {
    const recipients = parseRecipients(`# a comment\n${x25519.recipient}\n`);
    const container = await seal(provider, 'age', recipients, text('x'));
    equal(
      await unseal(provider, pieces(container), parseIdentities(`# created: today\n${x25519.identity}\n`)),
      text('x'),
    );
    await fails('key_invalid', () => seal(provider, 'sealpin', recipients, text('x')));
    const { recipient, privatePem } = await generateKeyPair(provider);
    await fails('decrypt_failed', () => unseal(provider, pieces(container), parseIdentities(privatePem)));
    const both = await seal(provider, 'age', parseRecipients(`${recipient}\n${x25519.recipient}`), text('x'));
    equal(await unseal(provider, pieces(both), parseIdentities(x25519.identity)), text('x'));
    equal(await unseal(provider, pieces(both), parseIdentities(privatePem)), text('x'));
  });

  tool.test('S35: what is not a key of the wanted kind is refused, with a hint and without an echo', async () => {
    const { privatePem, publicPem, recipient, spki, pkcs8 } = await generateKeyPair(provider);
    const other = await generateKeyPair(provider);
    const cut = (der: Uint8Array): Uint8Array => der.subarray(0, -1);
    const bad = (at: number, der: Uint8Array): Uint8Array => der.map((byte, index) => (index === at ? byte ^ 1 : byte));
    const notRecipients = [
      '',
      '\n# only a comment\n',
      'hello',
      'age1',
      recipient.slice(0, -1),
      recipient.replace('age1tag1', 'age1tpm1'),
      recipient.toUpperCase(),
      recipient.replace('q', 'Q'),
      `${recipient}x`,
      `${recipient} ${recipient}`,
      `${x25519.recipient.slice(0, -1)}p`,
      x25519.recipient.replace('age1', 'agf1'),
      x25519.identity,
      x25519.identity.toLowerCase(),
      privatePem,
      `${publicPem}${privatePem}`,
      `${recipient}\n${x25519.identity}`,
      publicPem.replace(recipient, other.recipient),
      publicPem.replace('PUBLIC KEY', 'RSA PUBLIC KEY').replace('PUBLIC KEY', 'RSA PUBLIC KEY'),
      publicPem.replace(/-----END.*/, ''),
      pem('PUBLIC KEY', cut(spki)),
      pem('PUBLIC KEY', bad(60, spki)),
      pem('PUBLIC KEY', bad(15, spki)),
      pem('PUBLIC KEY', bad(26, spki)),
      publicPem.replace('MFkw', 'MFk?'),
    ];
    for (const file of notRecipients) await fails('key_invalid', () => parseRecipients(file), file);
    const notIdentities = [
      '',
      '# only a comment',
      'hello',
      publicPem,
      recipient,
      x25519.recipient,
      x25519.identity.slice(0, -1),
      x25519.identity.toLowerCase(),
      `${x25519.identity}X`,
      'AGE-PLUGIN-YUBIKEY-1QGPS',
      privatePem.replace(recipient, other.recipient),
      pem('ENCRYPTED PRIVATE KEY', pkcs8),
      pem('EC PRIVATE KEY', pkcs8),
      pem('OPENSSH PRIVATE KEY', pkcs8),
      pem('PRIVATE KEY', cut(pkcs8)),
      pem('PRIVATE KEY', bad(pkcs8.length - 1, pkcs8)),
      pem('PRIVATE KEY', bad(23, pkcs8)),
      '-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n' +
        'AAAA\n-----END EC PRIVATE KEY-----',
    ];
    for (const file of notIdentities) await fails('key_invalid', () => parseIdentities(file), file);
    for (const [parse, file] of [
      [parseRecipients, x25519.identity],
      [parseRecipients, privatePem],
      [parseIdentities, `${x25519.identity}X`],
      [parseIdentities, `x ${x25519.identity}`],
    ] as const) {
      try {
        parse(file);
      } catch (error) {
        ok(
          parse === parseIdentities || String(error).includes('this is a private key'),
          `it is said to be: ${String(error)}`,
        );
        ok(
          !String(error).includes('GFPYYSJ') && !String(error).includes(file.slice(-60, -40)),
          'the error says part of the key',
        );
      }
    }
  });

  tool.test('a private key file whose public key is another one is refused, in SEC1 and in PKCS#8', async () => {
    const [pair, other] = [await generateKeyPair(provider), await generateKeyPair(provider)];
    const point = other.spki.subarray(26);
    const exchanged = pair.pkcs8.slice();
    exchanged.set(point, exchanged.length - 65);
    await fails('key_invalid', () => identityFromPkcs8(exchanged), 'in SEC1');
    await fails('key_invalid', () => parseIdentities(pem('PRIVATE KEY', exchanged)), 'in SEC1, in PEM');
    // RFC 5958 section 2: version 2 (written as 1) has the public key as [1], and either version
    // attributes as [0].
    const withItems = (version: number, ...extra: Uint8Array[]): Uint8Array => {
      const body = join([pair.pkcs8.subarray(3), ...extra]);
      body[2] = version;
      return join([Uint8Array.of(0x30, 0x81, body.length), body]);
    };
    const publicKey = (point: Uint8Array): Uint8Array => Uint8Array.of(0x81, point.length + 1, 0, ...point);
    const own = pair.spki.subarray(26);
    const attributes = Uint8Array.of(0xa0, 0);
    const container = await seal(provider, 'sealpin', [recipientFromSpki(pair.spki)], text('x'));
    for (const [what, der] of [
      ['version 1', withItems(0)],
      ['attributes', withItems(0, attributes)],
      ['version 2', withItems(1)],
      ['its point', withItems(1, publicKey(own))],
      ['its point, compressed', withItems(1, publicKey(provider.p256.compress(own)))],
      ['attributes and its point', withItems(1, attributes, publicKey(own))],
    ] as const)
      equal(await unseal(provider, pieces(container), [identityFromPkcs8(der)]), text('x'), what);
    for (const [what, der] of [
      ['another point', withItems(1, publicKey(provider.p256.compress(point)))],
      ['a point in version 1', withItems(0, publicKey(own))],
      ['version 3', withItems(2)],
      ['a trailing item', withItems(1, publicKey(provider.p256.compress(own)), Uint8Array.of(5, 0))],
      ['the wrong order', withItems(1, publicKey(provider.p256.compress(own)), attributes)],
      ['bytes after it', join([pair.pkcs8, Uint8Array.of(0)])],
      ['an item after it', join([pair.pkcs8, Uint8Array.of(5, 0)])],
    ] as const)
      await fails('key_invalid', () => identityFromPkcs8(der), what);
    await fails('key_invalid', () => recipientFromSpki(join([pair.spki, Uint8Array.of(5, 0)])), 'after SPKI');
    const longer = join([Uint8Array.of(0x30, pair.spki.length), pair.spki.subarray(2), Uint8Array.of(5, 0)]);
    await fails('key_invalid', () => recipientFromSpki(longer), 'in SPKI');
  });

  tool.test('a key in Bech32 has the length of its kind', async () => {
    for (const [prefix, bytes] of [
      ['age', 33],
      ['age', 31],
      ['age1tag', 32],
      ['age1tag', 65],
      ['age1pq', 1215],
      ['age1tagpq', 1250],
    ] as const)
      await fails('key_invalid', () => parseRecipients(encodeKey(prefix, new Uint8Array(bytes).fill(2))), prefix);
    for (const prefix of ['age-secret-key-', 'age-secret-key-pq-', 'sealpin-secret-key-pq-'])
      for (const bytes of [31, 33, 64])
        await fails(
          'key_invalid',
          () => parseIdentities(encodeKey(prefix, new Uint8Array(bytes).fill(2)).toUpperCase()),
          `${prefix} of ${bytes}`,
        );
  });

  tool.test('text around PEM is ignored, but for what may be a key with a typing error', async () => {
    const { privatePem, publicPem, recipient } = await generateKeyPair(provider);
    const block = (file: string): string => file.slice(file.indexOf('-----BEGIN'));
    // As openssl pkcs12 -nodes and openssl pkey -text write it.
    const bag = 'Bag Attributes\n    friendlyName: me\n    localKeyID: 54 69 6D 65\nKey Attributes: <No Attributes>\n';
    const dump =
      'Private-Key: (256 bit)\npriv:\n    00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:\nASN1 OID: prime256v1\n';
    for (const file of [bag + block(privatePem), block(privatePem) + dump, bag + privatePem + dump])
      equal(parseIdentities(file).length, 1);
    for (const file of [bag + block(publicPem), publicPem + dump, dump + publicPem + bag])
      equal(
        parseRecipients(file).map(({ text }) => text),
        [recipient],
      );
    equal(parseRecipients(publicPem + x25519.recipient).length, 2, 'a key next to PEM');
    const mistyped = x25519.recipient.replace('age1', 'aeg1');
    await fails('key_invalid', () => parseRecipients(`${publicPem}${mistyped}\n`), 'a typing error');
    await fails('key_invalid', () => parseRecipients(bag), 'text alone');
    await fails('key_invalid', () => parseIdentities(bag), 'text alone');
  });

  tool.test('the errors of key files name what is wrong', async () => {
    const [pair, other] = [await generateKeyPair(provider), await generateKeyPair(provider)];
    equal(parseIdentities(pair.privatePem + pair.publicPem).length, 1, 'a pair in one file');
    equal(parseIdentities(pair.publicPem + pair.privatePem).length, 1, 'the public key first');
    // An EC key with explicit parameters: the curve is a sequence.
    const explicit = pair.pkcs8.slice();
    explicit[17] = 0x30;
    const sec1 = Uint8Array.of(0x30, 0x29, 2, 1, 1, 4, 0x20, ...new Uint8Array(32).fill(5), 0xa0, 2, 0x30, 0);
    for (const [file, says] of [
      [pair.privatePem + other.publicPem, 'does not belong to a private key in the file'],
      [other.publicPem + pair.publicPem, 'this is a public key'],
      [pem('PRIVATE KEY', explicit), 'lists the parameters of its curve'],
      [pem('EC PRIVATE KEY', sec1), 'lists the parameters of its curve'],
      [pair.privatePem.replace('KEY-----\n', 'KEY-----\nName: value\n\n'), 'PEM headers'],
    ] as const) {
      let message = 'it is read';
      try {
        parseIdentities(file);
      } catch (error) {
        ({ message } = error as Error);
      }
      ok(message.includes(says), `${message}, where it should contain: ${says}`);
    }
  });

  tool.test('S33: points that are not on the curve are refused', async () => {
    const { spki } = await generateKeyPair(provider);
    const withPoint = (point: Uint8Array): Uint8Array => {
      const head = spki.slice(0, 26);
      head[1] = head.length - 2 + point.length;
      head[24] = point.length + 1;
      const whole = new Uint8Array(26 + point.length);
      whole.set(head);
      whole.set(point, 26);
      return whole;
    };
    const point = spki.slice(26);
    equal(recipientFromSpki(withPoint(point)).text, recipientFromSpki(spki).text);
    equal(recipientFromSpki(withPoint(provider.p256.compress(point))).text, recipientFromSpki(spki).text, 'compressed');
    const p = Uint8Array.from(
      present('ffffffff00000001000000000000000000000000ffffffffffffffffffffffff'.match(/../g)),
      (pair) => Number.parseInt(pair, 16),
    );
    const noRoot = Uint8Array.of(2, ...new Uint8Array(31), 1);
    const cases: [string, Uint8Array][] = [
      ['y + 1', point.map((byte, index) => (index === 64 ? byte ^ 1 : byte))],
      ['infinity', Uint8Array.of(0)],
      ['zeros', Uint8Array.of(4, ...new Uint8Array(64))],
      ['x = p', Uint8Array.of(4, ...p, ...point.subarray(33))],
      ['64 bytes', point.slice(0, 64)],
      ['66 bytes', Uint8Array.of(...point, 0)],
      ['hybrid form', point.map((byte, index) => (index === 0 ? 6 + (itemOf(point, 64) & 1) : byte))],
      ['no such x', noRoot],
    ];
    for (const [what, bad] of cases) {
      await fails('key_invalid', () => recipientFromSpki(withPoint(bad)), what);
      await fails(
        'key_invalid',
        () => (bad.length === 33 ? provider.p256.decompress(bad) : provider.p256.compress(bad)),
        `${what}, by the provider`,
      );
      await fails(
        'key_invalid',
        async () => provider.p256.agree(Uint8Array.of(...new Uint8Array(31), 5), bad),
        `${what}, agreeing`,
      );
    }
    for (const scalar of [new Uint8Array(32), new Uint8Array(32).fill(255)])
      await fails('key_invalid', () => provider.p256.publicKey(scalar), 'a scalar out of range');
    for (const low of [new Uint8Array(32), Uint8Array.of(1, ...new Uint8Array(31))])
      await fails('key_invalid', async () => provider.x25519.agree(pattern32, low), 'a low-order share');
  });
}

const pattern32 = Uint8Array.from({ length: 32 }, (_, index) => index + 1);
