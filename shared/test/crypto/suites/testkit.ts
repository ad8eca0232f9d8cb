/**
 * The age testkit (C2SP/CCTV): every file, with the rule that all plaintext which comes out before
 * a failure has the digest that the file names.
 */
import testkitFiles from '../../vectors/cctv-age/cctv-age.json' with { type: 'json' };
import { open, parseIdentities, passwordIdentity, type CryptoProvider, type Identity } from '../../../crypto/index.ts';
import { isSealpinError } from '../../../errors.ts';
import { equal, ok, type Tool } from '../../../../testkit/assertions.ts';
import { digest, fromBase64, pieces, released } from '../streams.ts';
import { inflate } from './wycheproof.ts';
import { first, present } from '../../../../testkit/present.ts';

/** A file of the kit; `payload`: the SHA-256 of what comes out, in hex, also before a failure. */
export type TestkitFile = {
  expect: string;
  payload?: string;
  identity: string[];
  passphrase: string[];
  container: Uint8Array;
};

/** The files of the kit by their names. */
export const testkitNames = Object.keys(testkitFiles) as (keyof typeof testkitFiles)[];

export async function readTestkitFile(name: keyof typeof testkitFiles): Promise<TestkitFile> {
  const file = fromBase64(testkitFiles[name]);
  const end = file.findIndex((byte, index) => byte === 10 && file[index + 1] === 10);
  const body = file.subarray(end + 2);
  const fields = new TextDecoder()
    .decode(file.subarray(0, end))
    .split('\n')
    .map((line): [string, string] => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)]);
  const all = (name: string): string[] => fields.filter(([field]) => field === name).map(([, value]) => value);
  const payload = all('payload')[0];
  return {
    expect: first(all('expect')),
    ...(payload === undefined ? {} : { payload }),
    identity: all('identity'),
    passphrase: all('passphrase'),
    container: all('compressed')[0] === 'zlib' ? await inflate(body) : body,
  };
}

/**
 * Names here for each outcome of the kit. A header that is not recognized at all is a plain file to
 * us, which no identity is used on.
 */
const outcomes: Record<string, readonly string[]> = {
  success: ['success'],
  'no match': ['decrypt_failed', 'wrong_kind'],
  'HMAC failure': ['decrypt_failed'],
  'header failure': ['header_invalid', 'unsupported_version', 'plain'],
  'armor failure': ['header_invalid', 'plain'],
  'payload failure': ['decrypt_failed', 'container_invalid'],
};

async function outcomeOf(
  provider: CryptoProvider,
  container: ReadableStream<Uint8Array>,
  identities: readonly Identity[],
): Promise<{ outcome: string; bytes: Uint8Array }> {
  let bytes = new Uint8Array(0) as Uint8Array;
  try {
    const opened = await open(container, { provider });
    if (!('decrypt' in opened)) return { outcome: opened.kind, bytes };
    const out = await released(await opened.decrypt(identities));
    bytes = out.bytes;
    if (out.error !== undefined) throw out.error;
    return { outcome: 'success', bytes };
  } catch (error) {
    if (!isSealpinError(error)) throw error;
    return { outcome: error.code, bytes };
  }
}

export function testkit(tool: Tool, provider: CryptoProvider): void {
  tool.test(`age testkit: ${testkitNames.length} files`, async () => {
    equal(testkitNames.length, 143);
    for (const name of testkitNames) {
      const { expect, payload, identity, passphrase, container } = await readTestkitFile(name);
      const identities = [
        ...identity.flatMap((text) => parseIdentities(text)),
        ...passphrase.map((text) => passwordIdentity(text)),
      ];
      const small = container.length < 5000 ? 1 : 1777;
      for (const pieceBytes of tool.long && container.length < 100_000 ? [1 << 20, small] : [small]) {
        const { outcome, bytes } = await outcomeOf(provider, pieces(container, pieceBytes), identities);
        ok(present(outcomes[expect]).includes(outcome), `${name}: ${outcome}, where the kit expects ${expect}`);
        if (payload !== undefined) equal(await digest('SHA-256', bytes), payload, `${name}: what came out`);
        else equal(bytes.length, 0, `${name}: bytes that came out`);
      }
    }
  });
  tool.note(`age testkit: ${testkitNames.length}`);
}
