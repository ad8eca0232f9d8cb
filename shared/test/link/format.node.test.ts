/**
 * A second reader of links, records and parcels, written from `docs/links.md` and
 * `shared/README.md` on Node alone: nothing of the shared rooms is imported, so what is read here
 * is read because the pages say how.
 */
import { createDecipheriv, createHmac, hkdfSync, scryptSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { present } from '../../../testkit/present.ts';

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');
const vectors = JSON.parse(read('../vectors/links/links.json')) as { links: Record<string, string>[] };
const page = read('../../../docs/links.md');
const none = Buffer.alloc(0);

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
function base62(text: string, bytes: number): string {
  const value = text.split('').reduce((sum, digit) => sum * 62n + BigInt(digits.indexOf(digit)), 0n);
  return value.toString(16).padStart(2 * bytes, '0');
}
const isWhole = (fragment: string): boolean =>
  Number.parseInt(base62(fragment.slice(-6), 4), 16) === crc32(fragment.slice(0, -6));

/** The parts of a link that has its exact form. */
function parse(link: string): Record<string, string> {
  const [, service = '', name = '', fragment = ''] = present(
    /^(https?:\/\/.+\/)(s|b|drop|send)#([0-9A-Za-z._]+)$/.exec(link),
  );
  if (name === 'send') return { kind: 'invitation', service, apiKey: fragment };
  if (name === 'drop') {
    const [apiKey = '', recipient = ''] = fragment.split('.');
    return { kind: 'inbox', service, apiKey, recipient };
  }
  if (name === 's') {
    if (!isWhole(fragment) || fragment.length !== 72) throw new Error('the checksum is wrong');
    return { kind: 'share', service, id: fragment.slice(1, 23), secret: base62(fragment.slice(23, 66), 32) };
  }
  const [cid = '', key] = fragment.split('.');
  if (key === undefined) return { kind: 'blob', service, cid };
  if (!isWhole(fragment)) throw new Error('the checksum is wrong');
  return { kind: 'blob', service, cid, fileKey: base62(key.slice(0, -6), key.length === 28 ? 16 : 32) };
}

function openGcm(key: Buffer, nonce: Buffer, sealed: Buffer): Buffer {
  const opening = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: 16 }).setAuthTag(sealed.subarray(-16));
  return Buffer.concat([opening.update(sealed.subarray(0, -16)), opening.final()]);
}

/** The one chunk of a short payload. */
function openPayload(fileKey: Buffer, payload: Buffer): string {
  const inputKey = Buffer.from(hkdfSync('sha256', fileKey, none, 'sealpin/v1 payload', 32));
  const info = Buffer.concat([
    Buffer.from('c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0'),
    payload.subarray(0, 24),
    Buffer.from('sealpin/v1'),
  ]);
  const first = createHmac('sha512', inputKey).update(info).update(Buffer.of(1)).digest();
  const second = createHmac('sha512', inputKey).update(first).update(info).update(Buffer.of(2)).digest();
  const derived = Buffer.concat([first, second]);
  expect(payload.subarray(24, 56)).toEqual(derived.subarray(44, 76));
  return openGcm(derived.subarray(0, 32), derived.subarray(32, 44), payload.subarray(56)).toString();
}

type Golden = { link: string; record: string; parcel: string; password?: string };
const golden = (kind: string): Golden => JSON.parse(read(`../vectors/golden/${kind}.json`)) as Golden;

describe('a second reader, written from the page,', () => {
  test('reads every link of the vectors, all of which are on the page', () => {
    for (const { link = '', ...parts } of vectors.links) {
      expect(parse(link)).toEqual(parts);
      expect(page).toContain(`\n${link}\n`);
    }
  });

  test('opens the golden record', () => {
    const { link, record, parcel } = golden('parcel');
    const bytes = Buffer.from(record, 'base64');
    expect(bytes.subarray(0, 20).toString()).toBe('sealpin/v1 detached\n');
    const json = openPayload(Buffer.from(present(parse(link)['secret']), 'hex'), bytes.subarray(20));
    expect(Buffer.byteLength(json) % 256).toBe(0);
    expect(json.trimEnd()).toBe(parcel);
  });

  test('opens the golden record with a password', () => {
    const { link, record, parcel, password } = golden('parcel-password');
    const bytes = Buffer.from(record, 'base64');
    const [header = '', salt = '', logN, body = ''] = present(
      /^sealpin\/v1\n-> scrypt (\S{22}) (\d+)\n(\S{64})\n\n--- \S{43}\n/.exec(bytes.toString('latin1')),
    );
    const secret = link.slice(-49, -6);
    const salted = Buffer.concat([Buffer.from('sealpin/v1 scrypt'), Buffer.from(salt, 'base64')]);
    const kek = scryptSync(`${secret}.${password}`.normalize('NFC'), salted, 32, { N: 2 ** Number(logN), r: 8, p: 1 });
    const fileKey = openGcm(kek, Buffer.alloc(12), Buffer.from(body, 'base64'));
    expect(openPayload(fileKey, bytes.subarray(header.length)).trimEnd()).toBe(parcel);
  });
});
