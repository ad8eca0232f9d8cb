import * as fc from 'fast-check';
import {
  encrypt,
  generateKeyPair,
  open,
  parseIdentities,
  parseRecipients,
  type CryptoProvider,
} from '../../../crypto/index.ts';
import { equal, ok, type Tool } from '../../../../testkit/assertions.ts';
import { byteStream, collect, join, pattern, pieces, released } from '../streams.ts';
import { isSealpinError } from '../../../errors.ts';
import { seal } from './containers.ts';
import { present } from '../../../../testkit/present.ts';

const chunkBytes = { age: 65_536, sealpin: 16_384 } as const;

/** A stream of the bytes in pieces of these sizes, again and again. */
function cutBy(bytes: Uint8Array, cuts: readonly number[]): ReadableStream<Uint8Array> {
  let offset = 0;
  let turn = 0;
  return new ReadableStream({
    pull(controller) {
      if (offset >= bytes.length) {
        controller.close();
        return;
      }
      const length = present(cuts[turn % cuts.length]);
      turn += 1;
      controller.enqueue(bytes.slice(offset, offset + length));
      offset += length;
    },
  });
}

/** Random sizes and cuts. */
export function properties(tool: Tool, provider: CryptoProvider): void {
  const numRuns = tool.long ? 1000 : 25;
  for (const format of ['age', 'sealpin'] as const) {
    const chunk = chunkBytes[format];
    const size = fc.oneof(
      fc.integer({ min: 0, max: 100 }),
      fc
        .tuple(fc.integer({ min: 0, max: 5 }), fc.integer({ min: -20, max: 20 }))
        .map(([chunks, more]) => Math.max(0, chunks * chunk + more)),
      fc.integer({ min: 0, max: 300_000 }),
    );
    const cut = fc.oneof(
      fc.integer({ min: 500, max: 3000 }),
      fc.constantFrom(chunk - 1, chunk, chunk + 1, chunk + 15, chunk + 16, chunk + 17, 65_536),
      fc.integer({ min: 3000, max: 200_000 }),
    );
    const cuts = fc.array(cut, { minLength: 1, maxLength: 4 });

    tool.test(`S12 S90: ${format}: any size, cut in any way, comes back`, async () => {
      const { recipient, privatePem } = await generateKeyPair(provider);
      const [recipients, identities] = [parseRecipients(recipient), parseIdentities(privatePem)];
      await fc.assert(
        fc.asyncProperty(size, cuts, cuts, fc.boolean(), async (bytes, before, after, asBytes) => {
          const plaintext = pattern(bytes);
          const made = await encrypt(asBytes ? byteStream(plaintext, before[0]) : cutBy(plaintext, before), {
            format,
            recipients,
            provider,
          });
          const container = await collect(made.stream);
          equal(container.length, made.size(bytes));
          const opened = await open(asBytes ? byteStream(container, after[0]) : cutBy(container, after), { provider });
          if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
          equal(await collect(await opened.decrypt(identities)), plaintext);
        }),
        { numRuns },
      );
    });

    tool.test(
      `S13 S14: ${format}: whatever byte is changed, dropped or added, what comes out is a prefix, and an error`,
      async () => {
        const { recipient, privatePem } = await generateKeyPair(provider);
        const identities = parseIdentities(privatePem);
        const plaintext = pattern(2 * chunk + 500);
        const container = await seal(provider, format, parseRecipients(recipient), plaintext);
        const at = fc.integer({ min: 30, max: container.length - 1 });
        const damage = fc.oneof(
          fc
            .tuple(at, fc.integer({ min: 1, max: 255 }))
            .map(([index, mask]) => container.map((byte, other) => (other === index ? byte ^ mask : byte))),
          at.map((length) => container.slice(0, length)),
          at.map((index) => join([container.subarray(0, index), container.subarray(index + 1)])),
          fc
            .tuple(at, fc.integer({ min: 0, max: 255 }))
            .map(([index, byte]) =>
              join([container.subarray(0, index), Uint8Array.of(byte), container.subarray(index)]),
            ),
        );
        await fc.assert(
          fc.asyncProperty(damage, cuts, async (damaged, cutting) => {
            let bytes = new Uint8Array(0) as Uint8Array;
            let error: Error | undefined;
            try {
              const opened = await open(cutBy(damaged, cutting), { provider });
              if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
              ({ bytes, error } = await released(await opened.decrypt(identities)));
            } catch (thrown) {
              error = thrown as Error;
            }
            ok(
              isSealpinError(error) && ['decrypt_failed', 'container_invalid', 'header_invalid'].includes(error.code),
              `it ends with ${String(error)}`,
            );
            equal(bytes, plaintext.subarray(0, bytes.length));
          }),
          { numRuns },
        );
      },
    );
  }

  tool.test('no text makes the readers of keys throw anything but key_invalid', () => {
    const line = fc.oneof(
      fc.string(),
      fc.constantFrom(
        '-----BEGIN PRIVATE KEY-----',
        '-----END PRIVATE KEY-----',
        '-----BEGIN PUBLIC KEY-----',
        '-----END PUBLIC KEY-----',
        'age1',
        'age1tag1qqqq',
        'AGE-SECRET-KEY-1QQQQ',
        'AGE-SECRET-KEY-PQ-1',
        '# recipient: x',
      ),
      fc.base64String(),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 6 }), (lines) => {
        for (const parse of [parseIdentities, parseRecipients]) {
          try {
            parse(lines.join('\n'));
          } catch (error) {
            ok(isSealpinError(error, 'key_invalid'), `it throws ${String(error)}`);
          }
        }
      }),
      { numRuns: tool.long ? 20_000 : 200 },
    );
  });

  tool.test('no bytes make the reader of containers throw anything but its codes', async () => {
    const start = fc.constantFrom(
      'age-encryption.org/v1\n',
      'sealpin/v1\n',
      'sealpin/v1\n-> scrypt ',
      'age-encryption.org/v1\n-> X25519 ',
      '-----BEGIN AGE ENCRYPTED FILE-----\n',
      'sealpin/v1 detached\n',
      '',
    );
    await fc.assert(
      fc.asyncProperty(start, fc.uint8Array({ maxLength: 300 }), async (text, bytes) => {
        const content = Uint8Array.of(...new TextEncoder().encode(text), ...bytes);
        try {
          const opened = await open(pieces(content, 50), { provider });
          if (opened.kind === 'plain') equal(await collect(opened.stream), content);
        } catch (error) {
          ok(
            isSealpinError(error) && ['header_invalid', 'unsupported_version'].includes(error.code),
            `it throws ${String(error)}`,
          );
        }
      }),
      { numRuns: tool.long ? 20_000 : 200 },
    );
  });
}
