/** contrib/rescue.py opens links, and what somebody has kept of shares and deliveries. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  encryptPayload,
  generateKeyPair,
  keyIdOf,
  parcelSigner,
  parseRecipients,
  postQuantumKeyPairOf,
  type ParcelSigner,
} from '../../../crypto/index.ts';
import { encodeParcel, printLink, sealParcel, sealParcelTo, type Parcel } from '../../../link/index.ts';
import { writeFiles as write } from '../../../../testkit/backup-vector.ts';
import { inCi } from '../../../../testkit/long-run.ts';
import { inDirectory, installed, run, withProgram } from '../../../../testkit/programs/programs.ts';
import { present } from '../../../../testkit/present.ts';
import { collect, pieces } from '../streams.ts';

const root = join(import.meta.dirname, '../../../..');
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

type LinkVector = Record<
  'link' | 'text' | 'service' | 'apiKey' | 'id' | 'secret' | 'fileKey' | 'kind',
  string | undefined
>;
const vectors = JSON.parse(readFileSync(join(root, 'shared/test/vectors/links/links.json'), 'utf8')) as Record<
  'links' | 'read' | 'refused',
  LinkVector[]
>;

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  const rescue = (...argv: string[]): string =>
    text(run('cryptography-python', [join(root, 'contrib/rescue.py'), ...argv]));

  describe('rescue.py opens', () => {
    inCi('the blob of a link, and the record of a share that was kept', () =>
      inDirectory(async (path) => {
        const service = 'https://sealpin.example/';
        const { payload, fileKey } = await encryptPayload(pieces(Buffer.from('Dear Ann'), 3));
        const blob = printLink({ kind: 'blob', service, cid: `bafkrei${'a'.repeat(52)}`, fileKey });
        await write(path('.'), { blob: await collect(payload) });
        for (const link of [
          `${blob}&utm_source=mail\n`,
          blob.replace('#', '?utm_source=mail&from=%23ann#'),
          blob.replace('#', '/?#'),
          blob.replace('#', '%23'),
        ]) {
          await write(path('.'), { link });
          expect(rescue('--link', path('link'), path('blob'), '-'), link).toBe('Dear Ann');
        }
        const parcel: Parcel = {
          files: [{ cid: `bafkrei${'a'.repeat(52)}`, fileKey, name: 'a', type: 'text/plain', size: 8 }],
        };
        const pair = await generateKeyPair();
        const kdf = { name: 'scrypt', logN: 10 } as const;
        const shares = {
          plain: await sealParcel(parcel),
          password: await sealParcel(parcel, { password: 'open sesame', kdf }),
          keys: await sealParcel(parcel, { recipients: parseRecipients(pair.recipient) }),
        };
        await write(path('.'), { pass: 'open sesame', key: pair.privatePem });
        for (const [kind, { record, secret }] of Object.entries(shares)) {
          await write(path('.'), { record, link: printLink({ kind: 'share', service, id: '0'.repeat(22), secret }) });
          const flags = kind === 'keys' ? ['--key', path('key')] : ['--password-file', path('pass')];
          expect(JSON.parse(rescue(...flags, '--link', path('link'), path('record'), '-'))).toEqual(
            JSON.parse(text(encodeParcel(parcel))),
          );
        }
      }),
    );

    test('of the texts in the vectors of links those that are links', () => {
      const { links, read, refused } = vectors;
      const texts = [...links, ...read, ...refused].map(({ text: changed, link }) => changed ?? link);
      const argv = ['-c', readLinks, join(root, 'contrib')];
      const found = JSON.parse(text(run('cryptography-python', argv, Buffer.from(JSON.stringify(texts))))) as unknown[];
      const byLink = new Map(
        links.map(({ link, kind, service = '', id, secret, fileKey = null, apiKey = '' }) => {
          const { origin } = new URL(service);
          const opens = {
            share: [[origin, id], secret],
            blob: [null, fileKey],
            inbox: [[origin, keyIdOf(createHash('sha256').update(apiKey).digest('hex'))], null],
          }[kind ?? ''];
          return [link, opens ?? 'refused'] as const;
        }),
      );
      expect(found.slice(0, links.length)).toEqual([...byLink.values()]);
      for (const [i, { link, text: changed }] of read.entries())
        expect(found[links.length + i], changed).toEqual(byLink.get(link));
      for (const [i, { text: changed }] of refused.entries())
        expect(found[links.length + read.length + i], changed).toBe('refused');
    });

    inCi('the record of a signed share, and says by whom, or why that is not proven', () =>
      inDirectory(async (path) => {
        const service = 'https://sealpin.example/';
        const place = { service, id: '7n42DGM5Tflk9n8mt7Fhc7' };
        const signer = parcelSigner(new Uint8Array(32).fill(7));
        const own = await generateKeyPair();
        const hybrid = postQuantumKeyPairOf(new Uint8Array(32).fill(9));
        const other = await generateKeyPair();
        const files = [
          { cid: `bafkrei${'a'.repeat(52)}`, fileKey: new Uint8Array(32), name: 'a', type: 'text/plain', size: 8 },
        ];
        const claim = { ...place, signer, recipients: [] };
        const forged: ParcelSigner = { ...signer, sign: () => new Uint8Array(64) };
        const keys = { [own.recipient]: own.privatePem, [hybrid.recipient]: hybrid.privateText };
        const cases = [
          { signing: claim, says: `rescue.py: signed by ${signer.text}\n` },
          {
            signing: { ...claim, service: 'https://SEALPIN.example:443/' },
            says: `rescue.py: signed by ${signer.text}\n`,
          },
          { signing: { ...claim, signer: forged }, says: 'somebody claims to be somebody else' },
          { signing: { ...claim, service: 'https://other.example/' }, says: 'it was signed for another link' },
          { signing: { ...claim, id: '0'.repeat(22) }, says: 'it was signed for another link' },
          { signing: { ...claim, recipients: [own.recipient] }, says: 'it was signed for other recipients' },
          ...Object.entries(keys).flatMap(([to, key]) => [
            { to, key, signing: { ...claim, recipients: [to] }, says: `rescue.py: signed by ${signer.text}\n` },
            { to, key, signing: { ...claim, recipients: [other.recipient, to] }, says: 'rescue.py: signed by' },
            {
              to,
              key,
              signing: { ...claim, recipients: [other.recipient] },
              says: 'it was signed for other recipients',
            },
            { to, key, signing: claim, says: 'it was signed for other recipients' },
          ]),
        ].map((each) => ({ to: undefined, key: '', ...each }));
        for (const { to, key, signing, says } of cases) {
          const { record, secret } = await sealParcel(
            { files },
            { signing, recipients: to === undefined ? [] : parseRecipients(to) },
          );
          await write(path('.'), { record, key, link: printLink({ kind: 'share', ...place, secret }) });
          const flags = to === undefined ? [] : ['--key', path('key')];
          const argv = [join(root, 'contrib/rescue.py'), ...flags, '--link', path('link'), path('record'), '-'];
          const { stdout, stderr, status } = spawnSync(installed('cryptography-python'), argv, { encoding: 'utf8' });
          expect(stderr).toContain(says);
          expect(stderr).toMatch(/^rescue\.py: (?:not proven to be )?signed by sealpin-signer1[a-z0-9]+(?:: .*)?\n$/);
          expect(status).toBe(0);
          expect(JSON.parse(stdout)).toEqual(JSON.parse(text(encodeParcel({ files }))));
        }
      }),
    );

    inCi('a delivery to an inbox, and says by whom with its link, and without it that nobody has looked', () =>
      inDirectory(async (path) => {
        const { link = '', service, apiKey = '' } = present(vectors.links.find(({ kind }) => kind === 'inbox'));
        const id = keyIdOf(createHash('sha256').update(apiKey).digest('hex'));
        const own = await generateKeyPair();
        const signer = parcelSigner(new Uint8Array(32).fill(7));
        const files = [
          { cid: `bafkrei${'a'.repeat(52)}`, fileKey: new Uint8Array(32), name: 'a', type: 'text/plain', size: 8 },
        ];
        const signing = { service: present(service), id, signer, recipients: [own.recipient] };
        const signed = `rescue.py: signed by ${signer.text}\n`;
        const unlooked = 'rescue.py: it is a signed parcel, and its signature was not checked: use --link, too\n';
        await write(path('.'), { link, key: own.privatePem });
        for (const { says, linked, ...o } of [
          { signing, linked: true, says: signed },
          { signing: { ...signing, id: '0'.repeat(16) }, linked: true, says: 'it was signed for another link' },
          { signing: { ...signing, recipients: [] }, linked: true, says: 'it was signed for other recipients' },
          { signing, linked: false, says: unlooked },
          { signing: undefined, linked: true, says: '' },
          { signing: undefined, linked: false, says: '' },
        ]) {
          await write(path('.'), {
            delivery: await sealParcelTo({ files }, { recipients: parseRecipients(own.recipient), ...o }),
          });
          const flags = linked ? ['--link', path('link')] : [];
          const argv = [join(root, 'contrib/rescue.py'), '--key', path('key'), ...flags, path('delivery'), '-'];
          const { stdout, stderr, status } = spawnSync(installed('cryptography-python'), argv, { encoding: 'utf8' });
          expect(status).toBe(0);
          expect(stderr).toContain(says);
          if (says === '') expect(stderr).toBe('');
          expect(stdout).toContain(`bafkrei${'a'.repeat(52)}`);
        }
      }),
    );
  });
});

/** Prints what each text opens when it is read as a link. */
const readLinks = `
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import rescue, rescue_backup
def read(text):
    try:
        place, key = rescue_backup.link_key(text)
        return [place, key and key.hex()]
    except rescue.Refused:
        return "refused"
print(json.dumps([read(text) for text in json.load(sys.stdin)]))
`;
