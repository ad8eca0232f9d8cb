import { parsePassword, passwordIdentity, passwordRecipient, type CryptoProvider } from '../../../crypto/index.ts';
import { encodeBase64 } from '../../../crypto/bytes.ts';
import { makeHeader } from '../../../crypto/file-key.ts';
import { formatOf } from '../../../crypto/formats/index.ts';
import { equal, fails, type Tool } from '../../../../testkit/assertions.ts';
import { join, pieces, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';

const cheap = { name: 'scrypt', logN: 10 } as const;

/** Tests of what a password may be. */
export function passwords(tool: Tool, provider: CryptoProvider): void {
  tool.test(
    'S41: a password opens in whatever form an operating system types it; NUL, emoji and a megabyte are fine',
    async () => {
      const composed = 'Schlüssel für Ångström';
      const decomposed = composed.normalize('NFD');
      for (const [written, typed] of [
        [composed, decomposed],
        [decomposed, composed],
        ['a\0b', 'a\0b'],
        ['🔑👩‍👩‍👧', '🔑👩‍👩‍👧'],
        ['x'.repeat(2 ** 20), 'x'.repeat(2 ** 20)],
        [' ', ' '],
      ] as const) {
        for (const format of ['age', 'sealpin'] as const) {
          const container = await seal(provider, format, [passwordRecipient(written, cheap)], text('x'));
          equal(await unseal(provider, pieces(container), [passwordIdentity(typed)]), text('x'));
          await fails('decrypt_failed', () => unseal(provider, pieces(container), [passwordIdentity(`${typed} `)]));
        }
      }
      const beforeNul = await seal(provider, 'sealpin', [passwordRecipient('a\0b', cheap)], text('x'));
      await fails('decrypt_failed', () => unseal(provider, pieces(beforeNul), [passwordIdentity('a')]));
    },
  );

  tool.test(
    'S41: where Unicode data of another age made another form C, the password opens as it is typed',
    async () => {
      // A runtime that knows no ü writes the decomposed form: here a container that was made with
      // it.
      const decomposed = 'Schlu\u0308ssel';
      for (const format of ['age', 'sealpin'] as const) {
        const fileKey = provider.random(format === 'age' ? 16 : 32);
        const label = { age: 'age-encryption.org/v1/scrypt', sealpin: 'sealpin/v1 scrypt' }[format];
        const salt = provider.random(16);
        const key = await provider.scrypt(text(decomposed), join([text(label), salt]), { logN: 10, r: 8, p: 1 });
        const aead = await (format === 'age' ? provider.chaChaPoly(key) : provider.aesGcm(key));
        const body = await aead.seal(new Uint8Array(12), fileKey);
        const header = makeHeader(provider, formatOf(format), fileKey, [
          { args: ['scrypt', encodeBase64(salt), '10'], body },
        ]);
        const { preamble, chunks } = await formatOf(format).payload.create(provider, fileKey);
        const container = join([header, preamble, await chunks.aead.seal(chunks.nonce(0, true), text('x'))]);
        equal(await unseal(provider, pieces(container), [passwordIdentity(decomposed)]), text('x'), format);
        await fails('decrypt_failed', () =>
          unseal(provider, pieces(container), [passwordIdentity(decomposed.normalize('NFC'))]),
        );
      }
      const unassigned = '\u0378 pass';
      const container = await seal(provider, 'sealpin', [passwordRecipient(unassigned, cheap)], text('x'));
      equal(await unseal(provider, pieces(container), [passwordIdentity(unassigned)]), text('x'), 'unassigned');
    },
  );

  tool.test('S41: no password, and what is not Unicode, are refused', async () => {
    for (const password of ['', '\ud800', 'a\udfff', '\udc00\ud800']) {
      await fails('password_invalid', () => passwordRecipient(password, cheap), JSON.stringify(password));
      await fails('password_invalid', () => passwordIdentity(password), JSON.stringify(password));
    }
  });

  tool.test('S41: from a file or pipe, exactly one line end is left out', async () => {
    for (const [bytes, expected] of [
      ['x', 'x'],
      ['x\n', 'x'],
      ['x\r\n', 'x'],
      ['x\n\n', 'x\n'],
      ['x\r\n\r\n', 'x\r\n'],
      ['x\r', 'x\r'],
      ['\nx', '\nx'],
      [' x ', ' x '],
      ['\ufeffx', '\ufeffx'],
      ['u\u0308', 'u\u0308'],
      ['', ''],
      ['\r\n', ''],
    ] as const)
      equal(parsePassword(text(bytes)), expected, JSON.stringify(bytes));
    for (const bytes of [Uint8Array.of(0xff), Uint8Array.of(0xc3), Uint8Array.of(0xed, 0xa0, 0x80)])
      await fails('password_invalid', () => parsePassword(bytes));
  });
}
