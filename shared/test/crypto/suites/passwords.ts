import { parsePassword, passwordIdentity, passwordRecipient, type Backend } from '../../../crypto/index.ts';
import { equal, fails, type Tool } from '../check.ts';
import { pieces, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';

const cheap = { name: 'scrypt', logN: 10 } as const;

/** What a password may be. */
export function passwords(tool: Tool, backend: Backend): void {
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
          const container = await seal(backend, format, [passwordRecipient(written, cheap)], text('x'));
          equal(await unseal(backend, pieces(container), [passwordIdentity(typed)]), text('x'));
          await fails('decrypt_failed', () => unseal(backend, pieces(container), [passwordIdentity(`${typed} `)]));
        }
      }
      const beforeNul = await seal(backend, 'sealpin', [passwordRecipient('a\0b', cheap)], text('x'));
      await fails('decrypt_failed', () => unseal(backend, pieces(beforeNul), [passwordIdentity('a')]));
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
