import {
  generateKeyPair,
  generatePostQuantumKeyPair,
  open,
  openAt,
  parseIdentities,
  parseRecipients,
  passwordIdentity,
  passwordRecipient,
  rewrap,
  sniff,
  sniffBytes,
  type CryptoProvider,
  type Format,
  type Sniffed,
  type Stanza,
} from '../../../crypto/index.ts';
import { makeHeader } from '../../../crypto/file-key.ts';
import { formatOf } from '../../../crypto/formats/index.ts';
import { isSealpinError } from '../../../errors.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, join, pieces, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';
import { itemOf } from '../../../../testkit/present.ts';

const base64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes)).replaceAll('=', '');
const armor = '-----BEGIN AGE ENCRYPTED FILE-----\n';
const x25519 = {
  identity: 'AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX',
  recipient: 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj',
};

/** Tests of how a container is recognized, and whose stanzas count. */
export function recognition(tool: Tool, provider: CryptoProvider): void {
  tool.test('sniffing knows every beginning, and opening goes by it', async () => {
    const cases: readonly (readonly [string, Sniffed | undefined])[] = [
      ['age-encryption.org/v1\n', 'age'],
      ['sealpin/v1\n', 'sealpin'],
      ['sealpin/v1 detached\n', 'detached'],
      [armor, 'armor'],
      [`\n${armor}`, 'armor'],
      [`${' \t\r\n\v\f'.repeat(170)}${armor}`, 'armor'],
      [`${' '.repeat(1024)}${armor}`, 'armor'],
      [`${' '.repeat(1025)}${armor}`, undefined],
      [`\u3000${armor}`, undefined],
      [`x${armor}`, undefined],
      ['age-encryption.org/v2\n', 'unsupported'],
      ['AGE-encryption.org/v1\n', 'unsupported'],
      ['sealpin/v1', 'unsupported'],
      ['sealpin/v2\n', 'unsupported'],
      ['sealpin/vault', undefined],
      ['\nage-encryption.org/v1\n', undefined],
      ['\nsealpin/v1\n', undefined],
      ['-----BEGIN CERTIFICATE-----\n', undefined],
      ['', undefined],
      ['\n', undefined],
    ];
    for (const [start, expected] of cases) {
      const bytes = text(`${start}${'x'.repeat(2000)}`);
      const head = start === '' || start === '\n' ? text(start) : bytes;
      equal(sniff(head), expected, JSON.stringify(start.trimStart()));
      equal(sniff(head.subarray(0, sniffBytes)), expected, `${JSON.stringify(start.trimStart())}, cut`);
      const kind = await open(pieces(head, 7), { provider }).then(
        (opened) => opened.kind,
        (error: unknown) => (isSealpinError(error) ? error.code : 'another failure'),
      );
      const kinds = {
        age: 'header_invalid',
        sealpin: 'header_invalid',
        armor: 'header_invalid',
        detached: 'detached',
        unsupported: 'unsupported_version',
      } as const;
      equal(kind, expected === undefined ? 'plain' : kinds[expected], `opening ${JSON.stringify(start.trimStart())}`);
    }
  });

  tool.test('armor that cannot be read is not taken for a plain file', async () => {
    const bytes = text(`\n${armor}AAAA\n`);
    const container = { bytes: bytes.length, read: async (at: number, n: number) => pieces(bytes.slice(at, at + n)) };
    await fails('header_invalid', () => openAt(container, { identities: [passwordIdentity('x')], provider }));
    await fails('not_encrypted', () => rewrap(pieces(bytes), { identities: [], recipients: [], provider }));
  });

  tool.test('a line of armor that is too long is called so', async () => {
    for (const length of [65, 129, 100_000]) {
      const error = await open(pieces(text(`${armor}${'A'.repeat(length)}\n`)), { provider }).then(
        () => undefined,
        (thrown: unknown) => thrown as Error,
      );
      ok(error?.message.startsWith('a line of the armor') === true, `${length}: ${String(error)}`);
    }
  });

  const send = async (format: Format, stanzas: (fileKey: Uint8Array) => Promise<Stanza[]>): Promise<Uint8Array> => {
    const fileKey = provider.random(format === 'age' ? 16 : 32);
    const header = makeHeader(provider, formatOf(format), fileKey, await stanzas(fileKey));
    const { preamble, chunks } = await formatOf(format).payload.create(provider, fileKey);
    return join([header, preamble, await chunks.aead.seal(chunks.nonce(0, true), text('x'))]);
  };

  tool.test(
    'age: a malformed stanza of another kind is ignored; one of our kind is an error, unless ours comes first',
    async () => {
      const [pair, quantum] = [await generateKeyPair(provider), await generatePostQuantumKeyPair(provider)];
      const mine = [
        { name: 'X25519', recipient: x25519.recipient, key: x25519.identity },
        { name: 'p256tag', recipient: pair.recipient, key: pair.privatePem },
        { name: 'mlkem768p256tag', recipient: quantum.recipient, key: quantum.privateText },
      ];
      const malformed: Stanza[] = ['X25519', 'p256tag', 'mlkem768x25519', 'mlkem768p256tag'].flatMap((name) => [
        { args: [name], body: new Uint8Array(32) },
        { args: [name, '?', '?', '?'], body: new Uint8Array(31) },
      ]);
      for (const { name, recipient, key } of mine) {
        for (const bad of malformed) {
          const what = `${bad.args.join(' ')} with ${name}`;
          const ours = (fileKey: Uint8Array): Promise<Stanza> =>
            itemOf(parseRecipients(recipient), 0).wrap(fileKey, formatOf('age'), provider);
          const after = await send('age', async (fileKey) => [await ours(fileKey), bad]);
          equal(await unseal(provider, pieces(after), parseIdentities(key)), text('x'), `${what}, after ours`);
          const before = await send('age', async (fileKey) => [bad, await ours(fileKey)]);
          const opening = (): Promise<Uint8Array> => unseal(provider, pieces(before), parseIdentities(key));
          if (bad.args[0] === name) await fails('header_invalid', opening, `${what}, before ours`);
          else equal(await opening(), text('x'), `${what}, before ours`);
          const changed = after.map((byte, index) => (index === after.length - 1 ? byte ^ 1 : byte));
          await fails('decrypt_failed', () => unseal(provider, pieces(changed), parseIdentities(key)), what);
        }
      }
    },
  );

  tool.test('age: the lengths of our own stanzas are checked before anything is derived', async () => {
    const pair = await generateKeyPair(provider);
    const idle: CryptoProvider = {
      ...provider,
      p256: { ...provider.p256, agree: () => Promise.reject(new Error('a key is agreed on')) },
      x25519: { ...provider.x25519, agree: () => Promise.reject(new Error('a key is agreed on')) },
    };
    const [tag, point] = [base64(new Uint8Array(4)), base64(Uint8Array.of(4, ...new Uint8Array(64)))];
    for (const [args, key] of [
      [['p256tag', point], pair.privatePem],
      [['p256tag', tag, point, tag], pair.privatePem],
      [['p256tag', base64(new Uint8Array(3)), point], pair.privatePem],
      [['p256tag', tag, base64(new Uint8Array(64))], pair.privatePem],
      [['X25519'], x25519.identity],
      [['X25519', base64(new Uint8Array(31))], x25519.identity],
      [['X25519', base64(new Uint8Array(32)), ''], x25519.identity],
    ] as const) {
      const container = await send('age', async () => [{ args, body: new Uint8Array(32) }]);
      await fails('header_invalid', () => unseal(idle, pieces(container), parseIdentities(key)), args.join(' '));
    }
    const short = await send('age', async () => [
      { args: ['X25519', base64(new Uint8Array(32).fill(9))], body: new Uint8Array(31) },
    ]);
    await fails('header_invalid', () => unseal(idle, pieces(short), parseIdentities(x25519.identity)), 'a short body');
  });

  tool.test('sealpin/v1: every known stanza must be right, for any recipient and at any position', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    for (const bad of [
      { args: ['p256'], body: new Uint8Array(48) },
      { args: ['p256', base64(Uint8Array.of(4, ...new Uint8Array(64)))], body: new Uint8Array(47) },
      { args: ['file', 'id'], body: new Uint8Array(283) },
      { args: ['file', 'x'.repeat(256)], body: new Uint8Array(284) },
    ]) {
      for (const order of [1, -1]) {
        const container = await send('sealpin', async (fileKey) =>
          [await itemOf(parseRecipients(recipient), 0).wrap(fileKey, formatOf('sealpin'), provider), bad].toSorted(
            () => order,
          ),
        );
        await fails('header_invalid', () => open(pieces(container), { provider }), bad.args.join(' ').slice(0, 20));
        await fails('header_invalid', () => unseal(provider, pieces(container), parseIdentities(privatePem)));
      }
    }
  });

  tool.test('a stanza that opens under a header whose MAC does not fit ends the search', async () => {
    const [first, second] = [await generateKeyPair(provider), await generateKeyPair(provider)];
    for (const format of ['age', 'sealpin'] as const) {
      // Both stanzas open, each to a file key of its own; the MAC fits the second one only.
      const other = provider.random(format === 'age' ? 16 : 32);
      const container = await send(format, async (fileKey) => [
        await itemOf(parseRecipients(first.recipient), 0).wrap(other, formatOf(format), provider),
        await itemOf(parseRecipients(second.recipient), 0).wrap(fileKey, formatOf(format), provider),
      ]);
      const open = (...keys: string[]): Promise<Uint8Array> =>
        unseal(
          provider,
          pieces(container),
          keys.flatMap((key) => parseIdentities(key)),
        );
      equal(await open(second.privatePem), text('x'));
      await fails('decrypt_failed', () => open(first.privatePem, second.privatePem), `${format}: it goes on`);
    }
  });

  tool.test(
    'age files are read up to scrypt with N = 2^22, and sealpin/v1 up to 2^20; the error says how it is',
    async () => {
      const salt = base64(new Uint8Array(16));
      const costs: number[] = [];
      const counting: CryptoProvider = {
        ...provider,
        scrypt: async (_password, _salt, { logN }) => (costs.push(logN), new Uint8Array(32)),
      };
      const header = (format: Format, args: string[]): Promise<Uint8Array> =>
        send(format, async () => [{ args, body: new Uint8Array(format === 'age' ? 32 : 48) }]);
      const failureOf = async (format: Format, args: string[]): Promise<string> => {
        try {
          await unseal(counting, pieces(await header(format, args)), [passwordIdentity('x')]);
          return 'it opens';
        } catch (error) {
          return (error as Error).message;
        }
      };
      for (const logN of [1, 9, 21, 22]) {
        costs.length = 0;
        equal(await failureOf('age', ['scrypt', salt, String(logN)]), 'wrong password', `${logN}`);
        equal(costs, [logN]);
      }
      costs.length = 0;
      for (const [format, args, expected] of [
        ['age', ['scrypt', salt, '23'], 'above the supported maximum, scrypt with N = 2^22'],
        ['age', ['scrypt', salt, `1${'0'.repeat(400)}`], 'above the supported maximum, scrypt with N = 2^22'],
        ['age', ['scrypt', salt, '010'], 'malformed'],
        ['age', ['scrypt', salt, '+10'], 'malformed'],
        ['age', ['scrypt', salt, '1e1'], 'malformed'],
        ['sealpin', ['scrypt', salt, '21'], 'above the supported maximum, scrypt with N = 2^20'],
        ['sealpin', ['scrypt', salt, '9'], 'below the supported minimum, scrypt with N = 2^10'],
        ['sealpin', ['pbkdf2-sha512', salt, '1000000000'], 'above the supported maximum, 10000000 iterations'],
        ['sealpin', ['pbkdf2-sha512', salt, `1${'0'.repeat(30)}`], 'above the supported maximum, 10000000 iterations'],
        ['sealpin', ['pbkdf2-sha512', salt, '219999'], 'below the supported minimum, 220000 iterations'],
      ] as const)
        ok(
          (await failureOf(format, [...args])).includes(expected),
          `${args[2].slice(0, 20)}: ${await failureOf(format, [...args])}`,
        );
      equal(costs, []);
    },
  );

  tool.test('S24: whatever fails authentication has one code, and its reason and detail name no secret', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const other = await generateKeyPair(provider);
    const container = await seal(provider, 'sealpin', parseRecipients(recipient), text('hello'));
    const failures = new Set<string>();
    const record = (error: unknown): void => {
      if (!isSealpinError(error, 'decrypt_failed')) throw new Error(String(error));
      equal(error.cause, undefined);
      failures.add(`${error.reason}: ${error.message}`);
    };
    // The first one is in the base64 of the MAC, and stays base64.
    const places = [200, container.length - 1, container.length - 30, container.length - 70];
    const damaged = places.map((at) =>
      container.map((byte, index) => (index !== at ? byte : at > 200 ? byte ^ 1 : byte === 0x41 ? 0x42 : 0x41)),
    );
    for (const [bytes, key] of [
      [container, other.privatePem],
      ...damaged.map((bytes) => [bytes, privatePem] as const),
    ] as const) {
      await unseal(provider, pieces(bytes), parseIdentities(key)).then(() => failures.add('opened'), record);
    }
    const forPassword = await seal(
      provider,
      'sealpin',
      [passwordRecipient('right', { name: 'scrypt', logN: 10 })],
      text('hello'),
    );
    await unseal(provider, pieces(forPassword), [passwordIdentity('wrong')]).catch(record);
    equal(
      [...failures],
      [
        'no_key: none of the keys opens it: it is encrypted to another one',
        'header: the header is damaged or was changed',
        'payload: the data is damaged or cut off after byte 0',
        'payload: the data is damaged at its start',
        'wrong_password: wrong password',
      ],
    );
    const opened = await open(pieces(container), { provider });
    equal('decrypt' in opened && (await collect(await opened.decrypt(parseIdentities(privatePem)))), text('hello'));
  });
}
