import * as fc from 'fast-check';
import {
  beginPayload,
  detachedPayloadBytes,
  encryptDetached,
  generateKeyPair,
  openDetached,
  parseIdentities,
  recipientFromSpki,
  resumePayload,
  type CryptoProvider,
  type PayloadKeys,
  type PayloadState,
} from '../../../crypto/index.ts';
import { isSealpinError } from '../../../errors.ts';
import { equal, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, join, pattern, pieces } from '../streams.ts';

const chunkBytes = 16_384;

/** The provider with a generator that gives the same bytes each time it is made. */
function repeating(provider: CryptoProvider): CryptoProvider {
  let counter = 0;
  return {
    ...provider,
    random: (bytes) => Uint8Array.from({ length: bytes }, () => (counter += 1) % 251),
  };
}

/** A process that takes some plaintext and stops, with what it kept. */
async function goOn(
  keys: PayloadKeys,
  state: PayloadState,
  writes: readonly Uint8Array[],
  o: { pieceBytes: number; provider: CryptoProvider; last: boolean },
): Promise<{ full: Uint8Array[]; state: PayloadState }> {
  const sealer = await resumePayload(keys, state, o);
  const full: Uint8Array[] = [];
  for (const write of writes) full.push(...(await sealer.write(write)));
  if (o.last) full.push(...(await sealer.finish()));
  return { full, state: sealer.state() };
}

/** The payload of `encryptDetached`, made in several goes. */
export function resumedPayloads(tool: Tool, provider: CryptoProvider): void {
  const size = fc.oneof(
    fc.integer({ min: 0, max: 100_000 }),
    fc.constantFrom(0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 3 * chunkBytes),
  );
  const cuts = fc.array(fc.integer({ min: 0, max: 40_000 }), { maxLength: 8 });

  tool.test('is the same bytes however the plaintext is cut, in one process or in many', async () => {
    const { spki, privatePem } = await generateKeyPair();
    const recipient = recipientFromSpki(spki);
    await fc.assert(
      fc.asyncProperty(size, cuts, fc.integer({ min: 100, max: 70_000 }), async (bytes, sizes, pieceBytes) => {
        const plaintext = pattern(bytes);
        const whole = await encryptDetached(pieces(plaintext), { recipient, provider: repeating(provider) });
        const expected = await collect(whole.payload);

        const { keys, state: first } = await beginPayload({ provider: repeating(provider) });
        let state = first;
        let from = 0;
        const made: Uint8Array[] = [];
        for (const length of [...sizes, bytes]) {
          const part = plaintext.subarray(from, from + length);
          const half = Math.floor(part.length / 2);
          const went = await goOn(keys, state, [part.slice(0, half), part.slice(half)], {
            pieceBytes,
            provider,
            last: false,
          });
          made.push(...went.full);
          ({ state } = went);
          from += part.length;
          ok(state.offset === from && state.rest.length === from % chunkBytes, 'the state is that of the offset');
        }
        const end = await goOn(keys, state, [], { pieceBytes, provider, last: true });
        made.push(...end.full);
        ok(made.every(({ length }) => length === pieceBytes) && end.state.tail.length < pieceBytes, 'whole pieces');
        const payload = join([...made, end.state.tail]);
        equal(payload, expected);
        equal(payload.length, detachedPayloadBytes(bytes));

        const sealer = await resumePayload(keys, state, { pieceBytes, provider });
        const header = await sealer.header(recipient, 'file', { filename: 'n', contentType: 't', size: bytes });
        const opened = await openDetached(header, {
          fileId: 'file',
          identities: parseIdentities(privatePem),
          provider,
        });
        equal(await collect(opened.decrypt(pieces(payload))), plaintext);
      }),
      { numRuns: tool.long ? 500 : 20 },
    );
  });

  tool.test('refuses a file key that is not that of the preamble, and a state that cannot be', async () => {
    const { keys, state } = await beginPayload({ provider });
    const other = await beginPayload({ provider });
    const failure = await resumePayload({ ...keys, fileKey: other.keys.fileKey }, state, {
      pieceBytes: 1000,
      provider,
    }).catch((error: unknown) => error);
    ok(isSealpinError(failure, 'decrypt_failed'), 'the key is checked');
    for (const wrong of [
      { ...state, offset: 5 },
      { ...state, rest: new Uint8Array(5) },
      { ...state, tail: new Uint8Array(1000) },
    ]) {
      const refused = await resumePayload(keys, wrong, { pieceBytes: 1000, provider }).catch((error: unknown) => error);
      ok(refused instanceof RangeError, 'the state is checked');
    }
  });
}
