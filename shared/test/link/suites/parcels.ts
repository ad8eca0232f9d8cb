import goldenPassword from '../../vectors/golden/parcel-password.json' with { type: 'json' };
import golden from '../../vectors/golden/parcel.json' with { type: 'json' };
import {
  encrypt,
  encryptPayload,
  fileKeyText,
  generateKeyPair,
  parseIdentities,
  parseRecipients,
  passwordRecipient,
  type CryptoProvider,
  type Identity,
  type KeyPair,
} from '../../../crypto/index.ts';
import { encodeBase62 } from '../../../crypto/keys/base62.ts';
import { isSealpinError, type Code } from '../../../errors.ts';
import { cidOf } from '../../../ipfs/index.ts';
import {
  encodeParcel,
  maxRecordBytes,
  openParcel,
  openParcelWith,
  parseLink,
  parseParcel,
  sealParcel,
  sealParcelTo,
  type Parcel,
} from '../../../link/index.ts';
import { maxParcelBytes } from '../../../link/parcel.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, digest, fromBase64, pattern, pieces, text } from '../../crypto/streams.ts';

const cid = cidOf('raw', pattern(32)).text;
const file = { cid, fileKey: pattern(32), name: 'Bericht für Ω.pdf', type: 'application/pdf', size: 48_213 };
const parcel: Parcel = {
  files: [file, { ...file, fileKey: pattern(16), name: 'a.tar', size: Number.MAX_SAFE_INTEGER }],
  note: 'As promised.\n\tAnn ☃',
  from: 'Ann',
};
const kdf = { name: 'scrypt', logN: 10 } as const;

/** The JSON of a file and of a parcel with some members replaced; an undefined one is left out. */
const fileJson = (others: object = {}): object => ({
  cid,
  key: fileKeyText(file.fileKey),
  name: 'a.txt',
  type: 'text/plain',
  size: 5,
  ...others,
});
const json = (others: object = {}): Uint8Array => text(JSON.stringify({ v: 1, files: [fileJson()], ...others }));

/** The files never change: these are the SHA-256 digests of their records. */
const digests: Record<string, string> = {
  parcel: '4e3806f7f12d265f2b113b870be360cdc4bc5a3c387a0a996e579707099cd23d',
  'parcel-password': 'dff1d7f770e652eeb9a1af6895d0e7f909c82e61a71e16321839cc81d14fd48c',
};

/** Parcels, and the records that they are sealed in. */
export function parcels(tool: Tool, provider: CryptoProvider): void {
  tool.test('a parcel comes back from its bytes, with and without what is optional', () => {
    for (const each of [parcel, { files: [file] }, { files: [{ ...file, size: 0 }], note: 'x' }]) {
      const bytes = encodeParcel(each);
      equal(bytes.length % 256, 0);
      const parsed = parseParcel(bytes);
      equal(
        parsed.files.map(({ fileKey }) => fileKeyText(fileKey)),
        each.files.map(({ fileKey }) => fileKeyText(fileKey)),
      );
      equal(
        JSON.stringify({ ...parsed, files: parsed.files.length }),
        JSON.stringify({ ...each, files: each.files.length }),
      );
      equal(
        parsed.files.map(({ name, type, size, cid }) => [name, type, size, cid]),
        each.files.map(({ name, type, size, cid }) => [name, type, size, cid]),
      );
    }
  });

  tool.test('the time of a file is a parameter of its type, which a reader skips if it is none', () => {
    const modified = new Date('2030-01-31T08:00:00.789Z');
    const written = encodeParcel({ files: [{ ...file, modified }] });
    const isTimed = new TextDecoder()
      .decode(written)
      .includes('"type":"application/pdf; modified=\\"2030-01-31T08:00:00Z\\""');
    ok(isTimed, 'the type has the time');
    const [read] = parseParcel(written).files;
    equal([read?.type, read?.modified?.toISOString()], ['application/pdf', '2030-01-31T08:00:00.000Z']);
    // Neither what is no time, nor one that does not fit, keeps the file from being read.
    for (const type of [
      'x/y; modified="2030-13-41T08:00:00Z"',
      'x/y; modified="now"',
      '; modified="2030-01-31T08:00:00Z"',
      'x/y; a=b',
    ])
      equal([parseParcel(json({ files: [fileJson({ type })] })).files[0]?.type], [type]);
    for (const other of [new Date(Number.NaN), new Date(8.64e15), modified]) {
      const type = other === modified ? 'x'.repeat(250) : 'x/y';
      equal([parseParcel(encodeParcel({ files: [{ ...file, type, modified: other }] })).files[0]?.type], [type]);
    }
  });

  tool.test('a parcel that is malformed, of another version or too large is refused', async () => {
    const refused: [string, Code, Uint8Array][] = [
      ['no bytes', 'parcel_invalid', new Uint8Array(0)],
      ['no JSON', 'parcel_invalid', text('{')],
      ['a byte order mark', 'parcel_invalid', text(`\ufeff${new TextDecoder().decode(json())}`)],
      ['bytes that are not UTF-8', 'parcel_invalid', json({ note: '*' }).map((byte) => (byte === 0x2a ? 0xff : byte))],
      ...['null', '[]', '1', '"x"', '{}'].map((each): [string, Code, Uint8Array] => [
        each,
        'parcel_invalid',
        text(each),
      ]),
      ['version 2', 'unsupported_version', json({ v: 2 })],
      ['version 2 of another shape', 'unsupported_version', text('{"v":2,"parts":[]}')],
      ...[undefined, '1', 1.5, null].map((v): [string, Code, Uint8Array] => [
        `version ${v}`,
        'parcel_invalid',
        json({ v }),
      ]),
      ['no files', 'parcel_invalid', json({ files: [] })],
      ['a file that is none', 'parcel_invalid', json({ files: [null] })],
      ['an unknown member', 'parcel_invalid', json({ extra: 1 })],
      ['a member __proto__', 'parcel_invalid', text(`{"v":1,"files":[${JSON.stringify(fileJson())}],"__proto__":{}}`)],
      ...['cid', 'key', 'name', 'type', 'size', 'extra'].map((member): [string, Code, Uint8Array] => [
        `a file with another set of members: ${member}`,
        'parcel_invalid',
        json({ files: [fileJson({ [member]: member === 'extra' ? 1 : undefined })] }),
      ]),
      ...[cid.toUpperCase(), cid.slice(1), 'Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD', ''].map(
        (cid): [string, Code, Uint8Array] => [`the CID ${cid}`, 'parcel_invalid', json({ files: [fileJson({ cid })] })],
      ),
      ...['', '0'.repeat(42), 'z'.repeat(43), 'z'.repeat(22), `${'0'.repeat(42)}-`].map(
        (key): [string, Code, Uint8Array] => [`the key ${key}`, 'parcel_invalid', json({ files: [fileJson({ key })] })],
      ),
      ...['', 'a\n', 'ü/x', 'x'.repeat(256)].map((type): [string, Code, Uint8Array] => [
        `the type ${type}`,
        'parcel_invalid',
        json({ files: [fileJson({ type })] }),
      ]),
      ...[-1, 0.5, 2 ** 53, '5', null].map((size): [string, Code, Uint8Array] => [
        `the size ${size}`,
        'parcel_invalid',
        json({ files: [fileJson({ size })] }),
      ]),
      ...[
        '',
        '.',
        '..',
        'a/b',
        '..\\b',
        'a\u0000',
        'a\nb',
        '\u001b[2J',
        'a\u202efdp.exe',
        '\ud800',
        'x'.repeat(256),
      ].map((name): [string, Code, Uint8Array] => [
        `the name ${JSON.stringify(name)}`,
        'invalid_filename',
        json({ files: [fileJson(), fileJson({ name })] }),
      ]),
      ...['', 'x'.repeat(4097), 'ü'.repeat(2049), '\u001b[2J', '\r', '\u0085', '\ud800', 1, null].map(
        (note): [string, Code, Uint8Array] => [
          `the note ${String(note).slice(0, 9)}`,
          'parcel_invalid',
          json({ note }),
        ],
      ),
      ...['', 'x'.repeat(256), 'a\nb', 'a\tb', '\u0000', '\udfff', 1].map((from): [string, Code, Uint8Array] => [
        `from ${String(from).slice(0, 9)}`,
        'parcel_invalid',
        json({ from }),
      ]),
    ];
    for (const [what, code, bytes] of refused) await fails(code, () => parseParcel(bytes), what);
    equal(parseParcel(json({ note: 'x'.repeat(4096), from: 'x'.repeat(255) })).files.length, 1, 'the longest words');
    const padded = new Uint8Array(maxParcelBytes).fill(0x20);
    padded.set(json());
    equal(parseParcel(padded).files.length, 1, 'the largest');
    await fails('parcel_invalid', () => parseParcel(Uint8Array.of(...padded, 0x20)), 'a byte more than the largest');
  });

  tool.test('a record to keys needs the secret and one of the private keys', async () => {
    const [ann, eve] = await Promise.all([generateKeyPair(), generateKeyPair()]);
    const identities = (pair: KeyPair): Identity[] => parseIdentities(pair.privatePem);
    const recipients = parseRecipients(ann.publicPem);
    const { record, secret } = await sealParcel(parcel, { recipients, provider });
    const opened = await openParcel(record, { secret, identities: () => identities(ann), provider });
    equal(opened.note, parcel.note);
    await fails('wrong_kind', () => openParcel(record, { secret, provider }));
    await fails('wrong_kind', () => openParcel(record, { secret, password: 'x', provider }));
    await fails('decrypt_failed', () => openParcel(record, { secret, identities: () => identities(eve), provider }));
    const other = new Uint8Array(32);
    await fails('decrypt_failed', () =>
      openParcel(record, { secret: other, identities: () => identities(ann), provider }),
    );
    await fails('invalid_request', () => sealParcel(parcel, { recipients, password: 'x', provider }));
  });

  tool.test('a parcel to an inbox opens with its key, and nothing else is taken for one', async () => {
    const owner = await generateKeyPair();
    const identities = parseIdentities(owner.privatePem);
    const sealed = await sealParcelTo(parcel, { recipients: parseRecipients(owner.publicPem), provider });
    equal((await openParcelWith(pieces(sealed, 100), { identities, provider })).from, 'Ann');
    await fails('parcel_invalid', () => openParcelWith(pieces(json(), 100), { identities, provider }));
    const { record } = await sealParcel(parcel, { provider });
    await fails('parcel_invalid', () => openParcelWith(pieces(record, 100), { identities, provider }));
    const others = { recipients: parseRecipients(owner.publicPem), format: 'age', provider } as const;
    const { stream } = await encrypt(pieces(text('{}'), 100), others);
    await fails('parcel_invalid', () => openParcelWith(stream, { identities, provider }));
    await fails('no_recipients', () => sealParcelTo(parcel, { recipients: [], provider }));
  });

  tool.test('a refusal names the part, and never a member that the sender made up', () => {
    const messageOf = (bytes: Uint8Array): string => {
      try {
        parseParcel(bytes);
      } catch (error) {
        return String(error);
      }
      return '';
    };
    ok(messageOf(json({ files: [fileJson({ size: -1 })] })).includes('files.0.size'), 'the part is not named');
    const hostile = messageOf(json({ '\u001b[2J': 1 })) + messageOf(json({ ['x'.repeat(99)]: 1 }));
    ok(!hostile.includes('[2J') && !hostile.includes('xxx'), hostile);
  });

  tool.test('what a reader would refuse is not written', async () => {
    const writes = (change: Partial<Parcel['files'][number]>) => () =>
      encodeParcel({ files: [{ ...file, ...change }] });
    await fails('invalid_filename', writes({ name: 'a/b' }));
    await fails('parcel_invalid', writes({ size: -1 }));
    await fails('parcel_invalid', writes({ cid: 'x' }));
    await fails('parcel_invalid', writes({ fileKey: pattern(31) }));
    await fails('parcel_invalid', () => encodeParcel({ files: [] }));
    await fails('parcel_invalid', () => encodeParcel({ files: [file], note: '' }));
    await fails('parcel_invalid', () => sealParcel({ files: Array.from({ length: 300 }, () => file) }, { provider }));
  });

  tool.test('a record opens with the secret of its link, and with nothing else', async () => {
    const { record, secret } = await sealParcel(parcel, { provider });
    equal(secret.length, 32);
    equal(encodeParcel(await openParcel(record, { secret, provider })), encodeParcel(parcel));
    await fails('decrypt_failed', () => openParcel(record, { secret: pattern(32), provider }), 'another secret');
    await fails('decrypt_failed', () => openParcel(record, { secret: pattern(16), provider }), 'a shorter secret');
    const ignored = await openParcel(record, { secret, password: 'not needed', provider });
    equal(ignored.note, parcel.note);
    const other = await sealParcel(parcel, { provider });
    ok(other.secret.join() !== secret.join(), 'two records have the same secret');
    for (let length = 0; length < record.length; length += length < 100 ? 1 : 97)
      await fails(
        ['container_invalid', 'decrypt_failed', 'unsupported_version', 'parcel_invalid'],
        () => openParcel(record.subarray(0, length), { secret, provider }),
        `cut at ${length}`,
      );
  });

  tool.test('a record with a password needs both the password and the secret', async () => {
    const password = 'Ünï cödé';
    const { record, secret } = await sealParcel(parcel, { password, kdf, provider });
    const opening = (o: { secret?: Uint8Array; password?: string }) => openParcel(record, { secret, provider, ...o });
    equal(encodeParcel(await opening({ password })), encodeParcel(parcel));
    equal((await opening({ password: password.normalize('NFD') })).note, parcel.note, 'in another Unicode form');
    const reasonOf = async (o: Parameters<typeof opening>[0]): Promise<unknown> =>
      opening(o).then(
        () => 'opened',
        (error: unknown) => isSealpinError(error) && [error.code, error.reason],
      );
    equal(await reasonOf({}), ['wrong_kind', 'needs_password']);
    equal(await reasonOf({ password: 'wrong' }), ['decrypt_failed', 'wrong_password']);
    equal(await reasonOf({ password, secret: pattern(32) }), ['decrypt_failed', 'wrong_password']);
    for (const wrong of ['', '\ud800']) {
      await fails('password_invalid', () => opening({ password: wrong }));
      await fails('password_invalid', () => sealParcel(parcel, { password: wrong, kdf, provider }));
    }
  });

  tool.test('the largest parcel fits into a record of at most maxRecordBytes', async () => {
    const longest = { ...file, name: 'x'.repeat(255) };
    const largest: Parcel = { files: [] };
    const fits = (change: Partial<Parcel>): boolean => {
      try {
        return encodeParcel({ ...largest, ...change }).length <= maxParcelBytes;
      } catch (error) {
        return !isSealpinError(error, 'parcel_invalid');
      }
    };
    /** The most that fits, of at most 1,024. */
    const most = (change: (count: number) => Partial<Parcel>): Partial<Parcel> => {
      let count = 0;
      for (let step = 512; step >= 1; step /= 2) if (fits(change(count + step))) count += step;
      return change(count);
    };
    Object.assign(
      largest,
      most((count) => ({ files: Array.from({ length: count }, () => longest) })),
    );
    Object.assign(
      largest,
      most((count) => ({ note: 'x'.repeat(count) })),
    );
    equal(encodeParcel(largest).length, maxParcelBytes);
    for (const password of [undefined, 'x']) {
      const { record, secret } = await sealParcel(largest, { password, kdf, provider });
      ok(record.length <= maxRecordBytes, `${record.length} bytes`);
      equal((await openParcel(record, { secret, password, provider })).files.length, largest.files.length);
    }
  });

  tool.test('a record that is not sealed, or holds no parcel, or one that is too large, is refused', async () => {
    const secret = pattern(32);
    const sealed = async (bytes: Uint8Array) =>
      collect((await encryptPayload(pieces(bytes), { fileKey: secret, provider })).payload);
    await fails('parcel_invalid', () => openParcel(encodeParcel(parcel), { secret, provider }), 'not sealed');
    const recipients = [passwordRecipient(`${encodeBase62(secret)}.x`, kdf)];
    const age = await collect((await encrypt(pieces(json()), { format: 'age', recipients, provider })).stream);
    await fails('parcel_invalid', () => openParcel(age, { secret, password: 'x', provider }), 'an age file');
    await fails('parcel_invalid', async () => openParcel(await sealed(text('x')), { secret, provider }), 'no parcel');
    const large = await sealed(new Uint8Array(maxParcelBytes + 1).fill(0x20));
    await fails('parcel_invalid', () => openParcel(large, { secret, provider }), 'too large');
    const stream = (
      await encrypt(pieces(json()), { format: 'sealpin', recipients: [passwordRecipient('x', kdf)], provider })
    ).stream;
    const own = await collect(stream);
    await fails('decrypt_failed', () => openParcel(own, { secret, password: 'x', provider }), 'the password alone');
  });

  for (const { kind, link, record, parcel, password } of [{ ...golden, password: undefined }, goldenPassword]) {
    tool.test(`S87: ${kind}: the golden record opens with its link`, async () => {
      equal(await digest('SHA-256', fromBase64(record)), digests[kind], 'the record');
      const { link: parsed } = parseLink(link);
      if (parsed.kind !== 'share') throw new Error(`it is ${parsed.kind}`);
      const opened = await openParcel(fromBase64(record), {
        secret: parsed.secret,
        password,
        provider,
      });
      equal(new TextDecoder().decode(encodeParcel(opened)).trimEnd(), parcel);
    });
  }
}
