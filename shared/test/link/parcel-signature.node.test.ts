/**
 * Signed parcels: what is told apart, and a program in Python that was written from docs/links.md.
 */
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  encrypt,
  encryptPayload,
  generateKeyPair,
  generatePostQuantumKeyPair,
  parcelSigner,
  parseIdentities,
  parseRecipients,
  parseSigner,
  secretIn,
  signersIn,
  type Identity,
} from '../../crypto/index.ts';
import { keyPairOf } from '../../crypto/keys/key-file.ts';
import { readAll } from '../../streams/read-all.ts';
import { encodeParcel, openParcel, openParcelWith, sealParcel, sealParcelTo, type Parcel } from '../../link/index.ts';
import { inDirectory, programPath, withProgram } from '../../../testkit/programs/programs.ts';
import { ci } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';

const root = join(import.meta.dirname, '../../..');
const vectorsPath = join(root, 'shared/test/vectors/links/signed.json');
type Vector = { service: string; id: string; recipients: string[]; parcel: string; signer: string; signed: string };
const vectors = JSON.parse(readFileSync(vectorsPath, 'utf8')) as {
  privateKey: string;
  postQuantumKey: string;
  vectors: Vector[];
};

const parcel: Parcel = {
  files: [
    {
      cid: `bafkrei${'a'.repeat(52)}`,
      fileKey: new Uint8Array(32).fill(7),
      name: 'né "q".txt',
      type: 'text/plain',
      size: 3,
    },
  ],
  note: 'As promised.\n',
};
const here = { service: 'https://sealpin.example/base/', id: '0'.repeat(22) };
const stream = (bytes: Uint8Array) => new Blob([bytes.slice()]).stream();
const secret = new Uint8Array(32).fill(9);
/** A record that the link opens, of any plaintext. */
const recordOf = async (plaintext: Uint8Array) =>
  readAll((await encryptPayload(stream(plaintext), { fileKey: secret })).payload, 1e6, () => new Error('too large'));
const jsonOf = (bytes: Uint8Array) => JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const signer = parcelSigner(new Uint8Array(32).fill(1));
const other = parcelSigner(new Uint8Array(32).fill(2));
const stateOf = async (plaintext: Uint8Array, place = here) =>
  (await openParcel(await recordOf(plaintext), { secret, place })).signed?.state;

describe('a signed parcel', () => {
  test('is valid by its link, its inbox and its recipients, for each kind of key', async () => {
    for (const pair of [await generateKeyPair(), await generatePostQuantumKeyPair()]) {
      const text = 'privatePem' in pair ? pair.privatePem : pair.privateText;
      const own = parcelSigner(secretIn(text));
      expect(parseSigner(own.text)).toHaveLength(32);
      const recipients = parseRecipients(pair.recipient);
      const signing = { ...here, signer: own, recipients: [pair.recipient] };
      const identities = parseIdentities(text);
      const shared = await sealParcel(parcel, { recipients, signing });
      const opened = await openParcel(shared.record, {
        secret: shared.secret,
        identities: () => identities,
        place: here,
      });
      expect(opened).toEqual({ ...parcel, from: undefined, signed: { signer: own.text, state: 'valid' } });
      const delivered = await sealParcelTo(parcel, { recipients, signing });
      expect((await openParcelWith(stream(delivered), { identities, place: here })).signed?.state).toBe('valid');
    }
    const linked = await sealParcel(parcel, {
      password: 'open sesame',
      kdf: { name: 'scrypt', logN: 10 },
      signing: { ...here, signer, recipients: [] },
    });
    const opened = await openParcel(linked.record, { secret: linked.secret, password: 'open sesame', place: here });
    expect(opened.signed).toEqual({ signer: signer.text, state: 'valid' });
  });

  test('is told from one that is stripped, swapped, replayed, re-addressed or changed', async () => {
    const signed = jsonOf(encodeParcel(parcel, { ...here, signer, recipients: [] }));
    expect(await stateOf(bytesOf(signed))).toBe('valid');
    // Stripped: as any unsigned one.
    expect(await stateOf(new TextEncoder().encode(signed['parcel'] as string))).toBeUndefined();
    // Swapped: another parcel, signer, or signature.
    const second = jsonOf(encodeParcel({ ...parcel, note: 'Other words' }, { ...here, signer, recipients: [] }));
    expect(await stateOf(bytesOf({ ...signed, parcel: second['parcel'] }))).toBe('wrong');
    expect(await stateOf(bytesOf({ ...signed, signature: second['signature'] }))).toBe('wrong');
    expect(await stateOf(bytesOf({ ...signed, signer: other.text }))).toBe('wrong');
    // Claims that were written again do not match the signature.
    const elsewhere = { service: 'https://other.example', id: '1'.repeat(22) };
    expect(await stateOf(bytesOf({ ...signed, id: elsewhere.id }), { ...here, id: elsewhere.id })).toBe('wrong');
    expect(
      await stateOf(bytesOf({ ...signed, service: elsewhere.service }), { ...here, service: elsewhere.service }),
    ).toBe('wrong');
    // Replayed: at another share, or another service.
    expect(await stateOf(bytesOf(signed), { ...here, id: elsewhere.id })).toBe('elsewhere');
    expect(await stateOf(bytesOf(signed), { ...here, service: elsewhere.service })).toBe('elsewhere');
    expect(await stateOf(bytesOf(signed), { ...here, service: 'https://sealpin.example' })).toBe('valid');
  });

  test('is told from one that its receiver sealed to somebody else', async () => {
    const [ann, ben] = [await generateKeyPair(), await generateKeyPair()];
    const signed = encodeParcel(parcel, { ...here, signer, recipients: [ann.recipient] });
    const state = async (to: string, identities: readonly Identity[]) => {
      const { stream: sealed } = await encrypt(stream(signed), { format: 'age', recipients: parseRecipients(to) });
      return (await openParcelWith(sealed, { identities, place: here })).signed?.state;
    };
    expect(await state(ann.recipient, parseIdentities(ann.privatePem))).toBe('valid');
    expect(await state(ben.recipient, parseIdentities(ben.privatePem))).toBe('others');
    expect(await stateOf(signed)).toBe('others');
    const forLink = encodeParcel(parcel, { ...here, signer, recipients: [] });
    const { stream: sealed } = await encrypt(stream(forLink), {
      format: 'age',
      recipients: parseRecipients(ben.recipient),
    });
    expect(
      (await openParcelWith(sealed, { identities: parseIdentities(ben.privatePem), place: here })).signed?.state,
    ).toBe('others');
  });

  test('with each byte changed is never valid', async () => {
    const text = new TextDecoder().decode(encodeParcel(parcel, { ...here, signer, recipients: [] })).trimEnd();
    const states = new Set<string>();
    // The short form begins where chance says, so that its runs together try each.
    const step = ci ? 1 : 4;
    const first = randomInt(step);
    for (let at = first; at < text.length; at += step) {
      const changed = new TextEncoder().encode(text.slice(0, at) + (text[at] === 'x' ? 'y' : 'x') + text.slice(at + 1));
      states.add(
        await stateOf(changed).then(
          (state) => state ?? 'unsigned',
          (error: { code: string }) => error.code,
        ),
      );
    }
    expect(states).toContain('wrong');
    for (const state of ['valid', 'unsigned']) expect(states, `from byte ${first} by ${step}`).not.toContain(state);
  });
});

test('a public key file names its signer, which other readers skip', async () => {
  const pair = await generateKeyPair();
  const own = parcelSigner(pair.secret).text;
  const text = `# signer: ${own}\n${pair.publicPem}`;
  expect(signersIn(text)).toEqual([own]);
  expect(parseRecipients(text).map((recipient) => recipient.text)).toEqual([pair.recipient]);
  expect(() => parseSigner(own.replace(/.$/, (last) => (last === 'q' ? 'p' : 'q')))).toThrow(
    expect.objectContaining({ code: 'key_invalid' }),
  );
});

const keyFor = (recipients: readonly string[]): string =>
  recipients.some((each) => each.startsWith('age1tagpq1')) ? vectors.postQuantumKey : vectors.privateKey;

test.each(vectors.vectors)(
  'the vector for $id is the same today',
  async ({ parcel: text, signed, signer: who, ...place }) => {
    const own = parcelSigner(secretIn(keyFor(place.recipients)));
    expect(own.text).toBe(who);
    const opened = await openParcel(await recordOf(new TextEncoder().encode(text)), { secret, place });
    expect(new TextDecoder().decode(encodeParcel(opened, { ...place, signer: own })).trimEnd()).toBe(signed);
  },
);

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  const script = join(root, 'docs/clients/parcel-signature.py');
  /** Runs the program on a parcel. @returns what it prints, also where it fails */
  const pythonIn =
    (path: (name: string) => string) =>
    async (command: string, text: Uint8Array, ...flags: string[]): Promise<string> => {
      await writeFile(path('parcel'), text);
      const argv = [script, command, ...flags, path('parcel')];
      try {
        return execFileSync(present(programPath('cryptography-python')), argv, { encoding: 'utf8' });
      } catch (error) {
        return (error as { stdout: string }).stdout;
      }
    };

  test('the program of docs/clients signs what Sealpin finds valid, and finds the same of what Sealpin signs', () =>
    inDirectory(async (path) => {
      const pair = keyPairOf(new Uint8Array(32).fill(5));
      await writeFile(path('private.key'), pair.privatePem);
      const place = ['--service', here.service, '--id', here.id];
      const python = pythonIn(path);
      const theirs = await python('sign', encodeParcel(parcel), '--key', path('private.key'), ...place);
      expect(await stateOf(new TextEncoder().encode(theirs))).toBe('valid');
      const own = parcelSigner(pair.secret);
      const ours = encodeParcel(parcel, { ...here, signer: own, recipients: [] });
      expect(await python('check', ours, ...place)).toBe(`valid ${own.text}\n`);
      expect(await python('check', ours, '--service', here.service, '--id', '1'.repeat(22))).toMatch(/^elsewhere /);
      expect(await python('check', ours, ...place, '--own', pair.recipient)).toMatch(/^others /);
      const { parcel: inside, ...claim } = jsonOf(ours);
      expect(await python('check', bytesOf({ ...claim, parcel: `${inside as string} ` }), ...place)).toMatch(/^wrong /);
      expect(await python('check', encodeParcel(parcel), ...place)).toBe('unsigned\n');
    }));

  test('the program of docs/clients makes each vector again, and finds it valid', () =>
    inDirectory(async (path) => {
      for (const { service, id, recipients, parcel: text, signer: who, signed } of vectors.vectors) {
        const python = pythonIn(path);
        const place = ['--service', service, '--id', id];
        const [key, own] = [keyFor(recipients), recipients.flatMap((each) => ['--own', each])];
        expect(await python('check', Buffer.from(signed), ...place, ...own)).toBe(`valid ${who}\n`);
        await writeFile(path('private.key'), key);
        const to = recipients.flatMap((each) => ['--to', each]);
        const flags = ['--key', path('private.key'), ...place, ...to];
        const theirs = JSON.parse(await python('sign', Buffer.from(text), ...flags)) as unknown;
        expect(theirs).toEqual(JSON.parse(signed));
      }
    }));
});
