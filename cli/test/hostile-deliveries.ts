/** What the holder of a link may store as a delivery. */
import { generateKeys } from '../../client/index.ts';
import {
  encrypt,
  encryptPayload,
  parseRecipients,
  passwordRecipient,
  type Recipient,
} from '../../shared/crypto/index.ts';
import { encodeParcel, sealParcelTo } from '../../shared/link/index.ts';
import { present } from '../../testkit/present.ts';
const parcel = {
  files: [{ cid: `bafkrei${'a'.repeat(52)}`, fileKey: new Uint8Array(32), name: 'name', type: 'a/b', size: 1 }],
};

/** Makes files that anyone with the link may store as a delivery, but that are none. */
export async function hostileFiles(to: Recipient): Promise<Record<string, Uint8Array>> {
  const bytesOf = async ({ stream }: { stream: ReadableStream<Uint8Array> }): Promise<Uint8Array> =>
    new Uint8Array(await new Response(stream).arrayBuffer());
  const sealed = async (bytes: Uint8Array, recipients: readonly Recipient[], format: 'age' | 'sealpin' = 'age') =>
    bytesOf(await encrypt(new Blob([bytes as BlobPart]).stream(), { format, recipients }));
  const plain = encodeParcel(parcel);
  const genuine = await sealParcelTo(parcel, { recipients: [to] });
  const password = passwordRecipient('violet-anchor-tundra-mosaic', { name: 'scrypt', logN: 10 });
  const text = (value: string): Uint8Array => new TextEncoder().encode(value);
  const renamed = Buffer.from(Buffer.from(plain).toString('latin1').replace('"name"', '"../x"'), 'latin1');
  const evil = Buffer.from(Buffer.from(plain).toString('latin1').replace(':"name"', ':"../x"'), 'latin1');
  const [another] = parseRecipients((await generateKeys()).recipient);
  return {
    'a container for a password': await sealed(plain, [password], 'sealpin'),
    'an age file for a password': await sealed(plain, [password]),
    'a later version of age': text('age-encryption.org/v2\n-> X25519 x\n---\n'),
    'a header that is cut off': genuine.slice(0, 60),
    'a malformed header': text('age-encryption.org/v1\n-> \n--- x\n'),
    'a header of 3,000 stanzas': text(`age-encryption.org/v1\n${'-> x y\n\n'.repeat(3000)}--- ${'A'.repeat(43)}\n`),
    'a damaged payload': genuine.map((byte, index) => (index === genuine.length - 1 ? byte ^ 1 : byte)),
    'a name that leads out of the folder': await sealed(evil, [to]),
    'a member that is none': await sealed(renamed, [to]),
    'something that is no parcel': await sealed(text('{}'), [to]),
    'nothing, sealed': await sealed(text(''), [to]),
    'what is for another key': await sealParcelTo(parcel, { recipients: [present(another)] }),
    'a parcel in the clear': plain,
    'a payload without a header': new Uint8Array(
      await new Response((await encryptPayload(new Blob(['x']).stream())).payload).arrayBuffer(),
    ),
    'nothing at all': new Uint8Array(0),
    noise: crypto.getRandomValues(new Uint8Array(2000)),
    'more than a parcel can have': new Uint8Array(60_000),
  };
}
