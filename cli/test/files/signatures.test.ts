/** Signatures from the command line: who is named, when, and why one does not count. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { connect, generateKeys, receive as receiveBySdk } from '../../../client/index.ts';
import { encrypt, encryptPayload, parcelSigner, parseRecipients } from '../../../shared/crypto/index.ts';
import {
  encodeParcel,
  newShareId,
  parseLink,
  printLink,
  sealedParcelType,
  type Parcel,
} from '../../../shared/link/index.ts';
import type { Signing } from '../../../shared/link/parcel-signature.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { first, present } from '../../../testkit/present.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { sharedLocalService } from '../local.ts';
import { client } from '../../../testkit/api-client.ts';

const local = sharedLocalService();
let desk: string;
beforeEach(async () => {
  desk = await temporaryDirectory();
  await writeFile(join(desk, 'letter.txt'), 'Dear Ann\n');
  await sealpin(['keygen']);
});

const sealpin = (argv: readonly string[], home = 'home'): Promise<Ran> =>
  run([...argv, '--data-dir', home], desk, {
    env: { SEALPIN_SERVICE: `${local.url}/`, SEALPIN_API_KEY: local.apiKey },
  });

/** Output of a command that succeeds. */
async function printed(argv: readonly string[], home?: string): Promise<string> {
  const ran = await sealpin([...argv, '--quiet'], home);
  expect(ran, ran.stderr).toMatchObject({ exit: 0 });
  return ran.stdout.trim();
}

const receive = (link: string, home = 'reader'): Promise<Ran> =>
  run(['receive', link, 'got', '--data-dir', home], desk, { env: {} });

type Json = Record<string, unknown>;
type Signed = { state: string; name?: string; words?: string };
/** What came, newest first. */
const deliveries = async (home: string): Promise<{ id: string; signed?: Signed }[]> =>
  (JSON.parse(await printed(['inbox', 'list', '--json'], home)) as { deliveries: { id: string; signed?: Signed }[] })
    .deliveries;

describe('a signature', () => {
  test('names the contact, or six words that are compared once, or says why it does not count', async () => {
    await printed(['keygen'], 'ann');
    const link = await printed(['send', 'letter.txt', '--sign', '--from', 'Ann'], 'ann');
    const unknown = await receive(link);
    const [, words = ''] =
      /none of your contacts: ([a-z]+(?:-[a-z]+){5})/.exec(unknown.stderr.replaceAll(/\s+sealpin: +|\n +/g, ' ')) ?? [];
    expect(words).not.toBe('');
    const [, signer = ''] = /contact add <name> (sealpin-signer1\w+)/.exec(unknown.stderr) ?? [];
    expect((await sealpin(['contact', 'add', 'ann', signer], 'reader')).stderr).toContain(words);
    expect((await receive(link)).stderr).toContain('signed by ann\n');
    expect((await sealpin(['contact', 'list'], 'reader')).stdout).toContain(`ann  ${words} (signs)`);
    // The same parcel at another share.
    const { id, secret } = parseLink(link).link as { id: string; secret: Uint8Array };
    const { record } = await client(local.url).openShare({ shareId: id });
    const owner = client(local.url, local.apiKey);
    const again = await owner.createShare({ record, files: [], password: false });
    const replayed = await receive(printLink({ kind: 'share', service: `${local.url}/`, id: again.id, secret }));
    expect(replayed.stderr.replaceAll(/\n\s*(?:sealpin:)?\s+/g, ' ')).toContain(
      'ann signed it for another link or inbox, and somebody passed it on',
    );
    expect(replayed.exit).toBe(0);
    // The ID of a share that there is makes no other.
    expect((await owner.ask('createShare', { id, record, files: [], password: false })).status).toBe(409);
    expect((await receive(link)).exit).toBe(0);
  });

  inCi('is asked for by a flag or a profile, and nobody else signs', async () => {
    expect((await receive(await printed(['send', 'letter.txt', '--from', 'Ann']))).stderr).toContain(
      'from Ann (as they say; not signed)',
    );
    const profile = { service: `${local.url}/`, apiKey: local.apiKey, sign: true };
    await sealpin(['profile', 'list']);
    await run(['login', `${local.url}/`, '--data-dir', 'home'], desk, { stdin: `${local.apiKey}\n`, env: {} });
    const path = join(desk, 'home/profiles/profiles.json');
    const kept = JSON.parse(await readFile(path, 'utf8')) as { profiles: Json; current: string };
    await writeFile(path, JSON.stringify({ ...kept, profiles: { [kept.current]: profile } }));
    const byProfile = (...argv: string[]): Promise<Ran> =>
      run(['send', 'letter.txt', ...argv, '--quiet', '--data-dir', 'home'], desk, { env: {} });
    expect((await receive((await byProfile()).stdout.trim())).stderr).toContain('signed by a key');
    await printed(['keygen'], 'owner');
    const link = await printed(['inbox', 'create', 'tax'], 'owner');
    expect((await byProfile('--inbox', link)).exit).toBe(0);
    expect((await deliveries('owner')).map(({ signed }) => signed?.state)).toEqual(['valid']);
    // Another service is not that of the profile.
    const elsewhere = { ...profile, service: 'https://sealpin.example.com/' };
    await writeFile(path, JSON.stringify({ ...kept, profiles: { [kept.current]: elsewhere } }));
    expect((await byProfile('--inbox', link)).exit).toBe(0);
    expect((await deliveries('owner')).map(({ signed }) => signed?.state)).toEqual([undefined, 'valid']);
    expect(await sealpin(['send', 'letter.txt', '--sign'], 'keyless')).toMatchObject({ exit: 3 });
  });

  inCi('of a delivery names the contact in the list and when it is opened, or six words until then', async () => {
    await printed(['keygen'], 'ann');
    const link = await printed(['inbox', 'create', 'tax']);
    await printed(['send', 'letter.txt', '--inbox', link, '--sign', '--from', 'Ann'], 'ann');
    const [{ id, signed }] = (await deliveries('home')) as [{ id: string; signed: Signed }];
    expect(signed).toMatchObject({ state: 'valid', words: expect.stringMatching(/^[a-z]+(?:-[a-z]+){5}$/) });
    expect((await sealpin(['inbox', 'list'])).stdout).toContain(`Ann (signed by ${signed.words})`);
    const opened = await sealpin(['inbox', 'open', id, 'got']);
    const [, signer = ''] = /contact add <name> (sealpin-signer1\w+)/.exec(opened.stderr) ?? [];
    await printed(['contact', 'add', 'ann', signer]);
    expect((await sealpin(['inbox', 'list'])).stdout).toContain('ann (signed): letter.txt');
    expect((await sealpin(['inbox', 'open', id, 'again'])).stderr).toContain('signed by ann\n');
  });
});

/** A parcel of Ann as somebody else passes it on, and what its reader learns of the signature. */
const tampered: Record<string, { change(o: Signing, parcel: Parcel): Uint8Array; state: string | undefined }> = {
  'as it was': { change: (signing, parcel) => encodeParcel(parcel, signing), state: 'valid' },
  'again, at the same place': { change: (signing, parcel) => encodeParcel(parcel, signing), state: 'valid' },
  'stripped of its signature': { change: (_, parcel) => encodeParcel(parcel), state: undefined },
  'with another file swapped in': {
    change: (signing, parcel) => changedText(encodeParcel(parcel, signing), 'letter.txt', 'lettre.txt'),
    state: 'wrong',
  },
  'under the name of somebody else': {
    change: (signing, parcel) => changedText(encodeParcel(parcel, signing), signing.signer.text, stranger.text),
    state: 'wrong',
  },
  'for another link or inbox': {
    change: (signing, parcel) => encodeParcel(parcel, { ...signing, id: '0'.repeat(signing.id.length) }),
    state: 'elsewhere',
  },
  'for another service': {
    change: (signing, parcel) => encodeParcel(parcel, { ...signing, service: 'https://sealpin.example.com' }),
    state: 'elsewhere',
  },
  're-addressed from other recipients': {
    change: (signing, parcel) => encodeParcel(parcel, { ...signing, recipients: [someRecipient] }),
    state: 'others',
  },
};
const stranger = parcelSigner(new Uint8Array(32).fill(7));
const someRecipient = (await generateKeys()).recipient;
/** Of the same length, so that nothing else changes. */
const changedText = (bytes: Uint8Array, from: string, to: string): Uint8Array =>
  Buffer.from(Buffer.from(bytes).toString('latin1').replaceAll(from, to), 'latin1');

/** Where a parcel lies, and what its reader is told. */
const places: Record<string, (make: (signing: Omit<Signing, 'signer'>) => Uint8Array) => Promise<Signed | undefined>> =
  {
    'a link': (make) => throughLink([], make),
    'a link to keys': async (make) => throughLink([(await generatedRecipient()) ?? ''], make),
    async 'an inbox'(make) {
      const { link } = parseLink(await printed(['inbox', 'create', 'tax']));
      if (link.kind !== 'inbox') throw new TypeError('not an inbox');
      const { apiKey, recipient } = link;
      const { key } = await client(local.url, apiKey).getAccount();
      const bytes = make({ service: local.url, id: key.id, recipients: [recipient] });
      const recipients = parseRecipients(recipient);
      const { stream } = await encrypt(new Blob([Buffer.from(bytes)]).stream(), { format: 'age', recipients });
      const sealed = new Blob([await new Response(stream).arrayBuffer()], { type: sealedParcelType });
      await connect({ service: local.url, apiKey }).put(sealed, { mode: 'plain' });
      const { id, signed } = first(await deliveries('home'));
      const { inbox } = connect({ service: local.url, apiKey: local.apiKey });
      expect((await inbox.open(id, { keys: await privateKey() })).signed?.state).toBe(signed?.state);
      return signed;
    },
  };
const privateKey = (): Promise<string> => readFile(join(desk, 'home/private.key'), 'utf8');
const generatedRecipient = async (): Promise<string | undefined> =>
  first(parseRecipients(await readFile(join(desk, 'home/public.key'), 'utf8'))).text;

async function throughLink(
  recipients: readonly string[],
  make: (signing: Omit<Signing, 'signer'>) => Uint8Array,
): Promise<Signed | undefined> {
  const id = newShareId();
  let plaintext: ReadableStream<Uint8Array> = new Blob([
    Buffer.from(make({ service: local.url, id, recipients })),
  ]).stream();
  if (recipients.length > 0)
    plaintext = (await encrypt(plaintext, { format: 'age', recipients: parseRecipients(recipients.join('\n')) }))
      .stream;
  const { payload, fileKey: secret } = await encryptPayload(plaintext);
  const record = Buffer.from(await new Response(payload).arrayBuffer()).toString('base64');
  await client(local.url, local.apiKey).createShare({ id, record, files: [], password: false });
  const link = printLink({ kind: 'share', service: `${local.url}/`, id, secret });
  const ran = await run(['receive', link, 'got', '--json', '--data-dir', 'home'], desk, { env: {} });
  expect(ran.exit, ran.stderr).toBe(0);
  const { signed } = JSON.parse(ran.stdout) as { signed?: Signed };
  const keys = recipients.length > 0 ? await privateKey() : undefined;
  expect((await receiveBySdk(link, { keys })).signed?.state).toBe(signed?.state);
  return signed;
}

describe.each(Object.keys(places))('a parcel in %s', (place) => {
  // In the short form each way in some of the places.
  const at = Object.keys(places).indexOf(place);
  const ways = Object.keys(tampered).filter((_, way) => ci || (at + way) % 2 === 0);
  test.each(ways)('%s', async (way) => {
    const signer = parcelSigner(new Uint8Array(32).fill(9));
    const parcel = { files: [await storedPayload()], from: 'Ann' };
    const { change, state } = present(tampered[way]);
    const signed = await present(places[place])((signing) => change({ ...signing, signer }, parcel));
    expect(signed?.state).toBe(state);
  });
});

/** A file that a parcel can name. */
async function storedPayload(): Promise<Parcel['files'][number]> {
  const { payload, fileKey } = await encryptPayload(new Blob(['Dear Ann']).stream());
  const bytes = new Blob([await new Response(payload).arrayBuffer()]);
  const { cid } = await connect({ service: local.url, apiKey: local.apiKey }).put(bytes, { mode: 'plain' });
  return { cid, fileKey, name: 'letter.txt', type: 'text/plain', size: 8 };
}
