/** contrib/rescue.py, which was written from the format page alone, opens what Sealpin writes. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join as joinPath } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { describe, expect, test } from 'vitest';
import {
  encryptPayload,
  fileKeyOf,
  fileKeyText,
  generateKeyPair,
  generatePostQuantumKeyPair,
  parseIdentities,
  parseRecipients,
  passwordRecipient,
  type Recipient,
  webBackend as backend,
} from '../../crypto/index.ts';
import { carHeader, carSection, cidBuilder, cidOf, leafBytes, parseCid, sha256 } from '../../ipfs/index.ts';
import { equal } from '../../../testkit/assertions.ts';
import { inDirectory, run, withProgram } from '../../../testkit/programs.ts';
import { collect, fromBase64, join, pattern, pieces } from './streams.ts';
import { seal } from './suites/containers.ts';

const long = process.env['SEALPIN_LONG'] === '1';

const root = joinPath(import.meta.dirname, '../../..');
const golden = joinPath(root, 'shared/test/vectors/golden');
const password: Recipient = passwordRecipient('pässwörd', { name: 'scrypt', logN: 10 });

/** The golden files of kinds that the short form does not encrypt by itself. */
const few = new Set(
  ['age-mlkem768x25519', 'sealpin-detached', 'sealpin-pbkdf2-sha512', 'sealpin-scrypt'].map((name) => `${name}.json`),
);

type Path = (name: string) => string;
type Files = Readonly<Record<string, string | Uint8Array>>;

/** Runs it on files, whose names are arguments, too. @returns what it wrote */
async function rescue(path: Path, files: Files, ...args: string[]): Promise<Uint8Array> {
  for (const [name, content] of Object.entries(files)) await writeFile(path(name), content);
  const words = args.map((word) => (word in files || word === 'out' ? path(word) : word));
  const stdout = run('cryptography-python', [joinPath(root, 'contrib/rescue.py'), ...words]);
  return args.at(-1) === '-' ? stdout : new Uint8Array(readFileSync(path('out')));
}

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  describe('rescue.py opens', () => {
    type Golden = Record<'container' | 'header' | 'payload' | 'plaintext' | 'password' | 'privateKey', string>;
    const files = readdirSync(golden)
      .map((name) => ({ name, ...(JSON.parse(readFileSync(joinPath(golden, name), 'utf8')) as Partial<Golden>) }))
      .filter(({ plaintext }) => plaintext !== undefined);

    test.each(files.filter(({ name }) => long || few.has(name)))(
      'the golden file $name',
      ({ container, header, payload, plaintext, password: words, privateKey }) =>
        inDirectory(async (path) => {
          const input = fromBase64(container ?? payload!);
          const [flag, secret] = words === undefined ? ['--key', privateKey!] : ['--password-file', words];
          const apart = header === undefined ? [] : ['--header', 'header'];
          const parts = { input, secret, ...(header === undefined ? {} : { header: fromBase64(header) }) };
          equal(await rescue(path, parts, flag, 'secret', ...apart, 'input', 'out'), fromBase64(plaintext!));
          if (header === undefined) return;
          // Header and payload in one file are a container, too.
          const whole = { whole: join([parts.header!, input]), secret };
          equal(await rescue(path, whole, flag, 'secret', 'whole', '-'), fromBase64(plaintext!));
        }),
    );

    test.each(long ? [0, 16_383, 16_384, 65_536, 65_537, 200_000] : [65_537])(
      'files of %i bytes in both formats',
      (bytes) =>
        inDirectory(async (path) => {
          const { privatePem, recipient } = await generateKeyPair();
          const plaintext = pattern(bytes);
          for (const format of ['age', 'sealpin'] as const) {
            const input = await seal(backend, format, parseRecipients(recipient), plaintext);
            equal(await rescue(path, { input, key: privatePem }, '--key', 'key', 'input', '-'), plaintext);
          }
        }),
    );

    test('what is encrypted to several keys, with each of them', () =>
      inDirectory(async (path) => {
        const x25519 = await generateX25519Identity();
        const hybrid = await generatePostQuantumKeyPair();
        const recipients = parseRecipients(await identityToRecipient(x25519));
        const plaintext = pattern(1000);
        const input = await seal(backend, 'age', [...recipients, ...parseRecipients(await ownRecipient())], plaintext);
        equal(await rescue(path, { input, key: `# mine\n${x25519}\n` }, '--key', 'key', 'input', '-'), plaintext);
        const other = await seal(backend, 'age', parseRecipients(hybrid.recipient), plaintext);
        equal(await rescue(path, { other, key: hybrid.privateText }, '--key', 'key', 'other', '-'), plaintext);
      }));

    test('armor, a protected key, a file key, a payload without a header, and a CAR', () =>
      inDirectory(async (path) => {
        const plaintext = pattern(2_500_000);
        const { privatePem, recipient } = await generateKeyPair();
        const sealed = await seal(backend, 'age', parseRecipients(recipient), plaintext);
        const lines = Buffer.from(sealed)
          .toString('base64')
          .match(/.{1,64}/g)!
          .join('\n');
        const armor = `-----BEGIN AGE ENCRYPTED FILE-----\n${lines}\n-----END AGE ENCRYPTED FILE-----\n`;
        const key = await seal(backend, 'age', [password], new TextEncoder().encode(privatePem));
        const opening = ['--key', 'key', '--password-file', 'pass'];
        equal(await rescue(path, { armor, key, pass: 'pässwörd\n' }, ...opening, 'armor', '-'), plaintext);
        const identities = parseIdentities(privatePem);
        const fileKey = fileKeyText(await fileKeyOf(pieces(sealed, 1000), { identities }));
        equal(await rescue(path, { sealed, fileKey }, '--file-key', 'fileKey', 'sealed', '-'), plaintext);
        const bare = await encryptPayload(pieces(plaintext, 5000));
        const payload = await collect(bare.payload);
        const own = { payload, fileKey: fileKeyText(bare.fileKey) };
        equal(await rescue(path, own, '--file-key', 'fileKey', 'payload', '-'), plaintext);
        const car = await carFileOf(payload);
        equal(await rescue(path, { car, fileKey: own.fileKey }, '--file-key', 'fileKey', 'car', 'out'), plaintext);
      }));
  });

  describe('rescue.py refuses, and leaves no file', () => {
    const damages: [string, (input: Uint8Array) => Uint8Array, string, RegExp][] = [
      ['the wrong password', (input) => input, 'another', /wrong password/],
      ['a file that is cut off', (input) => input.subarray(0, -16), 'pässwörd', /cut off|damaged/],
      ['a damaged chunk', (input) => input.with(input.length - 1, input.at(-1)! ^ 1), 'pässwörd', /damaged/],
      ['a changed header', (input) => input.with(90, input[90] === 65 ? 66 : 65), 'pässwörd', /header|password/],
      ['what is not encrypted', () => pattern(100), 'pässwörd', /not an encrypted file/],
    ];
    const formats = ['age', 'sealpin'] as const;
    // The short form takes turns.
    const cases = damages.map((each, index) => [...each, long ? formats : [formats[index % 2]!]] as const);
    test.each(cases)('%s', (_, damage, words, message, some) =>
      inDirectory(async (path) => {
        for (const format of some) {
          const input = damage(await seal(backend, format, [password], pattern(2 * 65_536)));
          const files = { input, pass: words };
          await expect(rescue(path, files, '--password-file', 'pass', 'input', 'out')).rejects.toThrow(message);
          expect([existsSync(path('out')), existsSync(path('out.part'))]).toEqual([false, false]);
        }
      }),
    );
  });
});

async function ownRecipient(): Promise<string> {
  return (await generateKeyPair()).recipient;
}

/** A CAR of bytes as a UnixFS file: leaves first, its root last. */
async function carFileOf(bytes: Uint8Array): Promise<Uint8Array> {
  const nodes: Uint8Array[] = [];
  const builder = cidBuilder({
    onNode: (cid, block) => void nodes.push(carSection(parseCid(cid), block.length), block.slice()),
  });
  await builder.write(bytes);
  const { cid } = await builder.finish();
  const leaves: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += leafBytes) {
    const leaf = bytes.subarray(at, at + leafBytes);
    leaves.push(carSection(cidOf('raw', await sha256(leaf)), leaf.length), leaf);
  }
  return join([carHeader(parseCid(cid)), ...leaves, ...nodes]);
}
