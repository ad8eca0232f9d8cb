import {
  generateKeyPair,
  open,
  parseRecipients,
  passwordIdentity,
  passwordRecipient,
  type CryptoProvider,
  type Format,
} from '../../../crypto/index.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { join, pieces, text, unpaddedBase64 } from '../streams.ts';
import { seal, unseal } from './containers.ts';

const versionOf = { age: 'age-encryption.org/v1', sealpin: 'sealpin/v1' } as const;
const macLine = `--- ${'A'.repeat(43)}`;

/** A header with this body, whose MAC is not looked at before what is wrong with it. */
const headerOf = (format: Format, lines: string): Uint8Array => text(`${versionOf[format]}\n${lines}${macLine}\n`);

function stanzaLines({ args, body }: { args: readonly string[]; body: Uint8Array }): string {
  const encoded = unpaddedBase64(body);
  const full = (encoded.match(/.{64}/g) ?? []).map((line) => `${line}\n`).join('');
  return `-> ${args.join(' ')}\n${full}${encoded.slice(encoded.length - (encoded.length % 64))}\n`;
}

/** Headers of all sorts, and what each costs before it is refused. */
export function hostileHeaders(tool: Tool, provider: CryptoProvider): void {
  const expensive: CryptoProvider = {
    ...provider,
    scrypt: () => Promise.reject(new Error('scrypt is called')),
    pbkdf2: () => Promise.reject(new Error('PBKDF2 is called')),
  };
  const refused = (header: Uint8Array, what: string) =>
    fails('header_invalid', () => open(pieces(join([header, new Uint8Array(100)])), { provider: expensive }), what);

  tool.test(
    'S25: a header without end, of too many stanzas or too many bytes is refused before more than 2 MiB are read',
    async () => {
      const endless: [string, (at: number) => Uint8Array][] = [
        ['one line', () => text('a'.repeat(65_536))],
        ['empty stanzas', () => text('-> a\n\n'.repeat(10_000))],
        ['a body', () => text(`${'A'.repeat(64)}\n`.repeat(1000))],
        ['zeros', () => new Uint8Array(65_536)],
      ];
      for (const format of ['age', 'sealpin'] as const) {
        for (const [what, more] of endless) {
          let given = 0;
          let isCancelled = false;
          const stream = new ReadableStream<Uint8Array>({
            start: (controller) => controller.enqueue(text(`${versionOf[format]}\n-> x `)),
            pull(controller) {
              const piece = more(given);
              given += piece.length;
              controller.enqueue(piece);
            },
            cancel() {
              isCancelled = true;
            },
          });
          await fails('header_invalid', () => open(stream, { provider }), what);
          ok(given <= 2 * 2 ** 20, `${what}: ${given} bytes were read`);
          ok(isCancelled, `${what}: the source is not cancelled`);
        }
      }
      const largest = headerOf('age', '-> a\n\n'.repeat(1024));
      equal((await open(pieces(largest), { provider })).kind, 'age', '1,024 stanzas');
      await refused(headerOf('age', '-> a\n\n'.repeat(1025)), '1,025 stanzas');
    },
  );

  tool.test('S18: a version line that is not one of ours is an unsupported version, never a plain file', async () => {
    for (const line of [
      'sealpin/v2\n',
      'sealpin/v10\n',
      'sealpin/v1x\n',
      'Sealpin/v1\n',
      'sealpin/v1 \n',
      'sealpin/v1\r\n',
      'age-encryption.org/v2\n',
      'age-encryption.org/\n',
      'AGE-ENCRYPTION.ORG/V1\n',
      'age-encryption.org/v1',
    ]) {
      await fails(
        'unsupported_version',
        () => open(pieces(join([text(line), text(`-> x\n\n${macLine}\n`)])), { provider }),
        line,
      );
    }
  });

  tool.test('S26 S27: a header that bends the grammar is refused', async () => {
    const body = unpaddedBase64(new Uint8Array(20).fill(255));
    const full = 'A'.repeat(64);
    for (const format of ['age', 'sealpin'] as const) {
      equal(
        (await open(pieces(headerOf(format, `-> x a b\n${full}\n${body}\n-> y\n\n-> z\n${full}\n\n`)), { provider }))
          .kind,
        format,
        'a header that does not',
      );
      const bent = [
        '',
        '->\n\n',
        '-> \n\n',
        '->x\n\n',
        ' -> x\n\n',
        '-> x \n\n',
        '->  x\n\n',
        '-> x  y\n\n',
        '-> x\ty\n\n',
        '-> \u00e9\n\n',
        '-> x\u007f\n\n',
        '-> x\n',
        `-> x\n${full}\n`,
        `-> x\n${full}A\n`,
        `-> x\n${body}\n${body}\n`,
        `-> x\n${body}=\n`,
        `-> x\n${body.slice(0, -1)}\n`,
        `-> x\n${body.slice(0, -1)}9\n`,
        `-> x\n${body.slice(0, 10)} ${body.slice(10)}\n`,
        `-> x\n_${body.slice(1)}\n`,
        `-> x\n-${body.slice(1)}\n`,
        '-> x\nA\n',
        `-> x\r\n${body}\r\n`,
        `-> x\n${body}\r\n`,
        '\n-> x\n\n',
        '-> x\n\n\n',
        '# comment\n-> x\n\n',
      ];
      for (const lines of bent) await refused(headerOf(format, lines), `${format} ${JSON.stringify(lines)}`);
      const start = `${versionOf[format]}\n-> x\n\n`;
      for (const end of [
        '',
        '---',
        '---\n',
        '--- \n',
        `--- ${'A'.repeat(42)}\n`,
        `--- ${'A'.repeat(44)}\n`,
        `--- ${'A'.repeat(42)}B\n`,
        `--- ${'A'.repeat(43)}=\n`,
        `--- ${'A'.repeat(43)} \n`,
        `---  ${'A'.repeat(43)}\n`,
        `---${'A'.repeat(43)}\n`,
        `--- ${'A'.repeat(43)}\r\n`,
        `---- ${'A'.repeat(43)}\n`,
        `--- ${'_'.repeat(43)}\n`,
        macLine,
      ]) {
        await fails(
          'header_invalid',
          () => open(pieces(text(start + end)), { provider }),
          `${format} ${JSON.stringify(end)}`,
        );
      }
    }
    equal(
      (await open(pieces(join([Uint8Array.of(0xef, 0xbb, 0xbf), headerOf('sealpin', '-> x\n\n')])))).kind,
      'plain',
      'a byte order mark',
    );
  });

  tool.test('S28: a password that is not the only stanza is refused', async () => {
    const salt = unpaddedBase64(new Uint8Array(16));
    const password = {
      age: { args: ['scrypt', salt, '10'], body: new Uint8Array(32) },
      sealpin: { args: ['scrypt', salt, '10'], body: new Uint8Array(48) },
    } as const;
    const pbkdf2 = { args: ['pbkdf2-sha512', salt, '220000'], body: new Uint8Array(48) };
    for (const format of ['age', 'sealpin'] as const) {
      const one = stanzaLines(password[format]);
      equal((await open(pieces(headerOf(format, one)), { provider })).kind, format);
      await refused(headerOf(format, one + one), 'twice');
      await refused(headerOf(format, `${one}-> unknown\n\n`), 'with an unknown one');
      await refused(headerOf(format, `-> unknown\n\n${one}`), 'after an unknown one');
    }
    await refused(headerOf('sealpin', stanzaLines(password.sealpin) + stanzaLines(pbkdf2)), 'of two sorts');
    equal(
      (await open(pieces(headerOf('age', stanzaLines(pbkdf2) + stanzaLines(pbkdf2))), { provider })).kind,
      'age',
      'what age does not know is unknown there',
    );
    const { recipient } = await generateKeyPair(provider);
    await fails('invalid_request', () =>
      seal(
        provider,
        'sealpin',
        [passwordRecipient('x', { name: 'scrypt', logN: 10 }), ...parseRecipients(recipient)],
        text('x'),
      ),
    );
  });

  tool.test('S29 S30 S31: costs, salts and bodies out of range are refused before anything is derived', async () => {
    const salt = unpaddedBase64(new Uint8Array(16));
    const costs = [
      '0',
      '-1',
      '+18',
      '018',
      '00',
      '1e1',
      '0x12',
      '18.0',
      ' 18',
      '',
      '23',
      '31',
      '32',
      '64',
      '1000',
      `1${'0'.repeat(400)}`,
      'NaN',
      'Infinity',
      '١٨',
    ];
    for (const format of ['age', 'sealpin'] as const) {
      const body = new Uint8Array(format === 'age' ? 32 : 48);
      for (const cost of [...costs, ...(format === 'sealpin' ? ['1', '9', '21', '22'] : [])])
        await refused(headerOf(format, stanzaLines({ args: ['scrypt', salt, cost], body })), `${format} logN ${cost}`);
      for (const bytes of [0, 15, 17, 32])
        await refused(
          headerOf(format, stanzaLines({ args: ['scrypt', unpaddedBase64(new Uint8Array(bytes)), '10'], body })),
          `${format} salt of ${bytes}`,
        );
      for (const bytes of [0, 31, 33, 47, 48, 32, 49, 1000].filter((bytes) => bytes !== body.length))
        await refused(
          headerOf(format, stanzaLines({ args: ['scrypt', salt, '10'], body: new Uint8Array(bytes) })),
          `${format} body of ${bytes}`,
        );
      for (const args of [
        ['scrypt'],
        ['scrypt', salt],
        ['scrypt', salt, '10', '10'],
        ['scrypt', '10', salt],
        ['scrypt', `${salt}==`, '10'],
      ])
        await refused(headerOf(format, stanzaLines({ args, body })), args.join(' '));
    }
    for (const iterations of ['0', '1', '219999', '10000001', '0220000', '1e6', '-220000', `${2 ** 53}`])
      await refused(
        headerOf('sealpin', stanzaLines({ args: ['pbkdf2-sha512', salt, iterations], body: new Uint8Array(48) })),
        `${iterations} iterations`,
      );
    const point = unpaddedBase64(Uint8Array.of(4, ...new Uint8Array(64)));
    for (const args of [
      ['p256'],
      ['p256', point, point],
      ['p256', unpaddedBase64(new Uint8Array(65))],
      ['p256', unpaddedBase64(Uint8Array.of(4, ...new Uint8Array(63)))],
      ['p256', unpaddedBase64(Uint8Array.of(2, ...new Uint8Array(32)))],
    ])
      await refused(headerOf('sealpin', stanzaLines({ args, body: new Uint8Array(48) })), args.join(' '));
    for (const bytes of [0, 32, 47, 49])
      await refused(
        headerOf('sealpin', stanzaLines({ args: ['p256', point], body: new Uint8Array(bytes) })),
        `a p256 body of ${bytes}`,
      );
    for (const [args, bytes] of [
      [['file'], 284],
      [['file', 'a', 'b'], 284],
      [['file', 'a'], 283],
      [['file', 'a'], 28],
      [['file', 'a'], 0],
    ] as const)
      await refused(
        headerOf('sealpin', stanzaLines({ args, body: new Uint8Array(bytes) })),
        `${args.join(' ')} with ${bytes}`,
      );
    const file = stanzaLines({ args: ['file', 'a'], body: new Uint8Array(284) });
    await refused(headerOf('sealpin', file + file), 'two files');
    for (const logN of [9, 21, 10.5, Number.NaN])
      await fails('invalid_request', () => passwordRecipient('x', { name: 'scrypt', logN }), `writing logN ${logN}`);
    for (const iterations of [219_999, 10_000_001])
      await fails(
        'invalid_request',
        () => passwordRecipient('x', { name: 'pbkdf2-sha512', iterations }),
        `writing ${iterations} iterations`,
      );
  });

  tool.test('S19: a header whose version or algorithm was exchanged does not open', async () => {
    const cheap = passwordRecipient('right', { name: 'scrypt', logN: 10 });
    const identity = passwordIdentity('right');
    const latin = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
    const exchanged = (container: Uint8Array, from: string, to: string): Uint8Array =>
      Uint8Array.from(latin(container).replace(from, to), (character) => character.charCodeAt(0));
    const sealpin = await seal(provider, 'sealpin', [cheap], text('x'));
    const age = await seal(provider, 'age', [cheap], text('x'));
    await fails('header_invalid', () =>
      unseal(provider, pieces(exchanged(sealpin, 'sealpin/v1', versionOf.age)), [identity]),
    );
    await fails('header_invalid', () =>
      unseal(provider, pieces(exchanged(age, versionOf.age, 'sealpin/v1')), [identity]),
    );
    await fails(['decrypt_failed', 'kdf_unavailable'], () =>
      unseal(provider, pieces(exchanged(exchanged(sealpin, 'scrypt', 'pbkdf2-sha512'), ' 10\n', ' 220000\n')), [
        identity,
      ]),
    );
    await fails('decrypt_failed', () => unseal(provider, pieces(exchanged(sealpin, ' 10\n', ' 11\n')), [identity]));
    await fails('wrong_kind', () => unseal(provider, pieces(exchanged(sealpin, 'scrypt', 'Scrypt')), [identity]));
  });
}
