import {
  encrypt,
  generateKeyPair,
  open,
  openAt,
  parseIdentities,
  parseRecipients,
  type CryptoProvider,
  type Recipient,
} from '../../../crypto/index.ts';
import { openedBytes, sealedBytes } from '../../../crypto/payload/chunking.ts';
import { openChunks } from '../../../crypto/payload/open-chunks.ts';
import { sealChunks } from '../../../crypto/payload/seal-chunks.ts';
import { cobblestoneChunking, newCobblestone } from '../../../crypto/payload/cobblestone.ts';
import { makeHeader } from '../../../crypto/file-key.ts';
import { formatOf } from '../../../crypto/formats/index.ts';
import { ByteSource } from '../../../streams/byte-source.ts';
import { ageChunking, ageStream } from '../../../crypto/payload/age-stream.ts';
import { equal, failedWith, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, digest, hex, join, pattern, pieces, released, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';
import { itemOf, present } from '../../../../testkit/present.ts';

const chunkings = { age: ageChunking, sealpin: cobblestoneChunking } as const;

/**
 * Payloads that were cut, shuffled, crossed or extended, and payloads too large for a test to
 * store.
 */
export function hostilePayloads(tool: Tool, provider: CryptoProvider): void {
  tool.test('a payload of more chunks than its format allows is neither written nor read', async () => {
    for (const make of [ageStream.create, newCobblestone]) {
      const { chunks } = await make(provider, provider.random(make === newCobblestone ? 32 : 16), text('context'));
      const few = { ...chunks, maxChunks: 3 };
      const full = 3 * chunks.chunkBytes - (chunks.fullLast ? 0 : 1);
      const sealing = (bytes: number, allowed: typeof chunks): Promise<Uint8Array> =>
        collect(sealChunks(new ByteSource(pieces(pattern(bytes))), allowed, new Uint8Array(0)));
      const opening = (sealed: Uint8Array, allowed: typeof chunks): Promise<Uint8Array> =>
        collect(openChunks(new ByteSource(pieces(sealed)), () => allowed));
      equal(await opening(await sealing(full, few), few), pattern(full), 'three');
      const four = await sealing(full + 1, chunks);
      equal(await opening(four, chunks), pattern(full + 1), 'four where they are allowed');
      await fails('too_large', () => sealing(full + 1, few), 'writing four');
      await fails('too_large', () => opening(four, few), 'reading four');
    }
  });

  tool.test('what is shorter than a tag fails authentication, and nothing else', async () => {
    for (const aead of [await provider.aesGcm(provider.random(32)), await provider.chaChaPoly(provider.random(32))])
      for (const bytes of [0, 1, 4, 15, 16])
        await fails(
          'decrypt_failed',
          async () => aead.open(new Uint8Array(12), new Uint8Array(bytes)),
          `${bytes} bytes`,
        );
  });

  for (const format of ['age', 'sealpin'] as const) {
    const { chunkBytes } = chunkings[format];
    const sealedChunk = chunkBytes + 16;
    const setUp = async (size: number) => {
      const pair = await generateKeyPair(provider);
      const identities = parseIdentities(pair.privatePem);
      const make = async (plaintext: Uint8Array) => {
        const container = await seal(provider, format, parseRecipients(pair.recipient), plaintext);
        const payload = container.length - sealedBytes(chunkings[format], plaintext.length);
        return {
          head: container.subarray(0, payload),
          chunk: (index: number) =>
            container.subarray(payload + index * sealedChunk, payload + (index + 1) * sealedChunk),
          container,
        };
      };
      const plaintext = pattern(size);
      return {
        make,
        plaintext,
        one: await make(plaintext),
        refused: async (parts: readonly Uint8Array[], what: string) => {
          const { bytes, error } = await releasedOf(join(parts));
          failedWith(['decrypt_failed', 'container_invalid'], error, what);
          equal(bytes, plaintext.subarray(0, bytes.length), `${what}: what came out`);
          return bytes.length;
        },
      };
      async function releasedOf(container: Uint8Array) {
        try {
          const opened = await open(pieces(container), { provider });
          if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
          return await released(await opened.decrypt(identities));
        } catch (error) {
          return { bytes: new Uint8Array(0), error: error as Error };
        }
      }
    };

    tool.test(
      `S4 S5 S6 S9: ${format}: short, swapped, doubled, dropped and added chunks are refused at the first wrong one`,
      async () => {
        const {
          one: { head, chunk, container },
          refused,
        } = await setUp(4 * chunkBytes + 100);
        equal(
          await refused([head, chunk(0), chunk(1), chunk(2).subarray(0, 116)], 'a last chunk made by length only'),
          2 * chunkBytes,
        );
        equal(await refused([head, chunk(1), chunk(0), chunk(2), chunk(3), chunk(4)], 'swapped'), 0);
        equal(await refused([head, chunk(0), chunk(1), chunk(3), chunk(2), chunk(4)], 'swapped later'), 2 * chunkBytes);
        equal(await refused([head, chunk(0), chunk(0), chunk(1), chunk(2), chunk(3), chunk(4)], 'doubled'), chunkBytes);
        equal(await refused([head, chunk(0), chunk(2), chunk(3), chunk(4)], 'dropped'), chunkBytes);
        equal(await refused([head, chunk(0), chunk(4)], 'the last one moved'), chunkBytes);
        for (const [what, more] of [
          ['a byte', 1],
          ['16 bytes', 16],
          ['a chunk', sealedChunk],
        ] as const)
          await refused([container, new Uint8Array(more)], `${what} after the end`);
        await refused([container, chunk(4)], 'the last chunk twice');
        await refused([container, container], 'the container twice');
      },
    );

    tool.test(`S7 S8: ${format}: chunks and headers of another file for the same key are refused`, async () => {
      const { make, plaintext, one, refused } = await setUp(2 * chunkBytes + 5);
      const other = await make(plaintext);
      equal(
        await refused([one.head, one.chunk(0), other.chunk(1), one.chunk(2)], 'a chunk of another file'),
        chunkBytes,
      );
      const nonceAndSalt = format === 'age' ? 16 : 56;
      const header = one.head.subarray(0, one.head.length - nonceAndSalt);
      equal(await refused([header, other.container.subarray(header.length)], 'the payload of another file'), 0);
    });

    tool.test(
      `S10 S11: ${format}: an empty last chunk is ` +
        `${format === 'age' ? 'refused after a full one' : 'needed after a full one'}, and an empty file has one`,
      async () => {
        const {
          one: { head, chunk, container },
          refused,
        } = await setUp(chunkBytes);
        if (format === 'age') {
          const { preamble, chunks } = await ageStream.create(provider, new Uint8Array(16).fill(7));
          const full = await chunks.aead.seal(chunks.nonce(0, false), pattern(chunkBytes));
          const empty = await chunks.aead.seal(chunks.nonce(1, true), new Uint8Array(0));
          const pair = await generateKeyPair(provider);
          const stanza = await itemOf(parseRecipients(pair.recipient), 0).wrap(
            new Uint8Array(16).fill(7),
            formatOf('age'),
            provider,
          );
          const forged = join([
            makeHeader(provider, formatOf('age'), new Uint8Array(16).fill(7), [stanza]),
            preamble,
            full,
            empty,
          ]);
          await fails(
            'container_invalid',
            () => unseal(provider, pieces(forged), parseIdentities(pair.privatePem)),
            'an empty chunk after a full one',
          );
        } else {
          equal(container.length, head.length + sealedChunk + 16);
          equal(await refused([head, chunk(0)], 'without the empty chunk'), chunkBytes);
        }
        const empty = await setUp(0);
        equal(empty.one.container.length, empty.one.head.length + 16);
      },
    );

    tool.test(`S12: ${format}: the counter of chunks passes 256`, async () => {
      const { recipient, privatePem } = await generateKeyPair(provider);
      const plaintext = pattern(256 * chunkBytes + 1);
      const around = [256 * chunkBytes - 1, 256 * chunkBytes, 256 * chunkBytes + 1];
      for (const size of tool.long ? around : around.slice(-1)) {
        const container = await seal(provider, format, parseRecipients(recipient), plaintext.subarray(0, size));
        const back = await unseal(provider, pieces(container, 1 << 20), parseIdentities(privatePem));
        equal(await digest('SHA-256', back), await digest('SHA-256', plaintext.subarray(0, size)), `${size}`);
      }
    });

    tool.test(`S12: ${format}: sizes and nonces are exact above 4 GiB`, async () => {
      const { chunks } =
        format === 'age'
          ? await ageStream.create(provider, new Uint8Array(16))
          : await newCobblestone(provider, new Uint8Array(32), text('x'));
      const zero = BigInt(`0x${hex(chunks.nonce(0, false))}`);
      for (const index of [
        1,
        255,
        256,
        65_535,
        65_536,
        2 ** 24,
        2 ** 31,
        2 ** 32 - 1,
        2 ** 32,
        2 ** 32 + 1,
        2 ** 38 - 1,
      ]) {
        const expected = format === 'age' ? BigInt(index) << 8n : zero ^ BigInt(index);
        equal(BigInt(`0x${hex(chunks.nonce(index, false))}`).toString(16), expected.toString(16), `nonce ${index}`);
      }
      for (const size of [2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 5 * 2 ** 30, 2 ** 40 + 12_345, 2 ** 50]) {
        const n = BigInt(size);
        const c = BigInt(chunkBytes);
        const count = format === 'age' ? (n + c - 1n) / c : n / c + 1n;
        equal(sealedBytes(chunkings[format], size).toString(), (n + 16n * count).toString(), `${size}`);
        equal(openedBytes(chunkings[format], sealedBytes(chunkings[format], size)), size);
      }
    });

    tool.test(
      `S12 S17: ${format}: a part of a container of 5 GiB is read from the few chunks that it needs`,
      async () => {
        const { recipient, privatePem } = await generateKeyPair(provider);
        const size = 5 * 2 ** 30 + 1000;
        const fileKey = provider.random(format === 'age' ? 16 : 32);
        const header = makeHeader(provider, formatOf(format), fileKey, [
          await itemOf(parseRecipients(recipient), 0).wrap(fileKey, formatOf(format), provider),
        ]);
        const { preamble, chunks } = await formatOf(format).payload.create(provider, fileKey);
        const head = join([header, preamble]);
        const total = Math.ceil(size / chunkBytes);
        // Each chunk holds its number, and is sealed when it is read.
        const plainChunk = (index: number): Uint8Array =>
          pattern(index === total - 1 ? size - index * chunkBytes : chunkBytes, index + 1);
        const container = {
          bytes: head.length + sealedBytes(chunkings[format], size),
          async read(offset: number, length: number): Promise<ReadableStream<Uint8Array>> {
            if (offset < head.length)
              return pieces(join([head, new Uint8Array(sealedChunk)]).subarray(offset, offset + length));
            ok((offset - head.length) % sealedChunk === 0, 'a read that does not begin at a chunk');
            const first = (offset - head.length) / sealedChunk;
            const sealed: Uint8Array[] = [];
            for (let index = first; (index - first) * sealedChunk < length; index += 1)
              sealed.push(await chunks.aead.seal(chunks.nonce(index, index === total - 1), plainChunk(index)));
            return pieces(join(sealed).subarray(0, length));
          },
        };
        const opened = await openAt(container, { identities: parseIdentities(privatePem), provider });
        equal(opened.plaintextBytes, size);
        const middle = Math.floor((4.5 * 2 ** 30) / chunkBytes);
        equal(
          await collect(
            await opened.decryptRange({ start: middle * chunkBytes + 10, end: (middle + 2) * chunkBytes + 20 }),
          ),
          join([plainChunk(middle).subarray(10), plainChunk(middle + 1), plainChunk(middle + 2).subarray(0, 20)]),
        );
        equal(
          await collect(await opened.decryptRange({ start: size - 500, end: size })),
          plainChunk(total - 1).subarray(-500),
        );
        for (const bytes of [container.bytes - 1, container.bytes - sealedChunk, container.bytes + 1]) {
          await fails(
            ['decrypt_failed', 'container_invalid'],
            () => openAt({ ...container, bytes }, { identities: parseIdentities(privatePem), provider }),
            `a size of ${bytes}`,
          );
        }
      },
    );
  }

  tool.test(`S12: a stream of ${tool.long ? '4 GiB' : '16 MiB'} goes through, counted and not kept`, async () => {
    const size = tool.long ? 2 ** 32 + 100_000 : 2 ** 24 + 100_000;
    const { recipient, privatePem } = await generateKeyPair(provider);
    const block = new Uint8Array(1 << 20);
    let left = size;
    const zeros = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left === 0) controller.close();
        else controller.enqueue(block.subarray(0, Math.min(left, block.length)));
        left -= Math.min(left, block.length);
      },
    });
    const made = await encrypt(zeros, { format: 'sealpin', recipients: parseRecipients(recipient), provider });
    let sealed = 0;
    const counted = made.stream.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          sealed += piece.length;
          controller.enqueue(piece);
        },
      }),
    );
    const opened = await open(counted, { provider });
    if (opened.kind !== 'sealpin') throw new Error(`it is ${opened.kind}`);
    const reader = (await opened.decrypt(parseIdentities(privatePem))).getReader();
    let out = 0;
    for (let next = await reader.read(); !next.done; next = await reader.read()) out += next.value.length;
    equal([out, sealed], [size, made.size(size)]);
  });

  tool.test('S15: a stream that failed keeps failing with the same error', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const container = await seal(provider, 'sealpin', parseRecipients(recipient), pattern(40_000));
    const opened = await open(pieces(container.subarray(0, -1)), { provider });
    if (opened.kind !== 'sealpin') throw new Error(`it is ${opened.kind}`);
    const reader = (await opened.decrypt(parseIdentities(privatePem))).getReader();
    const errors: unknown[] = [];
    for (let round = 0; round < 10; round += 1) await reader.read().catch((error: unknown) => errors.push(error));
    ok(
      errors.length >= 8 && errors.every((error) => error === errors[0]),
      'a read after the failure ends well, or fails with something else',
    );
    failedWith('decrypt_failed', errors[0]);
  });

  tool.test('S20: a wrong commitment is refused before any chunk is opened', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const container = await seal(provider, 'sealpin', parseRecipients(recipient), pattern(1000));
    let opens = 0;
    const counting: CryptoProvider = {
      ...provider,
      async aesGcm(key) {
        const aead = await provider.aesGcm(key);
        return {
          ...aead,
          open(nonce, ciphertext, aad, out) {
            if (ciphertext.length === 1016) opens += 1;
            return aead.open(nonce, ciphertext, aad, out);
          },
        };
      },
    };
    const commitment = container.length - 1016 - 32;
    const flipped = container.map((byte, index) => (index === commitment ? byte ^ 1 : byte));
    await fails('decrypt_failed', () => unseal(counting, pieces(flipped), parseIdentities(privatePem)));
    equal(opens, 0);
    await unseal(counting, pieces(container), parseIdentities(privatePem));
    equal(opens, 1, 'opened when it is right');
  });

  tool.test('S22: the same file never gives the same key, salt or container twice', async () => {
    const openKey: Recipient = { kind: 'key', wrap: async (fileKey) => ({ args: ['test'], body: fileKey.slice() }) };
    const seen = new Set<string>();
    const runs = tool.long ? 10_000 : 200;
    for (let run = 0; run < runs; run += 1) {
      const container = hex(await seal(provider, run % 2 === 0 ? 'sealpin' : 'age', [openKey], text('same')));
      const [, body] = present(
        /-> test\n([^\n]+)\n/.exec(
          String.fromCharCode(
            ...present(container.match(/../g))
              .slice(0, 70)
              .map((pair) => Number.parseInt(pair, 16)),
          ),
        ),
      );
      seen
        .add(present(body))
        .add(container)
        .add(container.slice(-2 * (run % 2 === 0 ? 20 + 56 : 20 + 16)).slice(0, 32));
    }
    equal(seen.size, 3 * runs);
  });

  tool.test('S23: a random generator that fails, repeats itself or gives too little ends the encryption', async () => {
    const { recipient } = await generateKeyPair(provider);
    const once = provider.random(64);
    const generators: [string, (bytes: number) => Uint8Array][] = [
      [
        'throws',
        () => {
          throw new Error('no entropy');
        },
      ],
      ['zeros', (bytes) => new Uint8Array(bytes)],
      ['one value', (bytes) => new Uint8Array(bytes).fill(0x42)],
      ['the same bytes', (bytes) => once.slice(0, bytes)],
      ['too few', (bytes) => provider.random(bytes - 1)],
    ];
    for (const [what, random] of generators) {
      for (const format of ['age', 'sealpin'] as const)
        await fails(
          'random_failed',
          () => seal({ ...provider, random }, format, parseRecipients(recipient), text('x')),
          what,
        );
      if (what !== 'the same bytes') await fails('random_failed', () => generateKeyPair({ ...provider, random }), what);
    }
  });

  tool.test('S42: nothing is compressed: the size depends on nothing but the size', async () => {
    const { recipient } = await generateKeyPair(provider);
    for (const format of ['age', 'sealpin'] as const) {
      const zeros = await seal(provider, format, parseRecipients(recipient), new Uint8Array(100_000));
      equal(zeros.length, (await seal(provider, format, parseRecipients(recipient), pattern(100_000))).length);
    }
  });
}
