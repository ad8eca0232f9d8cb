import { expect, test } from 'vitest';
import {
  encrypt,
  encryptDetached,
  generateKeyPair,
  identityFromPkcs8,
  parseIdentities,
  open,
  openDetached,
  recipientFromSpki,
  sniff,
} from '../../../crypto/index.ts';
import { formats } from '../../../crypto/formats/index.ts';
import { concat } from '../../../streams/concat.ts';
import { equalBytes } from '../../../streams/equal-bytes.ts';
import { pattern, pieces } from '../streams.ts';
import { first } from '../../../../testkit/present.ts';

async function chunksOf(stream: ReadableStream<Uint8Array>): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) chunks.push(next.value);
  return chunks;
}

const plaintext = pattern(3 * 65_536 + 77);
// Smaller than a chunk of either format, between the two, and larger than everything.
const sizes = [1000, 20_000, 100_000, 1 << 20];

test.each(formats.flatMap(({ name }) => sizes.map((pieceBytes) => ({ name, pieceBytes }))))(
  'a container is given in pieces of the size that the caller wants: $name, $pieceBytes',
  async ({ name, pieceBytes }) => {
    const { spki, privatePem } = await generateKeyPair();
    const { stream } = await encrypt(pieces(plaintext, 7777), {
      format: name,
      recipients: [recipientFromSpki(spki)],
      pieceBytes,
    });
    const given = await chunksOf(stream);
    expect(given.slice(0, -1).every(({ length }) => length === pieceBytes)).toBe(true);
    expect(given.at(-1)?.length).toBeLessThanOrEqual(pieceBytes);
    const opened = await open(pieces(concat(...given)));
    if (opened.kind !== name) throw new Error(opened.kind);
    expect(concat(...(await chunksOf(await opened.decrypt(parseIdentities(privatePem)))))).toEqual(plaintext);
  },
);

test('a detached payload is given in pieces of the size that the caller wants', async () => {
  const { spki } = await generateKeyPair();
  const { payload } = await encryptDetached(pieces(plaintext), {
    recipient: recipientFromSpki(spki),
    pieceBytes: 50_000,
  });
  const given = await chunksOf(payload);
  expect(given.length).toBeGreaterThan(3);
  expect(given.slice(0, -1).every(({ length }) => length === 50_000)).toBe(true);
});

test('a detached payload is right although the memory of what was sealed is used again', async () => {
  const { spki, pkcs8 } = await generateKeyPair();
  const spare: Uint8Array[] = [];
  let reused = 0;
  const memory = {
    take(bytes: number): Uint8Array {
      const found = spare.findIndex(({ length }) => length === bytes);
      reused += found < 0 ? 0 : 1;
      return found < 0 ? new Uint8Array(bytes) : first(spare.splice(found, 1));
    },
    // What is given back too early loses what is in it.
    giveBack: ({ buffer }: Uint8Array) => void spare.push(new Uint8Array(buffer).fill(77)),
  };
  const large = pattern(2_200_000);
  const { payload, header } = await encryptDetached(pieces(new Uint8Array(large), 65_536), {
    recipient: recipientFromSpki(spki),
    pieceBytes: 65_536,
    memory,
  });
  const sealed: Uint8Array[] = [];
  for (const piece of await chunksOf(payload)) {
    sealed.push(piece.slice());
    memory.giveBack(piece);
  }
  expect(reused).toBeGreaterThan(0);
  const file = { filename: 'a', contentType: 'text/plain', size: large.length };
  const opened = await openDetached(await header('id', file), {
    fileId: 'id',
    identities: [identityFromPkcs8(pkcs8)],
  });
  const plain = concat(...(await chunksOf(opened.decrypt(pieces(concat(...sealed))))));
  expect(equalBytes(plain, large)).toBe(true);
});

test.each([0, -1, 1.5, Number.NaN])('a size of pieces that is none is refused: %d', async (pieceBytes) => {
  const { spki } = await generateKeyPair();
  const encrypting = encrypt(pieces(plaintext), { format: 'age', recipients: [recipientFromSpki(spki)], pieceBytes });
  await expect(encrypting).rejects.toThrow(TypeError);
});

test('each format is recognized by its own version line', () => {
  const encoder = new TextEncoder();
  for (const { name, versionLine, detachedLine } of formats) {
    expect(sniff(encoder.encode(`${versionLine}\n-> `))).toBe(name);
    expect(sniff(encoder.encode(`${versionLine}0\n-> `))).toBe('unsupported');
    if (detachedLine !== undefined) expect(sniff(encoder.encode(detachedLine))).toBe('detached');
  }
});
