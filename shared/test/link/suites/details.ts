import vectors from '../../vectors/details/details.json' with { type: 'json' };
import { generateKeyPair, parseIdentities, parseRecipients, type CryptoProvider } from '../../../crypto/index.ts';
import type { Code } from '../../../errors.ts';
import { maxDetailsBytes, openFileDetails, sealFileDetails } from '../../../link/index.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { fromBase64 } from '../../crypto/streams.ts';

const cid = 'bafkreiaaaebagbafaydqqcikbmga2dqpcaireeyuculbogazdinryhi6d4';

/** Details of files, sealed to their owner. */
export function details(tool: Tool, provider: CryptoProvider): void {
  const identities = parseIdentities(vectors.privateKey, provider);

  tool.test('sealed details open as they were written once', async () => {
    for (const { sealed, ...expected } of vectors.details) {
      const opened = await openFileDetails(fromBase64(sealed), { cid: expected.cid, identities, provider });
      equal(JSON.parse(JSON.stringify(opened)), expected);
    }
  });

  tool.test('sealed details are refused where they are of another file, and where they are none', async () => {
    for (const { sealed, cid: asked, code, why } of vectors.refused)
      await fails(code as Code, () => openFileDetails(fromBase64(sealed), { cid: asked, identities, provider }), why);
    const other = parseIdentities((await generateKeyPair(provider)).privatePem, provider);
    const [first] = vectors.details;
    await fails('decrypt_failed', () =>
      openFileDetails(fromBase64(first?.sealed ?? ''), { cid, identities: other, provider }),
    );
    for (const bytes of [new Uint8Array(3), new Uint8Array(maxDetailsBytes + 1)])
      await fails('container_invalid', () => openFileDetails(bytes, { cid, identities, provider }));
  });

  tool.test('sealed details have one size for names of any length', async () => {
    const recipients = parseRecipients((await generateKeyPair(provider)).publicPem, provider);
    const names = ['a', 'ä'.repeat(127), '"'.repeat(255)];
    const sizes = await Promise.all(
      names.map(async (name) => {
        const type = 't'.repeat(255);
        const sealed = await sealFileDetails(
          { cid, name, type, modified: '2030-01-31T08:00:00Z' },
          { recipients, provider },
        );
        return sealed.length;
      }),
    );
    equal(new Set(sizes).size, 1);
    ok((sizes[0] ?? Infinity) <= maxDetailsBytes, 'they are too large');
    const pairs = await Promise.all(Array.from({ length: 25 }, () => generateKeyPair(provider)));
    const many = pairs.flatMap(({ publicPem }) => parseRecipients(publicPem, provider));
    await fails('too_large', () => sealFileDetails({ cid, name: 'a' }, { recipients: many, provider }));
    await fails('invalid_filename', () => sealFileDetails({ cid, name: 'a/b' }, { recipients, provider }));
  });
}
