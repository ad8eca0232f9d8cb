/** Containers that were made once: every version of Sealpin opens them. */
import ageMlkemP256 from '../../vectors/golden/age-mlkem768p256tag.json' with { type: 'json' };
import ageMlkemX25519 from '../../vectors/golden/age-mlkem768x25519.json' with { type: 'json' };
import ageP256 from '../../vectors/golden/age-p256tag.json' with { type: 'json' };
import ageScrypt from '../../vectors/golden/age-scrypt.json' with { type: 'json' };
import ageX25519 from '../../vectors/golden/age-x25519.json' with { type: 'json' };
import apiKey from '../../vectors/golden/api-key.json' with { type: 'json' };
import sealpinDetached from '../../vectors/golden/sealpin-detached.json' with { type: 'json' };
import sealpinP256 from '../../vectors/golden/sealpin-p256.json' with { type: 'json' };
import sealpinPbkdf2 from '../../vectors/golden/sealpin-pbkdf2-sha512.json' with { type: 'json' };
import sealpinScrypt from '../../vectors/golden/sealpin-scrypt.json' with { type: 'json' };
import signedToken from '../../vectors/golden/signed-token.json' with { type: 'json' };
import {
  isSignedBy,
  newApiKey,
  open,
  openDetached,
  parseApiKey,
  parseIdentities,
  parseSignedToken,
  passwordIdentity,
  signerOf,
  signToken,
  unsealPrivateKey,
  type CryptoProvider,
  type Identity,
} from '../../../crypto/index.ts';
import { isSealpinError } from '../../../errors.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { isInNode } from '../../../../testkit/browsers/engine.ts';
import { collect, digest, fromBase64, join, pieces, released } from '../streams.ts';
import { present } from '../../../../testkit/present.ts';

type Golden = { kind: string; container: string; plaintext: string; password?: string; privateKey?: string };

const containers: readonly Golden[] = [
  ageMlkemP256,
  ageMlkemX25519,
  ageP256,
  ageScrypt,
  ageX25519,
  sealpinP256,
  sealpinPbkdf2,
  sealpinScrypt,
];

/** The files never change: these are the SHA-256 digests of what is in them. */
const digests: Record<string, string> = {
  'age-mlkem768p256tag': 'f4eece3980a39350c81b59d746420e5c263acacaa721d9385e26fb656780d0d6',
  'age-mlkem768x25519': '90eb13d00d4a60f9c09906df17fb51f8d6fb5fcd1a10e86ad157848886cfc358',
  'age-p256tag': 'abed0611df7f35fdd15c46504fe78f1a0cf4905a6e7b6627ced864dfc3fbe3b6',
  'age-scrypt': '475e3122371ca3fe3a2b5a8a204eb2a72a0c3dc50ddb057e5aa0c61eeabe932f',
  'age-x25519': '4e1b0edb20ba8f21db3ffd1634eef5490144c8990848311cb5e3e2cc8d6d8e00',
  'api-key': '56c58582b4a1789308cdffbbb11050d263472858526874ad2f851505e3d18c26',
  'sealpin-detached': 'ef09e5973158599e80225b16d2241f0997c287fe2c128869b106aff589ca2eb2',
  'sealpin-p256': 'cb9377a145d5a9357fe81f985fdab637bbd63358dbd37f8b99fac3bb076b43b9',
  'sealpin-pbkdf2-sha512': 'a4835a42f02a63b3bc82e98ab8358b87f1dc94209a13367e82da70c6bb48a7dd',
  'sealpin-scrypt': 'a657b2c0b152d5896b88534e490f3499d1e499b06f98048d2f32af6f2b2a403d',
};

/**
 * The provider with a memory for its first derived key: thousands of damaged headers ask for it,
 * and with another salt any other key will do.
 */
function remembering(provider: CryptoProvider): CryptoProvider {
  let first: { salt: string; key: Promise<Uint8Array> } | undefined;
  const once = async (salt: Uint8Array, derive: () => Promise<Uint8Array>): Promise<Uint8Array> => {
    first ??= { salt: salt.join(), key: derive() };
    return first.salt === salt.join() ? first.key : provider.sha256(salt);
  };
  return {
    ...provider,
    scrypt: (password, salt, cost) =>
      cost.logN === 10
        ? once(salt, () => provider.scrypt(password, salt, cost))
        : Promise.resolve(provider.sha256(salt)),
    pbkdf2: (password, salt, iterations) =>
      iterations === 220_000
        ? once(salt, () => provider.pbkdf2(password, salt, iterations))
        : Promise.resolve(provider.sha256(salt)),
  };
}

const identitiesOf = ({ password, privateKey }: { password?: string; privateKey?: string }): Identity[] =>
  password === undefined ? parseIdentities(present(privateKey)) : [passwordIdentity(password)];

/** Returns the result of opening: the plaintext that came out, and the code of the failure. */
async function outcome(
  provider: CryptoProvider,
  container: Uint8Array,
  identities: readonly Identity[],
): Promise<{ bytes: Uint8Array; code: string | undefined }> {
  try {
    const opened = await open(pieces(container), { provider });
    if (!('decrypt' in opened)) return { bytes: new Uint8Array(0), code: opened.kind };
    const { bytes, error } = await released(await opened.decrypt(identities));
    if (error !== undefined && !isSealpinError(error)) throw error;
    return { bytes, code: error?.code };
  } catch (error) {
    if (!isSealpinError(error)) throw error;
    return { bytes: new Uint8Array(0), code: error.code };
  }
}

/**
 * Failures that a damaged container may cause. A version line that is cut short, or is none any
 * more, makes a plain file.
 */
const refusals = [
  'decrypt_failed',
  'container_invalid',
  'header_invalid',
  'unsupported_version',
  'plain',
  'detached',
  'wrong_kind',
  'kdf_unavailable',
];

export function golden(tool: Tool, provider: CryptoProvider): void {
  const lacksPbkdf2 = navigator.userAgent === 'Cloudflare-Workers';
  for (const file of containers) {
    const container = fromBase64(file.container);
    const lacksKdf = lacksPbkdf2 && file.kind === 'sealpin-pbkdf2-sha512';
    tool.test(`S87: ${file.kind}: the golden file opens`, async () => {
      equal(await digest('SHA-256', container), digests[file.kind], 'the file');
      const { bytes, code } = await outcome(provider, container, identitiesOf(file));
      equal(code, lacksKdf ? 'kdf_unavailable' : undefined);
      if (!lacksKdf) equal(bytes, fromBase64(file.plaintext));
    });

    tool.test(
      `S3 S13: ${file.kind}: is refused when cut anywhere or with any byte flipped, and nothing wrong comes out`,
      async () => {
        const identities = identitiesOf(file);
        const memory = remembering(provider);
        const refused = async (damaged: Uint8Array, what: string): Promise<void> => {
          const { bytes, code } = await outcome(memory, damaged, identities);
          ok(code !== undefined && refusals.includes(code), `${what}: ${code}`);
          ok(code !== 'plain' || damaged.length < 22 || what.startsWith('bit'), `${what} is taken for a plain file`);
          equal(bytes.length, 0, `${what}: bytes that came out`);
        };
        await outcome(memory, container, identities);
        // The post-quantum ones are long, and mostly one base64 value: there the short form takes
        // every 31st byte. Other engines than Node's, which run the short form alone, take every
        // 7th of the others.
        const usual = isInNode ? 1 : 7;
        const step = (at: number): number => (container.length > 1000 && at > 60 && !tool.long ? 31 : usual);
        for (let length = 0; length < container.length; length += step(length))
          await refused(container.subarray(0, length), `cut at ${length}`);
        for (let at = 0; at < container.length; at += step(at)) {
          for (const bit of tool.long ? [0, 1, 2, 3, 4, 5, 6, 7] : [at % 8])
            await refused(
              container.map((byte, index) => (index === at ? byte ^ (1 << bit) : byte)),
              `bit ${bit} of byte ${at} flipped`,
            );
        }
        await refused(Uint8Array.of(...container, 0), 'with a byte more');
        await refused(join([container, container]), 'twice in a row');
      },
    );
  }

  tool.test('S87: sealpin-detached: the golden file opens, by its parts and as a whole', async () => {
    const header = fromBase64(sealpinDetached.header);
    const payload = fromBase64(sealpinDetached.payload);
    equal(await digest('SHA-256', join([header, payload])), digests['sealpin-detached']);
    const identities = identitiesOf(sealpinDetached);
    const opened = await openDetached(header, { fileId: sealpinDetached.fileId, identities, provider });
    const plaintext = fromBase64(sealpinDetached.plaintext);
    equal(opened.file, { filename: 'für immer.txt', contentType: 'text/plain', size: plaintext.length });
    equal(await collect(opened.decrypt(pieces(payload))), plaintext);
    equal((await outcome(provider, join([header, payload]), identities)).bytes, plaintext);
  });

  tool.test('S87: api-key: the golden key is read and opens the private key', async () => {
    const sealed = fromBase64(apiKey.sealed);
    equal(await digest('SHA-256', sealed), digests['api-key']);
    const key = await parseApiKey(apiKey.apiKey);
    if (key === undefined) throw new Error('it is not read');
    const spki = fromBase64(apiKey.publicKey);
    equal(await unsealPrivateKey(key, { id: apiKey.id, sealed, spki }), fromBase64(apiKey.privateKey));
    await fails('decrypt_failed', () => unsealPrivateKey(key, { id: 'second', sealed, spki }));
  });

  tool.test(
    'signed-token: the golden claims give the golden token, which is read, and nothing else is signed',
    async () => {
      const { apiKey: text, claims, token, ended } = signedToken;
      const key = await parseApiKey(text);
      const parsed = parseSignedToken(token);
      if (key === undefined || parsed === undefined) throw new Error('it is not read');
      equal(signToken(key, claims), token);
      equal([parsed.keyId, parsed.claims], [key.hash.slice(0, 16), claims]);
      const signer = signerOf(key);
      ok(isSignedBy(signer, parsed), 'by its key');
      ok(!isSignedBy(signerOf(await newApiKey(key.account)), parsed), 'by another key');
      const old = parseSignedToken(ended);
      ok(old?.alg === 'HS256' && !isSignedBy(signer, old), 'the way of earlier versions has ended');
      for (let at = 0; at < token.length; at += 1) {
        const changed = parseSignedToken(`${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`);
        ok(changed === undefined || !isSignedBy(signer, changed), `changed at ${at}`);
      }
    },
  );
}
