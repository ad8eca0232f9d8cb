import {
  generateKeyPair,
  parseIdentities,
  parseRecipients,
  type CryptoProvider,
  type Format,
  type Recipient,
  type Stanza,
} from '../../../crypto/index.ts';
import { makeHeader } from '../../../crypto/file-key.ts';
import { formatOf } from '../../../crypto/formats/index.ts';
import { stanzaTag } from '../../../crypto/stanzas/hpke.ts';
import { equal, fails, type Tool } from '../../../../testkit/assertions.ts';
import { fromBase64, join, pieces, text, unpaddedBase64 } from '../streams.ts';
import { seal, unseal } from './containers.ts';
import { first, itemOf } from '../../../../testkit/present.ts';

/**
 * Stanzas of other people, damaged ones, and so many of them: whether the one that is ours is
 * found.
 */
export function hostileStanzas(tool: Tool, provider: CryptoProvider): void {
  // For odd senders: the header and its MAC are made from the stanzas given.
  const send = async (format: Format, stanzas: (fileKey: Uint8Array) => Promise<Stanza[]>): Promise<Uint8Array> => {
    const fileKey = provider.random(format === 'age' ? 16 : 32);
    const header = makeHeader(provider, formatOf(format), fileKey, await stanzas(fileKey));
    const { preamble, chunks } = await formatOf(format).payload.create(provider, fileKey);
    return join([header, preamble, await chunks.aead.seal(chunks.nonce(0, true), text('x'))]);
  };
  const damaged = (stanza: Stanza): Stanza => ({
    ...stanza,
    body: stanza.body.map((byte, index) => (index === 3 ? byte ^ 1 : byte)),
  });

  tool.test(
    'S37 S40: the stanza that is ours is found among unknown, foreign and damaged ones; a damaged one of ours is not',
    async () => {
      for (const format of ['age', 'sealpin'] as const) {
        const [mine, other] = [await generateKeyPair(provider), await generateKeyPair(provider)];
        const wrap = (recipient: string, fileKey: Uint8Array): Promise<Stanza> =>
          first(parseRecipients(recipient)).wrap(fileKey, formatOf(format), provider);
        const grease: Stanza = { args: ['x-grease', '~!@#'], body: provider.random(33) };
        const identities = parseIdentities(mine.privatePem);
        const found = await send(format, async (key) => [
          grease,
          await wrap(other.recipient, key),
          damaged(await wrap(other.recipient, key)),
          grease,
          damaged(await wrap(mine.recipient, key)),
          await wrap(mine.recipient, key),
          grease,
        ]);
        equal(await unseal(provider, pieces(found), identities), text('x'), format);
        const lost = await send(format, async (key) => [
          await wrap(other.recipient, key),
          damaged(await wrap(mine.recipient, key)),
        ]);
        await fails('decrypt_failed', () => unseal(provider, pieces(lost), identities), format);
        const alone = await send(format, async () => [grease]);
        await fails('decrypt_failed', () => unseal(provider, pieces(alone), identities), format);
      }
    },
  );

  tool.test('S36: 1,000 recipients work, and one who is named twice is wrapped once', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const light: Recipient = { kind: 'key', wrap: async (fileKey) => ({ args: ['test'], body: fileKey.slice() }) };
    const many = await seal(
      provider,
      'age',
      [...Array.from({ length: 999 }, () => light), ...parseRecipients(recipient)],
      text('x'),
    );
    equal(await unseal(provider, pieces(many), parseIdentities(privatePem)), text('x'));
    await fails(
      'invalid_request',
      () =>
        seal(
          provider,
          'age',
          Array.from({ length: 1025 }, () => light),
          text('x'),
        ),
      '1,025 recipients',
    );
    const twice = await seal(provider, 'sealpin', parseRecipients(`${recipient}\n${recipient}`), text('x'));
    equal(String.fromCharCode(...twice).split('-> p256 ').length, 2);
  });

  tool.test('S38: a tag that is ours by chance, on a stanza that is not, does not stop the search', async () => {
    const [mine, other] = [await generateKeyPair(provider), await generateKeyPair(provider)];
    const compressed = provider.p256.compress(mine.spki.slice(26));
    const colliding = async (fileKey: Uint8Array): Promise<Stanza> => {
      const { args, body } = await first(parseRecipients(other.recipient)).wrap(fileKey, formatOf('age'), provider);
      return {
        args: [
          'p256tag',
          unpaddedBase64(
            stanzaTag(
              provider,
              text('age-encryption.org/p256tag'),
              fromBase64(itemOf(args, 2).padEnd(88, '=')),
              compressed,
            ),
          ),
          itemOf(args, 2),
        ],
        body,
      };
    };
    const container = await send('age', async (key) => [
      await colliding(key),
      await first(parseRecipients(mine.recipient)).wrap(key, formatOf('age'), provider),
    ]);
    equal(await unseal(provider, pieces(container), parseIdentities(mine.privatePem)), text('x'));
    await fails('decrypt_failed', async () =>
      unseal(
        provider,
        pieces(await send('age', async (key) => [await colliding(key)])),
        parseIdentities(mine.privatePem),
      ),
    );
  });

  tool.test('S34: an ephemeral key that is not a point of the curve is a header error', async () => {
    const { privatePem } = await generateKeyPair(provider);
    for (const point of [
      Uint8Array.of(4, ...new Uint8Array(64)),
      Uint8Array.of(4, ...new Uint8Array(64).fill(1)),
      Uint8Array.of(4, ...new Uint8Array(64).fill(255)),
    ]) {
      const container = await send('sealpin', async () => [
        { args: ['p256', unpaddedBase64(point)], body: new Uint8Array(48) },
      ]);
      await fails('header_invalid', () => unseal(provider, pieces(container), parseIdentities(privatePem)));
    }
  });
}
