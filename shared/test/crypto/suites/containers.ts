import {
  encrypt,
  encryptDetached,
  generateKeyPair,
  identityFromPkcs8,
  open,
  parseIdentities,
  parseRecipients,
  passwordIdentity,
  passwordRecipient,
  recipientFromSpki,
  type CryptoProvider,
  type Format,
  type Identity,
  type Recipient,
} from '../../../crypto/index.ts';
import { encodePkcs8, encodeSpki } from '../../../crypto/keys/der.ts';
import { equal, failedWith, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { byteStream, collect, hex, join, pattern, pieces, released, text } from '../streams.ts';
import { itemOf } from '../../../../testkit/present.ts';

/** Encrypts bytes to bytes. */
export async function seal(
  provider: CryptoProvider,
  format: Format,
  recipients: readonly Recipient[],
  plaintext: Uint8Array,
): Promise<Uint8Array> {
  const { stream } = await encrypt(pieces(plaintext), { format, recipients, provider });
  return collect(stream);
}

/** Decrypts bytes to bytes. */
export async function unseal(
  provider: CryptoProvider,
  container: ReadableStream<Uint8Array>,
  identities: readonly Identity[],
): Promise<Uint8Array> {
  const opened = await open(container, { provider });
  if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
  return collect(await opened.decrypt(identities));
}

const chunkBytes = { age: 65_536, sealpin: 16_384 } as const;
const formats = ['age', 'sealpin'] as const;
const cheap = { name: 'scrypt', logN: 10 } as const;

/** The containers from end to end: sizes, cuts, recipients, streams. */
export function containers(tool: Tool, provider: CryptoProvider): void {
  tool.test('the known answers of the format: what each stanza makes of fixed random bytes', async () => {
    const counting = (bytes: number): Uint8Array => Uint8Array.from({ length: bytes }, (_, index) => index);
    /**
     * The first two draws only test the generator; then come file key, salts, scalars and nonces.
     */
    const fixed = (): CryptoProvider => {
      let calls = 0;
      return { ...provider, random: (bytes) => ((calls += 1) <= 2 ? provider.random(bytes) : counting(bytes)) };
    };
    const scalar = Uint8Array.from({ length: 32 }, (_, index) => 0x20 + index);
    const spki = encodeSpki(provider.p256.publicKey(scalar));
    const identity = identityFromPkcs8(encodePkcs8(scalar, spki.subarray(26)));
    const answers: [Uint8Array, string, Identity][] = [
      [
        await seal(fixed(), 'sealpin', [passwordRecipient('password', cheap)], text('hello')),
        'a03e275d6cc650b83f311076ff6050f7918e0a36c3ed9be23c27806c997fc109',
        passwordIdentity('password'),
      ],
      [
        await seal(fixed(), 'sealpin', [recipientFromSpki(spki)], text('hello')),
        '6f7775a5917f50a777130e3b014845a45d0e1870703ab03054d20f4741e98d80',
        identity,
      ],
    ];
    if (navigator.userAgent !== 'Cloudflare-Workers')
      answers.push([
        await seal(
          fixed(),
          'sealpin',
          [passwordRecipient('password', { name: 'pbkdf2-sha512', iterations: 220_000 })],
          text('hello'),
        ),
        'e72bfb2eb7e5bc937cf0fcfd308641a4690958929f107e381ccebd9796d503fa',
        passwordIdentity('password'),
      ]);
    const detached = await encryptDetached(pieces(text('hello')), {
      recipient: recipientFromSpki(spki),
      provider: fixed(),
    });
    const payload = await collect(detached.payload);
    const header = await detached.header('example', { filename: 'hello.txt', contentType: 'text/plain', size: 5 });
    answers.push([
      join([header, payload]),
      '746a824984df723ea1a75529fae5c921a026a44bce6524667d9144d7c27c6bbe',
      identity,
    ]);
    for (const [container, digest, identity] of answers) {
      equal(hex(provider.sha256(container)), digest);
      equal(await unseal(provider, pieces(container), [identity]), text('hello'));
    }
  });

  for (const format of formats) {
    const chunk = chunkBytes[format];

    tool.test(
      `S11 S12: ${format}: every size around the edges of chunks and batches comes back, and has the computed size`,
      async () => {
        const { recipient, privatePem } = await generateKeyPair(provider);
        const batch = 1024 * 1024;
        for (const size of [
          0,
          1,
          15,
          16,
          17,
          chunk - 1,
          chunk,
          chunk + 1,
          2 * chunk - 1,
          2 * chunk,
          2 * chunk + 1,
          batch - 1,
          batch,
          batch + 1,
          batch + chunk,
          2 * batch,
          2 * batch + 12_345,
        ]) {
          const plaintext = pattern(size);
          const made = await encrypt(pieces(plaintext), { format, recipients: parseRecipients(recipient), provider });
          const container = await collect(made.stream);
          equal(container.length, made.size(size), `size for ${size}`);
          equal(await unseal(provider, pieces(container), parseIdentities(privatePem)), plaintext, `${size} bytes`);
        }
      },
    );

    tool.test(`S90: ${format}: any cut of the input gives the same, byte streams and single bytes too`, async () => {
      const { recipient, privatePem } = await generateKeyPair(provider);
      const plaintext = pattern(2 * chunk + 77);
      for (const cut of [1000, 16_383, 16_400, 65_552, 1 << 20]) {
        for (const streamOf of [pieces, byteStream]) {
          const { stream } = await encrypt(streamOf(plaintext, cut), {
            format,
            recipients: parseRecipients(recipient),
            provider,
          });
          const container = await collect(stream);
          equal(await unseal(provider, streamOf(container, cut), parseIdentities(privatePem)), plaintext, `cut ${cut}`);
        }
      }
      const small = pattern(333);
      const { stream } = await encrypt(pieces(small, 1), { format, recipients: parseRecipients(recipient), provider });
      equal(
        await unseal(provider, pieces(await collect(stream), 1), parseIdentities(privatePem)),
        small,
        'single bytes',
      );
    });

    tool.test(
      `S36: ${format}: 1, 2 and 100 recipients can open, a stranger cannot, and no recipient is an error`,
      async () => {
        const pairs = await Promise.all(Array.from({ length: 3 }, () => generateKeyPair(provider)));
        const [first, second, stranger] = pairs as [(typeof pairs)[0], (typeof pairs)[0], (typeof pairs)[0]];
        const both = await seal(provider, format, parseRecipients(first.publicPem + second.publicPem), text('for two'));
        for (const { privatePem } of [first, second])
          equal(await unseal(provider, pieces(both), parseIdentities(privatePem)), text('for two'));
        await fails('decrypt_failed', () => unseal(provider, pieces(both), parseIdentities(stranger.privatePem)));
        equal(
          await unseal(provider, pieces(both), parseIdentities(stranger.privatePem + second.privatePem)),
          text('for two'),
          'two keys in a file',
        );
        const many = await seal(
          provider,
          format,
          [
            ...Array.from({ length: 99 }, () => itemOf(parseRecipients(first.recipient), 0)).map((one) => ({
              kind: one.kind,
              wrap: one.wrap,
            })),
            ...parseRecipients(second.recipient),
          ],
          text('many'),
        );
        equal(await unseal(provider, pieces(many), parseIdentities(second.privatePem)), text('many'), 'the 100th');
        await fails('no_recipients', () => seal(provider, format, [], text('nobody')));
      },
    );

    tool.test(`S24: ${format}: a wrong password, a wrong key and the wrong kind each have one clear code`, async () => {
      const { recipient, privatePem } = await generateKeyPair(provider);
      const forPassword = await seal(provider, format, [passwordRecipient('right', cheap)], text('secret'));
      equal(await unseal(provider, pieces(forPassword), [passwordIdentity('right')]), text('secret'));
      await fails('decrypt_failed', () => unseal(provider, pieces(forPassword), [passwordIdentity('wrong')]));
      await fails('wrong_kind', () => unseal(provider, pieces(forPassword), parseIdentities(privatePem)));
      const forKey = await seal(provider, format, parseRecipients(recipient), text('secret'));
      await fails('wrong_kind', () => unseal(provider, pieces(forKey), [passwordIdentity('right')]));
    });

    tool.test(
      `S1 S2 S13 S14: ${format}: a cut or a flipped bit is an error, and what came out before is a prefix`,
      async () => {
        const { recipient, privatePem } = await generateKeyPair(provider);
        const identities = parseIdentities(privatePem);
        const plaintext = pattern(3 * chunk + 100);
        const container = await seal(provider, format, parseRecipients(recipient), plaintext);
        const sealedChunk = chunk + 16;
        const start = container.length - (3 * sealedChunk + 116);
        for (const damaged of [
          ...[
            start,
            start + 1,
            start + sealedChunk - 1,
            start + sealedChunk,
            start + 2 * sealedChunk,
            start + 3 * sealedChunk,
            start + 3 * sealedChunk + 16,
            container.length - 1,
          ].map((length) => container.subarray(0, length)),
          ...[start, start + sealedChunk - 1, start + sealedChunk, container.length - 17, container.length - 1].map(
            (at) => container.map((byte, index) => (index === at ? byte ^ 1 : byte)),
          ),
        ]) {
          const opened = await open(pieces(damaged), { provider });
          if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
          const { bytes, error } = await released(await opened.decrypt(identities));
          failedWith(['decrypt_failed', 'container_invalid'], error);
          equal(bytes, plaintext.subarray(0, bytes.length), 'what came out');
          ok(bytes.length < plaintext.length, 'all of it came out');
        }
      },
    );
  }

  tool.test('PBKDF2 takes a file of its own format, and no age file', async () => {
    const recipient = passwordRecipient('right', { name: 'pbkdf2-sha512', iterations: 220_000 });
    await fails('invalid_request', () => seal(provider, 'age', [recipient], text('x')));
    if (navigator.userAgent === 'Cloudflare-Workers') {
      await fails('kdf_unavailable', () => seal(provider, 'sealpin', [recipient], text('x')));
      return;
    }
    const container = await seal(provider, 'sealpin', [recipient], text('x'));
    equal(await unseal(provider, pieces(container), [passwordIdentity('right')]), text('x'));
    await fails('decrypt_failed', () => unseal(provider, pieces(container), [passwordIdentity('wrong')]));
  });

  tool.test(
    'plain bytes pass through from the first byte on, a detached payload and unknown versions do not',
    async () => {
      for (const content of [
        '',
        'a',
        'sealpin',
        'sealpin/vault.txt is a plain file',
        'age-encryption',
        '---\nyaml: true\n',
        '   spaces',
        '-----BEGIN CERTIFICATE-----\n',
      ]) {
        const opened = await open(pieces(text(content), 3), { provider });
        if (opened.kind !== 'plain') throw new Error(`${content} is ${opened.kind}`);
        equal(await collect(opened.stream), text(content));
      }
      equal((await open(pieces(text('sealpin/v1 detached\n...')))).kind, 'detached');
      for (const content of [
        'sealpin/v2\n',
        'sealpin/v1',
        'sealpin/v1 attached\n',
        'SEALPIN/v1\n',
        'age-encryption.org/v2\n',
        'age-encryption.org/',
        'Age-Encryption.org/v1\n',
        'age-encryption.org/v1\r\n',
      ]) {
        await fails('unsupported_version', () => open(pieces(text(content), 2), { provider }), content);
      }
    },
  );
}
