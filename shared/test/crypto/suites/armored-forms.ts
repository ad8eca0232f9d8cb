import { encodePadded } from '../../../crypto/bytes.ts';
import {
  generateKeyPair,
  openAt,
  parseIdentities,
  parseRecipients,
  type CryptoProvider,
  type Identity,
} from '../../../crypto/index.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, join, pattern, pieces, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';

const begin = '-----BEGIN AGE ENCRYPTED FILE-----';
const end = '-----END AGE ENCRYPTED FILE-----';

/** A form of armor: its text, and whether it is read. */
type ArmoredForm = { name: string; armor: Uint8Array; isRead: boolean };

/** Forms of the armor of a container. */
export function formsOfArmor(container: Uint8Array): ArmoredForm[] {
  const body = encodePadded(container).match(/.{1,64}/g) ?? [];
  const lines = [begin, ...body, end];
  const isWhole = lines.length > 140;
  const forms: ArmoredForm[] = [];
  const add = (isRead: boolean, name: string, ...parts: (string | Uint8Array)[]): void =>
    void forms.push({ name, armor: join(parts.map((part) => (typeof part === 'string' ? text(part) : part))), isRead });

  // Line ends: those of some lines are not those of the others.
  const ended = (isOther: (index: number) => boolean, usual: string, other: string): string =>
    lines.map((line, index) => `${line}${isOther(index) ? other : usual}`).join('');
  const which: [string, (index: number) => boolean][] = [
    ['no line', () => false],
    ['the first line', (index) => index === 0],
    ['the second line', (index) => index === 1],
    ['a line in the middle', (index) => index === Math.floor(lines.length / 2)],
    ['the last line of base64', (index) => index === lines.length - 2],
    ['the last line', (index) => index === lines.length - 1],
    ['every other line', (index) => index % 2 === 1],
    ['the first half', (index) => index < lines.length / 2],
    // As many as shift the others by a whole line.
    ...(isWhole ? [65, 66, 130, 132] : []).map((count): [string, (index: number) => boolean] => [
      `${count} lines`,
      (index) => index >= 2 && index < count + 2,
    ]),
  ];
  for (const [name, isOther] of which) {
    add(true, `CR LF of ${name}`, ended(isOther, '\n', '\r\n'));
    add(true, `LF of ${name}`, ended(isOther, '\r\n', '\n'));
    add(name === 'no line', `CR CR LF of ${name}`, ended(isOther, '\n', '\r\r\n'));
    add(name === 'no line', `a space behind ${name}`, ended(isOther, '\n', ' \n'));
  }

  const whole = lines.join('\n');
  for (const [isRead, last] of [
    [true, ''],
    [true, '\r'],
    [true, '\r\n'],
    [false, '\r\r'],
    [false, ' '],
    [false, '\t\n'],
    [false, '\u00A0\n'],
    [false, '-'],
    [false, '\rx'],
  ] as const)
    add(isRead, `${JSON.stringify(last)} behind the last line`, whole, last);

  const spaces = [
    '\n',
    ' ',
    '\r\n',
    '\t',
    '\v',
    '\f',
    '\u0085',
    '\u00A0',
    '\u1680',
    '\u2003',
    '\u2028',
    '\u202F',
    '\u3000',
  ];
  for (const space of spaces) {
    const times = (bytes: number): string => space.repeat(Math.floor(bytes / text(space).length));
    add(true, `${JSON.stringify(space)} behind the end`, whole, '\n', space);
    add(true, `1023 bytes of ${JSON.stringify(space)} behind the end`, whole, '\n', times(1023));
    add(false, `2048 bytes of ${JSON.stringify(space)} behind the end`, whole, '\n', times(2048));
  }
  add(false, '1024 line feeds behind the end', whole, '\n', '\n'.repeat(1024));
  add(false, '1024 line feeds and a letter behind the end', whole, '\n', '\n'.repeat(1024), 'x');
  for (const more of [
    'x',
    ' x',
    '\uFEFF',
    '\u200B',
    '\u180E',
    '\0',
    Uint8Array.of(0xff),
    Uint8Array.of(0xc2),
    `${whole}\n`,
  ])
    add(false, `${JSON.stringify(more).slice(0, 40)} behind the end`, whole, '\n', more);

  const [first = '', second = '', ...others] = body;
  const others64 = (changed: readonly string[]): string => [begin, ...changed, ...others, end, ''].join('\n');
  add(false, 'an empty line before the end', [begin, ...body, '', end, ''].join('\n'));
  add(false, 'an empty line in the middle', others64([first, '', second]));
  add(false, 'an empty line before the first', others64(['', first, second]));
  add(false, 'a line of 63 and one of 65', others64([first.slice(0, 63), `${first.slice(63)}${second}`]));
  add(false, 'a line of 60 and one of 68', others64([first.slice(0, 60), `${first.slice(60)}${second}`]));
  add(false, 'a line of 128', others64([`${first}${second}`]));
  add(false, 'a short line', others64([first.slice(0, 32), first.slice(32), second]));
  add(false, 'a line that ends with padding', others64([`${first.slice(0, 63)}=`, second]));
  add(false, 'no end', [begin, ...body, ''].join('\n'));
  add(false, 'no line but the markers', `${begin}\n${end}\n`);
  return forms;
}

/** Armor in every form, read as a stream and in parts. */
export function armoredForms(tool: Tool, provider: CryptoProvider): void {
  const check = async (armored: Uint8Array, identities: readonly Identity[]) => {
    const stored = {
      bytes: armored.length,
      read: async (offset: number, length: number) => pieces(armored.slice(offset, offset + length), 10_000),
    };
    return {
      stream: () => unseal(provider, pieces(armored, 10_000), identities),
      parts: async () => {
        const opened = await openAt(stored, { identities, provider });
        return collect(await opened.decryptRange({ start: 0, end: opened.plaintextBytes }));
      },
    };
  };

  tool.test('armor in any form is read alike as a stream and in parts, or refused alike', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const identities = parseIdentities(privatePem);
    for (const size of [10, 70_000]) {
      const plaintext = pattern(size);
      const container = await seal(provider, 'age', parseRecipients(recipient), plaintext);
      for (const { name, armor: armored, isRead } of formsOfArmor(container))
        for (const [how, read] of Object.entries(await check(armored, identities)))
          await (isRead
            ? read().then(
                (opened) => equal(opened, plaintext, `${how}, ${name}`),
                (cause: unknown) => Promise.reject(new Error(`${how}, ${name}: ${String(cause)}`, { cause })),
              )
            : fails('header_invalid', read, `${how}, ${name}`));
    }
  });

  tool.test('armor of even lines is not read whole, neither by the right key nor by a wrong one', async () => {
    const [right, wrong] = [await generateKeyPair(provider), await generateKeyPair(provider)];
    const container = await seal(provider, 'age', parseRecipients(right.recipient), pattern(1_500_000));
    for (const { name, armor } of formsOfArmor(container).filter((form) => form.name.endsWith('LF of no line'))) {
      const read = async (offset: number, length: number) => {
        ok(length < armor.length, `${name}: it reads all`);
        return pieces(armor.slice(offset, offset + length));
      };
      const openWith = ({ privatePem }: typeof right) =>
        openAt({ bytes: armor.length, read }, { identities: parseIdentities(privatePem), provider });
      equal((await openWith(right)).plaintextBytes, 1_500_000, name);
      await fails('decrypt_failed', () => openWith(wrong), name);
    }
  });

  tool.test('armor of what is no age file is refused alike as a stream and in parts', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const identities = parseIdentities(privatePem);
    const inner = await seal(provider, 'sealpin', parseRecipients(recipient), pattern(10));
    const kinds = [
      [inner, 'unsupported_version'],
      [text('age-encryption.org/v2\n'), 'unsupported_version'],
      [text('plain'), 'header_invalid'],
      [text(`${begin}\n`), 'header_invalid'],
    ] as const;
    for (const [container, code] of kinds) {
      const armored = text([begin, ...(encodePadded(container).match(/.{1,64}/g) ?? []), end, ''].join('\n'));
      for (const [how, read] of Object.entries(await check(armored, identities)))
        await fails(code, read, `${how}, ${String(container[0])}`);
    }
  });
}
