import {
  generateKeyPair,
  identityFromPkcs8,
  parseIdentities,
  parseRecipients,
  recipientFromSpki,
  type Backend,
} from '../../../crypto/index.ts';
import { equal, fails, ok, type Tool } from '../check.ts';
import { fromBase64, pieces, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';

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
export function keys(tool: Tool, backend: Backend): void {
  tool.test('a key pair is four texts of one key', async () => {
    const { pkcs8, spki, privatePem, publicPem, recipient } = await generateKeyPair(backend);
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
    const container = await seal(backend, 'sealpin', [recipientFromSpki(spki)], text('x'));
    equal(await unseal(backend, pieces(container), [identityFromPkcs8(pkcs8)]), text('x'));
    equal(
      await unseal(backend, pieces(container), parseIdentities(privatePem.replaceAll('\n', '\r\n'))),
      text('x'),
      'CRLF',
    );
  });

  tool.test('age keys open age files, and take no file of the other format', async () => {
    const recipients = parseRecipients(`# a comment\n${x25519.recipient}\n`);
    const container = await seal(backend, 'age', recipients, text('x'));
    equal(
      await unseal(backend, pieces(container), parseIdentities(`# created: today\n${x25519.identity}\n`)),
      text('x'),
    );
    await fails('key_invalid', () => seal(backend, 'sealpin', recipients, text('x')));
    const { recipient, privatePem } = await generateKeyPair(backend);
    await fails('decrypt_failed', () => unseal(backend, pieces(container), parseIdentities(privatePem)));
    const both = await seal(backend, 'age', parseRecipients(`${recipient}\n${x25519.recipient}`), text('x'));
    equal(await unseal(backend, pieces(both), parseIdentities(x25519.identity)), text('x'));
    equal(await unseal(backend, pieces(both), parseIdentities(privatePem)), text('x'));
  });

  tool.test('S35: what is not a key of the wanted kind is refused, with a hint and without an echo', async () => {
    const { privatePem, publicPem, recipient, spki, pkcs8 } = await generateKeyPair(backend);
    const other = await generateKeyPair(backend);
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
      '-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----',
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
          parse === parseIdentities || String(error).includes('This is a private key'),
          `it is said to be: ${String(error)}`,
        );
        ok(
          !String(error).includes('GFPYYSJ') && !String(error).includes(file.slice(-60, -40)),
          'the error says part of the key',
        );
      }
    }
  });

  tool.test('S33: points that are not on the curve are refused', async () => {
    const { spki } = await generateKeyPair(backend);
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
    equal(recipientFromSpki(withPoint(backend.p256.compress(point))).text, recipientFromSpki(spki).text, 'compressed');
    const p = Uint8Array.from(
      'ffffffff00000001000000000000000000000000ffffffffffffffffffffffff'.match(/../g)!,
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
      ['hybrid form', point.map((byte, index) => (index === 0 ? 6 + (point[64]! & 1) : byte))],
      ['no such x', noRoot],
    ];
    for (const [what, bad] of cases) {
      await fails('key_invalid', () => recipientFromSpki(withPoint(bad)), what);
      await fails(
        'key_invalid',
        () => (bad.length === 33 ? backend.p256.decompress(bad) : backend.p256.compress(bad)),
        `${what}, by the backend`,
      );
      await fails(
        'key_invalid',
        async () => backend.p256.agree(Uint8Array.of(...new Uint8Array(31), 5), bad),
        `${what}, agreeing`,
      );
    }
    for (const scalar of [new Uint8Array(32), new Uint8Array(32).fill(255)])
      await fails('key_invalid', () => backend.p256.publicKey(scalar), 'a scalar out of range');
    for (const low of [new Uint8Array(32), Uint8Array.of(1, ...new Uint8Array(31))])
      await fails('key_invalid', async () => backend.x25519.agree(pattern32, low), 'a low-order share');
  });
}

const pattern32 = Uint8Array.from({ length: 32 }, (_, index) => index + 1);
