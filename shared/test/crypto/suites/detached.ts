import {
  detachedPayloadBytes,
  encryptDetached,
  generateKeyPair,
  identityFromPair,
  identityFromPkcs8,
  open,
  openDetached,
  passwordIdentity,
  plaintextBytes,
  recipientFromSpki,
  type CryptoProvider,
  type Stanza,
} from '../../../crypto/index.ts';
import { openFileStanza, parseFileStanza, sealFileStanza } from '../../../crypto/stanzas/file-stanza.ts';
import { hkdf } from '../../../crypto/providers/kdf.ts';
import { equal, failedWith, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, join, pattern, pieces, released, text } from '../streams.ts';
import { seal } from './containers.ts';
import { flip } from '../../../../testkit/present.ts';

const fileId = '0b7ff0a2-6b3e-4a3b-9a52-6f0b7e0c1d2e';
const chunk = 16_384;

/** The service's encrypted mode: header apart from the payload. */
export function detached(tool: Tool, provider: CryptoProvider): void {
  const make = async (plaintext: Uint8Array, filename: string | null = 'Bericht für Ω.pdf') => {
    const { pkcs8, spki } = await generateKeyPair(provider);
    const made = await encryptDetached(pieces(plaintext), { recipient: recipientFromSpki(spki), provider });
    const payload = await collect(made.payload);
    const file = { filename, contentType: 'application/pdf', size: plaintext.length };
    return { payload, file, header: await made.header(fileId, file), identities: [identityFromPkcs8(pkcs8)] };
  };

  tool.test('a pair opens what is for its public key, and one that does not belong together nothing', async () => {
    const [pair, other] = await Promise.all([generateKeyPair(provider), generateKeyPair(provider)]);
    const made = await encryptDetached(pieces(text('x')), { recipient: recipientFromSpki(pair.spki), provider });
    const payload = await collect(made.payload);
    const header = await made.header(fileId, { filename: null, contentType: 'text/plain', size: 1 });
    const openBy = (pkcs8: Uint8Array, spki: Uint8Array) =>
      openDetached(header, { fileId, identities: [identityFromPair(pkcs8, spki)], provider });
    equal(await collect((await openBy(pair.pkcs8, pair.spki)).decrypt(pieces(payload))), text('x'));
    await fails('decrypt_failed', () => openBy(pair.pkcs8, other.spki));
    await fails('decrypt_failed', () => openBy(other.pkcs8, pair.spki));
    await fails('key_invalid', () => identityFromPair(pair.pkcs8, pair.pkcs8));
  });

  tool.test('pieces of the plaintext are given back, once nothing needs them any more', async () => {
    const { pkcs8, spki } = await generateKeyPair(provider);
    // Larger than one batch, and in pieces that chunks do not fit into.
    const plaintext = pattern(3 * 2 ** 20);
    const taken = new Set<ArrayBufferLike>();
    const given = new Set<ArrayBufferLike>();
    const memory = {
      take(bytes: number): Uint8Array {
        const piece = new Uint8Array(bytes);
        taken.add(piece.buffer);
        return piece;
      },
      giveBack(piece: Uint8Array): void {
        new Uint8Array(piece.buffer).fill(0);
        given.add(piece.buffer);
      },
    };
    const made = await encryptDetached(pieces(plaintext, 200_000), {
      recipient: recipientFromSpki(spki),
      memory,
      provider,
    });
    const payload = await collect(made.payload);
    equal([...given].filter((buffer) => !taken.has(buffer)).length, Math.ceil(plaintext.length / 200_000));
    const file = { filename: null, contentType: 'text/plain', size: plaintext.length };
    const header = await made.header(fileId, file);
    const opened = await openDetached(header, { fileId, identities: [identityFromPkcs8(pkcs8)], provider });
    equal(await collect(opened.decrypt(pieces(payload))), plaintext);
  });

  tool.test('payload and header come back, and sizes are computed both ways', async () => {
    for (const size of [0, 1, chunk - 1, chunk, chunk + 1, 64 * chunk - 1, 64 * chunk, 64 * chunk + 1]) {
      const plaintext = pattern(size);
      const { payload, file, header, identities } = await make(plaintext, size === 0 ? null : undefined);
      equal(payload.length, detachedPayloadBytes(size));
      equal(plaintextBytes(payload.length), size);
      const opened = await openDetached(header, { fileId, identities, provider });
      equal(opened.file, file);
      equal(await collect(opened.decrypt(pieces(payload))), plaintext, `${size} bytes`);
    }
    for (const impossible of [
      0,
      19,
      20 + 56 + 15,
      detachedPayloadBytes(chunk - 1) + 1,
      detachedPayloadBytes(chunk) - 1,
      1.5,
    ])
      equal(plaintextBytes(impossible), undefined, `${impossible}`);
  });

  tool.test('header and payload together are a container that the private key opens', async () => {
    const plaintext = pattern(50_000);
    const { payload, header, identities } = await make(plaintext);
    const opened = await open(pieces(join([header, payload])), { provider });
    if (opened.kind !== 'sealpin') throw new Error(`it is ${opened.kind}`);
    equal(opened.opens, 'keys');
    equal(await collect(await opened.decrypt(identities)), plaintext);
    equal((await open(pieces(payload), { provider })).kind, 'detached', 'the payload alone');
    const withoutLine = await open(pieces(join([header, payload.subarray(20)])), { provider });
    await fails(
      'container_invalid',
      async () => 'decrypt' in withoutLine && collect(await withoutLine.decrypt(identities)),
      'without its line',
    );
  });

  tool.test('gets another description, and stays the header of the same payload for the same recipients', async () => {
    const plaintext = pattern(50_000);
    const { payload, file, header, identities } = await make(plaintext);
    const opened = await openDetached(header, { fileId, identities, provider });
    const other = { ...file, filename: null, metadata: { a: 'ä', b: '' }, tags: ['x', 'y'.repeat(300)] };
    const changed = await opened.describe(fileId, other);
    const again = await openDetached(changed, { fileId, identities, provider });
    equal(again.file, other);
    equal(await collect(again.decrypt(pieces(payload))), plaintext);
    equal((await openDetached(await again.describe(fileId, file), { fileId, identities, provider })).file, file);
    const elsewhere = await opened.describe('another', file);
    await fails('decrypt_failed', () => openDetached(elsewhere, { fileId, identities, provider }));
  });

  tool.test(
    'a header of another file, a stranger, a password, and every flipped byte of the header are refused',
    async () => {
      const { header, identities } = await make(text('x'));
      const other = await generateKeyPair(provider);
      await fails('decrypt_failed', () =>
        openDetached(header, { fileId: fileId.replace('0', '1'), identities, provider }),
      );
      await fails('decrypt_failed', () =>
        openDetached(header, { fileId, identities: [identityFromPkcs8(other.pkcs8)], provider }),
      );
      await fails('wrong_kind', () => openDetached(header, { fileId, identities: [passwordIdentity('x')], provider }));
      for (let at = 0; at < header.length; at += 1) {
        const flipped = header.map((byte, index) => (index === at ? byte ^ 1 : byte));
        await fails(
          ['decrypt_failed', 'header_invalid'],
          () => openDetached(flipped, { fileId, identities, provider }),
          `byte ${at} flipped`,
        );
      }
      for (let length = 0; length < header.length; length += 1)
        await fails(
          'header_invalid',
          () => openDetached(header.subarray(0, length), { fileId, identities, provider }),
          `cut at ${length}`,
        );
      await fails(
        'header_invalid',
        () => openDetached(join([header, text('x')]), { fileId, identities, provider }),
        'with something after it',
      );
    },
  );

  tool.test('a header that names no file opens for no file', async () => {
    const { pkcs8, spki } = await generateKeyPair(provider);
    const container = await seal(provider, 'sealpin', [recipientFromSpki(spki)], text('x'));
    const mac = container.findIndex((_, at) => String.fromCharCode(...container.subarray(at, at + 5)) === '\n--- ');
    const header = container.subarray(0, container.indexOf(10, mac + 1) + 1);
    const identities = [identityFromPkcs8(pkcs8)];
    await fails('header_invalid', () => openDetached(header, { fileId, identities, provider }));
  });

  tool.test('a file id has 1 to 255 visible characters, and a size is a whole number', async () => {
    const fileKey = provider.random(32);
    const file = { filename: null, contentType: 'text/plain', size: 1 };
    const longest = await sealFileStanza(provider, fileKey, 'x'.repeat(255), file);
    equal(await openFileStanza(provider, fileKey, 'x'.repeat(255), longest), file);
    const refusals = async (body: () => Promise<unknown>, what: string): Promise<void> => {
      const error = await body().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      ok(error instanceof TypeError, `${what}: ${String(error)}`);
    };
    for (const id of ['', 'x'.repeat(256), 'x'.repeat(9999), 'a b', 'ü', 'a\n']) {
      await refusals(() => sealFileStanza(provider, fileKey, id, file), `writing an id of ${id.length}`);
      const stanza = { args: ['file', id], body: longest.body };
      await fails('header_invalid', () => parseFileStanza(stanza), `reading an id of ${id.length}`);
    }
    for (const size of [-1, 0.5, 2 ** 53, Number.NaN])
      await refusals(() => sealFileStanza(provider, fileKey, 'id', { ...file, size }), `writing size ${size}`);
    const sealJson = async (json: string): Promise<Stanza> => {
      const aead = await provider.aesGcm(hkdf(provider, fileKey, new Uint8Array(0), 'sealpin/v1 file'));
      const nonce = provider.random(12);
      return { args: ['file', 'id'], body: join([nonce, await aead.seal(nonce, text(json.padEnd(256)), text('id'))]) };
    };
    const others = '"filename": null, "contentType": "text/plain"';
    const read = await openFileStanza(provider, fileKey, 'id', await sealJson(`{${others}, "size": 5, "later": true}`));
    equal(read, { filename: null, contentType: 'text/plain', size: 5 }, 'a member of a later version');
    for (const json of [
      ...['-1', '0.5', '9007199254740992', '"5"', 'null', '1e400'].map((size) => `{${others}, "size": ${size}}`),
      `{${others}}`,
      '{"filename": 1, "contentType": "text/plain", "size": 5}',
      '{"filename": null, "contentType": null, "size": 5}',
      ...['null', '"x"', '[]', '{"a": 1}', '{"a": {}}'].map((pairs) => `{${others}, "size": 5, "metadata": ${pairs}}`),
      ...['null', '"x"', '{}', '[1]', '[["x"]]'].map((tags) => `{${others}, "size": 5, "tags": ${tags}}`),
      'null',
      '[]',
      '{',
    ])
      await fails('header_invalid', async () => openFileStanza(provider, fileKey, 'id', await sealJson(json)), json);
  });

  tool.test('a payload that is cut, of another header, or without its line is refused', async () => {
    const plaintext = pattern(40_000);
    const { payload, header, identities } = await make(plaintext);
    const another = await make(plaintext);
    const opened = await openDetached(header, { fileId, identities, provider });
    await fails('decrypt_failed', () => collect(opened.decrypt(pieces(another.payload))), 'of another header');
    await fails('container_invalid', () => collect(opened.decrypt(pieces(payload.subarray(20)))), 'without its line');
    for (const length of [0, 19, 20, 75, 76, 76 + 15, 76 + 16_400, payload.length - 1]) {
      const { bytes, error } = await released(opened.decrypt(pieces(payload.subarray(0, length))));
      failedWith(['container_invalid', 'decrypt_failed'], error, `cut at ${length}`);
      equal(bytes, plaintext.subarray(0, bytes.length));
    }
  });

  tool.test('a range reads only the chunks it needs, and is what the whole has there', async () => {
    for (const size of [0, 1, chunk, 3 * chunk, 70 * chunk + 5]) {
      const plaintext = pattern(size);
      const { payload, header, identities } = await make(plaintext);
      const opened = await openDetached(header, { fileId, identities, provider });
      for (const start of [0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 69 * chunk + 7, size - 1, size]) {
        for (const end of [start, start + 1, start + chunk, size - 1, size]) {
          if (start < 0 || start > end || end > size) continue;
          let readBytes = 0;
          let reads = 0;
          const part = await opened.decryptRange({
            start,
            end,
            async read(offset, length) {
              reads += 1;
              readBytes += length;
              ok(offset + length <= payload.length, 'it reads past the end');
              return pieces(payload.slice(offset, offset + length));
            },
          });
          equal(await collect(part), plaintext.subarray(start, end), `${start} to ${end} of ${size}`);
          ok(reads <= 2, 'more than two reads');
          ok(
            readBytes <= 76 + (Math.floor((end - start) / chunk) + 2) * (chunk + 16),
            `${readBytes} bytes read for ${end - start}`,
          );
        }
      }
      const read = async () => pieces(payload);
      for (const [start, end] of [
        [-1, 0],
        [0, size + 1],
        [1, 0],
        [0.5, 1],
      ] as const)
        await fails(
          'range_not_satisfiable',
          () => opened.decryptRange({ start, end, read }),
          `${start} to ${end} of ${size}`,
        );
    }
  });

  tool.test('S16: a range over good chunks succeeds next to a bad one, and over the bad one fails', async () => {
    const plaintext = pattern(4 * chunk + 10);
    const { payload, header, identities } = await make(plaintext);
    flip(payload, 76 + 16_400 + 5);
    const opened = await openDetached(header, { fileId, identities, provider });
    const range = (start: number, end: number) =>
      opened.decryptRange({
        start,
        end,
        read: async (offset, length) => pieces(payload.slice(offset, offset + length)),
      });
    equal(await collect(await range(2 * chunk, 3 * chunk)), plaintext.subarray(2 * chunk, 3 * chunk));
    await fails('decrypt_failed', async () => collect(await range(chunk + 100, 3 * chunk)));
    await fails('decrypt_failed', () => collect(opened.decrypt(pieces(payload))), 'the whole');
  });
}
