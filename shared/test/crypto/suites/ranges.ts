import * as fc from 'fast-check';
import {
  encrypt,
  encryptDetached,
  generateKeyPair,
  openAt,
  parseIdentities,
  parseRecipients,
  passwordIdentity,
  type CryptoProvider,
  type Stanza,
} from '../../../crypto/index.ts';
import { encodePadded } from '../../../crypto/bytes.ts';
import { maxHeaderBytes } from '../../../crypto/header.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, join, pattern, pieces, text } from '../streams.ts';
import { seal } from './containers.ts';
import { first, present } from '../../../../testkit/present.ts';

const chunkBytes = { age: 65_536, sealpin: 16_384 } as const;

function randomAccess(container: Uint8Array) {
  const reads: number[] = [];
  return {
    reads,
    bytes: container.length,
    async read(offset: number, length: number): Promise<ReadableStream<Uint8Array>> {
      ok(
        offset >= 0 && length > 0 && offset + length <= container.length,
        `it reads ${length} from ${offset} of ${container.length}`,
      );
      reads.push(length);
      return pieces(container.slice(offset, offset + length), 50_000);
    },
  };
}

/** Finds the beginning of the payload. */
function headerEnd(container: Uint8Array): number {
  const latin = String.fromCharCode(...container.subarray(0, 1000));
  return latin.indexOf('\n', latin.indexOf('\n--- ') + 1) + 1;
}

/** An age file as text. */
function armored(container: Uint8Array, lineEnd: string): Uint8Array {
  const lines = encodePadded(container).match(/.{1,64}/g) ?? [];
  const all = ['-----BEGIN AGE ENCRYPTED FILE-----', ...lines, '-----END AGE ENCRYPTED FILE-----'];
  return text(`\n ${all.join(lineEnd)}${lineEnd}`);
}

/** Any part of a container, of both formats. */
export function ranges(tool: Tool, provider: CryptoProvider): void {
  for (const format of ['age', 'sealpin'] as const) {
    const chunk = chunkBytes[format];
    tool.test(
      `${format}: any part, from the start, from the end and across chunks, is what the whole has there`,
      async () => {
        const { recipient, privatePem } = await generateKeyPair(provider);
        const identities = parseIdentities(privatePem);
        for (const size of [0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3 * chunk + 7]) {
          const plaintext = pattern(size);
          const container = await seal(provider, format, parseRecipients(recipient), plaintext);
          const armors = format === 'age' ? ['\n', '\r\n'].map((lineEnd) => armored(container, lineEnd)) : [];
          const stored = [container, ...armors].map((each) => openAt(randomAccess(each), { identities, provider }));
          const all = await Promise.all(stored);
          for (const { plaintextBytes } of all) equal(plaintextBytes, size);
          const offset = fc.oneof(
            fc.integer({ min: 0, max: size }),
            fc.constantFrom(
              ...[0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, size - 1, size].filter((at) => at >= 0 && at <= size),
            ),
          );
          await fc.assert(
            fc.asyncProperty(offset, offset, async (a, b) => {
              const [start, end] = [Math.min(a, b), Math.max(a, b)];
              for (const [kind, opened] of all.entries())
                equal(
                  await collect(await opened.decryptRange({ start, end })),
                  plaintext.subarray(start, end),
                  `${start} to ${end} of ${size}, ${['bare', 'armored', 'armored with CRLF'][kind]}`,
                );
            }),
            { numRuns: tool.long ? 30 : 8 },
          );
          for (const [start, end] of [
            [-1, 0],
            [0, size + 1],
            [1, 0],
            [0, 0.5],
          ] as const)
            for (const opened of all) await fails('range_not_satisfiable', () => opened.decryptRange({ start, end }));
        }
      },
    );

    tool.test(
      `S16 S17: ${format}: is read beside a bad chunk; cut, or with a bad last chunk, it does not open`,
      async () => {
        const { recipient, privatePem } = await generateKeyPair(provider);
        const identities = parseIdentities(privatePem);
        const plaintext = pattern(5 * chunk + 10);
        const container = await seal(provider, format, parseRecipients(recipient), plaintext);
        const payload = container.length - plaintext.length - 6 * 16;
        const withBad = (at: number): Uint8Array => container.map((byte, index) => (index === at ? byte ^ 1 : byte));
        const source = randomAccess(withBad(payload + chunk + 16 + 5));
        const opened = await openAt(source, { identities, provider });
        source.reads.length = 0;
        equal(
          await collect(await opened.decryptRange({ start: 2 * chunk + 3, end: 3 * chunk + 3 })),
          plaintext.subarray(2 * chunk + 3, 3 * chunk + 3),
        );
        equal(source.reads, [2 * (chunk + 16)], 'what is read for it');
        await fails('decrypt_failed', async () =>
          collect(await opened.decryptRange({ start: chunk + 5, end: chunk + 6 })),
        );
        const open = (bytes: Uint8Array): Promise<unknown> => openAt(randomAccess(bytes), { identities, provider });
        await fails('decrypt_failed', () => open(withBad(container.length - 1)), 'a bad last chunk');
        for (const length of [
          payload,
          payload + 15,
          payload + 16,
          payload + chunk + 16,
          payload + 5 * (chunk + 16),
          container.length - 10,
          container.length - 1,
        ])
          await fails(
            ['decrypt_failed', 'container_invalid'],
            () => open(container.subarray(0, length)),
            `cut at ${length}`,
          );
        await fails(
          ['decrypt_failed', 'container_invalid'],
          () => open(join([container, new Uint8Array(1)])),
          'a byte more',
        );
        await fails('wrong_kind', () =>
          openAt(randomAccess(container), { identities: [passwordIdentity('x')], provider }),
        );
      },
    );
  }

  tool.test('a header of nearly 1 MiB is read in parts like any other', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const [ours] = parseRecipients(recipient);
    for (const format of ['age', 'sealpin'] as const) {
      const sizeOf = async (filler: number): Promise<Uint8Array> => {
        const wrap = async (): Promise<Stanza> => ({ args: ['filler', 'x'.repeat(filler)], body: new Uint8Array(0) });
        const container = await encrypt(pieces(pattern(100_000)), {
          format,
          recipients: [{ kind: 'key', wrap }, present(ours)],
          provider,
        });
        return collect(container.stream);
      };
      const small = await sizeOf(1);
      const payloadBytes = small.length - headerEnd(small);
      const largest = await sizeOf(maxHeaderBytes - headerEnd(small) + 1);
      equal(largest.length - payloadBytes, maxHeaderBytes, 'the header');
      const opened = await openAt(randomAccess(largest), { identities: parseIdentities(privatePem), provider });
      equal(
        await collect(await opened.decryptRange({ start: 70_000, end: 70_010 })),
        pattern(100_000).subarray(70_000, 70_010),
        format,
      );
    }
  });

  tool.test('a container of the encrypted mode is read in parts, too; what is no container is refused', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const plaintext = pattern(40_000);
    const made = await encryptDetached(pieces(plaintext), { recipient: first(parseRecipients(recipient)), provider });
    const payload = await collect(made.payload);
    const container = join([
      await made.header('id', { filename: null, contentType: 'text/plain', size: plaintext.length }),
      payload,
    ]);
    const identities = parseIdentities(privatePem);
    const opened = await openAt(randomAccess(container), { identities, provider });
    equal(await collect(await opened.decryptRange({ start: 30_000, end: 40_000 })), plaintext.subarray(30_000));
    await fails('unsupported_version', () => openAt(randomAccess(payload), { identities, provider }));
    await fails('not_encrypted', () => openAt(randomAccess(text('plain')), { identities, provider }));
  });
}
