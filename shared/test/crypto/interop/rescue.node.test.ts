/** contrib/rescue.py, which was written from the format page alone, opens what Sealpin writes. */
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join as joinPath } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import * as fc from 'fast-check';
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
  webProvider as provider,
} from '../../../crypto/index.ts';
import {
  carHeader,
  carSection,
  cidBuilder,
  cidOf,
  leafBytes,
  parseCid,
  sha256,
  type Cid,
} from '../../../ipfs/index.ts';
import { bytesOfCid } from '../../../ipfs/cid.ts';
import { equal } from '../../../../testkit/assertions.ts';
import { inDirectory, run, withProgram } from '../../../../testkit/programs/programs.ts';
import { collect, fromBase64, join, pattern, pieces } from '../streams.ts';
import { seal } from '../suites/containers.ts';
import { itemOf, present } from '../../../../testkit/present.ts';
import { ci, inCi, long } from '../../../../testkit/long-run.ts';

const root = joinPath(import.meta.dirname, '../../../..');
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
  type Sealed = { cid: string; sealed: string };
  const { privateKey: ownersKey, details } = JSON.parse(
    readFileSync(joinPath(root, 'shared/test/vectors/details/details.json'), 'utf8'),
  ) as { privateKey: string; details: Sealed[] };

  describe('rescue.py opens', () => {
    test('the sealed name of a file', () =>
      inDirectory(async (path) => {
        for (const { sealed, ...expected } of details) {
          const parts = { input: fromBase64(sealed), secret: ownersKey };
          const plaintext = await rescue(path, parts, '--key', 'secret', 'input', '-');
          expect(plaintext.length).toBe(1024);
          expect(JSON.parse(Buffer.from(plaintext).toString())).toEqual({ v: 1, ...expected });
        }
      }));

    type Golden = Record<'container' | 'header' | 'payload' | 'plaintext' | 'password' | 'privateKey', string>;
    const files = readdirSync(golden)
      .map((name) => ({ name, ...(JSON.parse(readFileSync(joinPath(golden, name), 'utf8')) as Partial<Golden>) }))
      .filter(({ plaintext }) => plaintext !== undefined);

    test.each(files.filter(({ name }) => long || few.has(name)))(
      'the golden file $name',
      ({ container, header, payload, plaintext, password: words, privateKey }) =>
        inDirectory(async (path) => {
          const input = fromBase64(container ?? present(payload));
          const [flag, secret] = words === undefined ? ['--key', present(privateKey)] : ['--password-file', words];
          const apart = header === undefined ? [] : ['--header', 'header'];
          const parts = { input, secret, ...(header === undefined ? {} : { header: fromBase64(header) }) };
          equal(await rescue(path, parts, flag, 'secret', ...apart, 'input', 'out'), fromBase64(present(plaintext)));
          if (header === undefined) return;
          // Header and payload in one file are a container, too.
          const whole = { whole: join([present(parts.header), input]), secret };
          equal(await rescue(path, whole, flag, 'secret', 'whole', '-'), fromBase64(present(plaintext)));
        }),
    );

    test.each(long ? [0, 16_383, 16_384, 65_536, 65_537, 200_000] : [65_537])(
      'files of %i bytes in both formats',
      (bytes) =>
        inDirectory(async (path) => {
          const { privatePem, recipient } = await generateKeyPair();
          const plaintext = pattern(bytes);
          for (const format of ['age', 'sealpin'] as const) {
            const input = await seal(provider, format, parseRecipients(recipient), plaintext);
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
        const input = await seal(provider, 'age', [...recipients, ...parseRecipients(await ownRecipient())], plaintext);
        equal(await rescue(path, { input, key: `# mine\n${x25519}\n` }, '--key', 'key', 'input', '-'), plaintext);
        const other = await seal(provider, 'age', parseRecipients(hybrid.recipient), plaintext);
        equal(await rescue(path, { other, key: hybrid.privateText }, '--key', 'key', 'other', '-'), plaintext);
      }));

    inCi('armor, a protected key, a file key, a payload without a header, and a CAR', () =>
      inDirectory(async (path) => {
        const plaintext = pattern(2_500_000);
        const { privatePem, recipient } = await generateKeyPair();
        const sealed = await seal(provider, 'age', parseRecipients(recipient), plaintext);
        const lines = present(
          Buffer.from(sealed)
            .toString('base64')
            .match(/.{1,64}/g),
        ).join('\n');
        const armor = `-----BEGIN AGE ENCRYPTED FILE-----\n${lines}\n-----END AGE ENCRYPTED FILE-----\n\u00A0`;
        const key = await seal(provider, 'age', [password], new TextEncoder().encode(privatePem));
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
      }),
    );
  });

  inCi('rescue.py ends with a sentence on every file, and never gives other bytes', () =>
    inDirectory(async (path) => {
      const { privatePem, recipient } = await generateKeyPair();
      const plaintext = pattern(300);
      const sealed = await seal(provider, 'age', parseRecipients(recipient), plaintext);
      const own = await seal(provider, 'sealpin', parseRecipients(recipient), plaintext);
      const key = new TextEncoder().encode(privatePem);
      const { 'car-whole': car, ...hostile } = await hostileCars(sealed);
      const cases: Record<string, Uint8Array> = { key, sealed, own, car: present(car), ...hostile };
      const stanza = (lines: number): Uint8Array =>
        new TextEncoder().encode(`age-encryption.org/v1\n-> X25519 a\n${`${'A'.repeat(64)}\n`.repeat(lines)}`);
      const line = new TextEncoder().encode(`age-encryption.org/v1\n-> ${'a '.repeat(600_000)}\n`);
      const many = new TextEncoder().encode(`age-encryption.org/v1\n${'-> a\n\n'.repeat(200_000)}`);
      Object.assign(cases, { stanza: stanza(40_000), line, many, newline: join([Uint8Array.of(10), sealed]) });
      Object.assign(cases, { 'key-bom': join([Uint8Array.of(0xef, 0xbb, 0xbf), key]) });
      // Each of them would be looked for to the end of the file.
      cases['key-begun'] = new TextEncoder().encode('-----BEGIN PRIVATE KEY-----\n'.repeat(500_000));
      const foreign = ['secp384r1', 'secp256k1'].map((name) =>
        generateKeyPairSync('ec', { namedCurve: name }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
      );
      foreign.push(generateKeyPairSync('x25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
      for (const [i, text] of foreign.entries()) cases[`key-foreign-${i}`] = Buffer.from(text);
      const random = fc.sample(fc.nat(), { seed: 1, numRuns: 3 * (long ? 4000 : ci ? 250 : 100) });
      const whole = { sealed, own, key, car: present(car) };
      for (const [name, bytes] of Object.entries(whole))
        for (let i = 0; i < random.length; i += 3) {
          const [at = 0, kind = 0, value = 0] = random.slice(i, i + 3);
          cases[`${name}-${i}`] = damaged(bytes, at % bytes.length, kind % 4, value % 256);
        }
      await mkdir(path('cases'));
      for (const [name, bytes] of Object.entries(cases)) await writeFile(path(`cases/${name}`), bytes);
      const script = joinPath(root, 'contrib/rescue.py');
      const stdout = run('cryptography-python', ['-c', runAll, script, path('cases')]);
      const ended = JSON.parse(new TextDecoder().decode(stdout)) as Record<string, string>;
      expect(Object.keys(ended)).toHaveLength(Object.keys(cases).length);
      const right = Buffer.from(plaintext).toString('hex');
      const wrong = Object.entries(ended).filter(([, how]) => how !== right && !how.startsWith('rescue.py: '));
      expect(wrong).toEqual([]);
      for (const name of ['sealed', 'own', 'car', 'key-bom']) expect(ended[name], name).toBe(right);
      const never = ['newline', 'stanza', 'line', 'many', 'key-begun', ...foreign.map((_, i) => `key-foreign-${i}`)];
      for (const name of [...never, ...Object.keys(hostile)]) expect(ended[name], name).toMatch(/^rescue\.py: /);
      expect(readdirSync(path('cases')).filter((name) => /\.(?:out|part)$/.test(name))).toEqual([]);
    }),
  );

  describe('rescue.py refuses, and leaves no file', () => {
    const damages: [string, (input: Uint8Array) => Uint8Array, string, RegExp][] = [
      ['the wrong password', (input) => input, 'another', /wrong password/],
      ['a file that is cut off', (input) => input.subarray(0, -16), 'pässwörd', /cut off|damaged/],
      ['a damaged chunk', (input) => input.with(input.length - 1, itemOf(input, -1) ^ 1), 'pässwörd', /damaged/],
      ['a changed header', (input) => input.with(90, input[90] === 65 ? 66 : 65), 'pässwörd', /header|password/],
      ['what is not encrypted', () => pattern(100), 'pässwörd', /not an encrypted file/],
    ];
    const formats = ['age', 'sealpin'] as const;
    // The short form takes turns.
    const cases = damages.map((each, index) => [...each, long ? formats : [present(formats[index % 2])]] as const);
    test.each(cases)('%s', (_, damage, words, message, some) =>
      inDirectory(async (path) => {
        for (const format of some) {
          const input = damage(await seal(provider, format, [password], pattern(2 * 65_536)));
          const files = { input, pass: words };
          await expect(rescue(path, files, '--password-file', 'pass', 'input', 'out')).rejects.toThrow(message);
          expect(existsSync(path('out'))).toBe(false);
          expect(existsSync(path('out.part'))).toBe(false);
        }
      }),
    );
  });
});

/**
 * Runs it on every file of a directory in one process; prints how each ended, as JSON. A case that
 * takes too long ends the process.
 */
const runAll = `
import importlib.util, json, os, signal, sys
spec = importlib.util.spec_from_file_location("rescue", sys.argv[1])
rescue = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rescue)
folder, ended = sys.argv[2], {}
for name in sorted(os.listdir(folder)):
    case, out = os.path.join(folder, name), os.path.join(folder, name + ".out")
    key, sealed = (name, "sealed") if name.startswith("key") else ("key", name)
    own = ["--key", os.path.join(folder, key), os.path.join(folder, sealed)]
    sys.argv = ["rescue.py", *own, out]
    signal.alarm(30)
    try:
        ended[name] = rescue.failure()
    except BaseException as error:
        ended[name] = "not caught: " + repr(error)
    if ended[name] is None:
        with open(out, "rb") as file:
            ended[name] = file.read().hex()
        os.unlink(out)
print(json.dumps(ended))
`;

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

/** One byte changed, dropped or added, or the rest cut off. */
function damaged(bytes: Uint8Array, at: number, kind: number, value: number): Uint8Array {
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at + 1)];
  if (kind === 0) return bytes.with(at, value);
  if (kind === 1) return join([before, after]);
  if (kind === 2) return join([before, Uint8Array.of(value), bytes.subarray(at)]);
  return before;
}

/** CARs that cost a careless reader time, memory or disk, and one that is right. */
async function hostileCars(bytes: Uint8Array): Promise<Record<string, Uint8Array>> {
  const varint = (number: bigint): Uint8Array => {
    const digits: number[] = [];
    for (let rest = number; ; rest >>= 7n) {
      if (rest < 128n) return Uint8Array.from([...digits, Number(rest)]);
      digits.push(Number(rest & 127n) | 128);
    }
  };
  const field = (number: number, value: Uint8Array): Uint8Array =>
    join([varint(BigInt(number * 8 + 2)), varint(BigInt(value.length)), value]);
  const block = async (codec: 'raw' | 'dag-pb', body: Uint8Array) => {
    const cid = cidOf(codec, await sha256(body));
    return { cid, section: join([carSection(cid, body.length), body]) };
  };
  /** A node over blocks, without the sizes that a reader of ours asks for. */
  const nodeOver = (...below: { cid: Cid }[]) =>
    block('dag-pb', join(below.map(({ cid }) => field(2, field(1, bytesOfCid(cid))))));
  const leaf = await block('raw', bytes);
  const head = carHeader(leaf.cid);
  const car = (root: { cid: Cid }, sections: Uint8Array[]): Uint8Array => join([carHeader(root.cid), ...sections]);

  const chain = [leaf];
  while (chain.length < 1500) chain.push(await nodeOver(itemOf(chain, -1)));
  const doubled = [leaf];
  while (doubled.length < 64) doubled.push(await nodeOver(itemOf(doubled, -1), itemOf(doubled, -1)));
  const empty = await nodeOver();
  return {
    'car-whole': await carFileOf(bytes),
    'car-section-of-nothing': join([head, varint(0n)]),
    ...Object.fromEntries([1, 35].map((length) => [`car-section-of-${length}`, join([head, varint(BigInt(length))])])),
    'car-section-too-long': join([head, varint(2n ** 40n), new Uint8Array(50)]),
    'car-huge-varint': join([head, new Uint8Array(100).fill(255)]),
    'car-huge-header': join([head.subarray(0, 1).with(0, 255), new Uint8Array(12).fill(255), head.subarray(1)]),
    'car-deep': join([
      car(
        itemOf(chain, -1),
        chain.map(({ section }) => section),
      ),
      new Uint8Array(1),
    ]),
    'car-doubled': car(
      itemOf(doubled, -1),
      doubled.map(({ section }) => section),
    ),
    'car-empty-node': car(empty, [empty.section]),
    'car-field-too-long': await (async () => {
      const node = await block('dag-pb', join([varint(18n), varint(2n ** 62n)]));
      return car(node, [node.section]);
    })(),
  };
}
