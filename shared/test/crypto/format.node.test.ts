/**
 * A second reader of `sealpin/v1`, written from `shared/README.md` and on `node:crypto` alone: nothing of `shared/crypto` is imported, so what
 * opens here opens because the page says how.
 */
import {
  createDecipheriv,
  createECDH,
  createHash,
  createHmac,
  createPrivateKey,
  hkdfSync,
  pbkdf2Sync,
  scryptSync,
} from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';

type Golden = {
  kind: string;
  container?: string;
  header?: string;
  payload?: string;
  plaintext: string;
  password?: string;
  privateKey?: string;
  fileId?: string;
};
type Parsed = { stanzas: { args: string[]; body: Buffer }[]; macInput: Buffer; mac: Buffer; payload: Buffer };

const none = Buffer.alloc(0);
const hkdf = (ikm: Buffer, info: string): Buffer => Buffer.from(hkdfSync('sha256', ikm, none, info, 32));
const hmac = (hash: string, key: Buffer, ...parts: (Buffer | string)[]): Buffer =>
  parts.reduce((mac, part) => mac.update(part), createHmac(hash, key)).digest();

function openGcm(key: Buffer, nonce: Buffer, sealed: Buffer, aad = none): Buffer {
  const opening = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: 16 })
    .setAAD(aad)
    .setAuthTag(sealed.subarray(-16));
  return Buffer.concat([opening.update(sealed.subarray(0, -16)), opening.final()]);
}

function parse(container: Buffer): Parsed {
  const end = container.indexOf('\n--- ') + 1;
  const lines = container
    .subarray(0, end - 1)
    .toString('latin1')
    .split('\n');
  expect(lines.shift()).toBe('sealpin/v1');
  const stanzas: Parsed['stanzas'] = [];
  while (lines.length > 0) {
    const args = lines.shift()!.split(' ').slice(1);
    let body = '';
    for (let line = lines.shift()!; ; line = lines.shift()!) {
      body += line;
      if (line.length < 64) break;
    }
    stanzas.push({ args, body: Buffer.from(body, 'base64') });
  }
  return {
    stanzas,
    macInput: container.subarray(0, end + 3),
    mac: Buffer.from(container.subarray(end + 4, end + 47).toString('latin1'), 'base64'),
    payload: container.subarray(end + 48),
  };
}

/** Expand of HKDF with SHA-512 from a PRK of any length. */
function expand512(prk: Buffer, info: Buffer, bytes: number): Buffer {
  const blocks: Buffer[] = [];
  for (let index = 1; blocks.length * 64 < bytes; index += 1)
    blocks.push(hmac('sha512', prk, blocks.at(-1) ?? none, info, Buffer.of(index)));
  return Buffer.concat(blocks).subarray(0, bytes);
}

/** HPKE base mode with DHKEM(P-256), HKDF-SHA256 and AES-256-GCM (RFC 9180). */
function openHpke(pem: string, enc: Buffer, info: string, sealed: Buffer): Buffer {
  const jwk = createPrivateKey(pem).export({ format: 'jwk' });
  const own = createECDH('prime256v1');
  own.setPrivateKey(Buffer.from(jwk.d!, 'base64url'));
  const extract = (suite: Buffer, salt: Buffer, label: string, ikm: Buffer): Buffer =>
    hmac('sha256', salt, 'HPKE-v1', suite, label, ikm);
  const expand = (suite: Buffer, prk: Buffer, label: string, context: Buffer, bytes: number): Buffer =>
    hmac('sha256', prk, Buffer.of(0, bytes), 'HPKE-v1', suite, label, context, Buffer.of(1)).subarray(0, bytes);
  const kem = Buffer.from('4b454d0010', 'hex');
  const shared = expand(
    kem,
    extract(kem, none, 'eae_prk', own.computeSecret(enc)),
    'shared_secret',
    Buffer.concat([enc, own.getPublicKey()]),
    32,
  );
  const suite = Buffer.from('48504b45001000010002', 'hex');
  const context = Buffer.concat([
    Buffer.of(0),
    extract(suite, none, 'psk_id_hash', none),
    extract(suite, none, 'info_hash', Buffer.from(info)),
  ]);
  const secret = extract(suite, shared, 'secret', none);
  return openGcm(expand(suite, secret, 'key', context, 32), expand(suite, secret, 'base_nonce', context, 12), sealed);
}

function fileKeyOf({ stanzas, macInput, mac }: Parsed, { password, privateKey }: Golden): Buffer {
  for (const {
    args: [name, first, second],
    body,
  } of stanzas) {
    const salt = Buffer.concat([Buffer.from(`sealpin/v1 ${name}`), Buffer.from(first!, 'base64')]);
    let fileKey: Buffer | undefined;
    try {
      if (name === 'scrypt')
        fileKey = openGcm(
          scryptSync(password!.normalize('NFC'), salt, 32, { N: 2 ** Number(second), r: 8, p: 1, maxmem: 2 ** 30 }),
          Buffer.alloc(12),
          body,
        );
      if (name === 'pbkdf2-sha512')
        fileKey = openGcm(
          pbkdf2Sync(password!.normalize('NFC'), salt, Number(second), 32, 'sha512'),
          Buffer.alloc(12),
          body,
        );
      if (name === 'p256') fileKey = openHpke(privateKey!, Buffer.from(first!, 'base64'), 'sealpin/v1 p256', body);
    } catch {
      continue; // For somebody else: the page says to pass it over.
    }
    if (fileKey === undefined) continue;
    expect(hmac('sha256', hkdf(fileKey, 'sealpin/v1 header'), macInput)).toEqual(mac);
    return fileKey;
  }
  throw new Error('no stanza opens');
}

function openPayload(fileKey: Buffer, payload: Buffer): Buffer {
  const salt = payload.subarray(0, 24);
  const info = Buffer.concat([
    Buffer.from('c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0'),
    salt,
    Buffer.from('sealpin/v1'),
  ]);
  const derived = expand512(hkdf(fileKey, 'sealpin/v1 payload'), info, 76);
  expect(payload.subarray(24, 56)).toEqual(derived.subarray(44));
  const chunks: Buffer[] = [];
  for (let index = 0, offset = 56; ; index += 1, offset += 16_400) {
    const nonce = Buffer.from(derived.subarray(32, 44));
    nonce.writeUInt32BE((nonce.readUInt32BE(8) ^ index) >>> 0, 8);
    const chunk = payload.subarray(offset, offset + 16_400);
    chunks.push(openGcm(derived.subarray(0, 32), nonce, chunk));
    if (chunk.length < 16_400) return Buffer.concat(chunks);
  }
}

const folder = new URL('../vectors/golden/', import.meta.url);
const read = async (name: string): Promise<Golden> =>
  JSON.parse(await readFile(new URL(`${name}.json`, folder), 'utf8')) as Golden;

describe('a reader written from the page alone', () => {
  for (const name of ['sealpin-scrypt', 'sealpin-pbkdf2-sha512', 'sealpin-p256']) {
    test(`opens ${name}`, async () => {
      const file = await read(name);
      const parsed = parse(Buffer.from(file.container!, 'base64'));
      expect(openPayload(fileKeyOf(parsed, file), parsed.payload)).toEqual(Buffer.from(file.plaintext, 'base64'));
    });
  }

  test('opens sealpin-detached, and reads what the file is called', async () => {
    const file = await read('sealpin-detached');
    const parsed = parse(Buffer.from(file.header!, 'base64'));
    const fileKey = fileKeyOf(parsed, file);
    const payload = Buffer.from(file.payload!, 'base64');
    expect(payload.subarray(0, 20).toString()).toBe('sealpin/v1 detached\n');
    expect(openPayload(fileKey, payload.subarray(20))).toEqual(Buffer.from(file.plaintext, 'base64'));
    const { args, body } = parsed.stanzas.find(({ args }) => args[0] === 'file')!;
    const json = openGcm(
      hkdf(fileKey, 'sealpin/v1 file'),
      body.subarray(0, 12),
      body.subarray(12),
      Buffer.from(args[1]!),
    );
    expect(json.length).toBe(256);
    expect(JSON.parse(json.toString())).toEqual({
      filename: 'für immer.txt',
      contentType: 'text/plain',
      size: Buffer.from(file.plaintext, 'base64').length,
    });
  });

  test('opens the wrapped private key of an API key', async () => {
    const file = (await read('api-key')) as unknown as {
      apiKey: string;
      id: string;
      sealed: string;
      publicKey: string;
      privateKey: string;
    };
    const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
    const secret = file.apiKey
      .slice(25, 68)
      .split('')
      .reduce((sum, digit) => sum * 62n + BigInt(digits.indexOf(digit)), 0n);
    const sealed = Buffer.from(file.sealed, 'base64');
    const kek = hkdf(Buffer.from(secret.toString(16).padStart(64, '0'), 'hex'), 'sealpin/v1 api-key');
    const aad = Buffer.from(`${file.apiKey.slice(3, 25)}\n${file.id}\n${file.publicKey}`);
    expect(openGcm(kek, sealed.subarray(0, 12), sealed.subarray(12), aad)).toEqual(
      Buffer.from(file.privateKey, 'base64'),
    );
  });

  test('opens the worked example of the page, whose values are the ones that come of it', async () => {
    const page = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
    const blocks = [...page.slice(page.indexOf('## A worked example')).matchAll(/```\n([^`]+)```/g)].map(
      ([, block]) => block!,
    );
    const container = Buffer.from(blocks[2]!.replaceAll('\n', ''), 'hex');
    expect(page).toContain(createHash('sha256').update(container).digest('hex'));
    const parsed = parse(container);
    expect(container.subarray(0, parsed.macInput.length + 44).toString()).toBe(blocks[1]!.trimEnd());
    const fileKey = fileKeyOf(parsed, { kind: '', plaintext: '', password: 'password' });
    expect(openPayload(fileKey, parsed.payload).toString()).toBe('hello');
    const values = blocks[0]!.replace(/\n +/g, '');
    const inputKey = hkdf(fileKey, 'sealpin/v1 payload');
    for (const [name, value] of [
      ['fk', fileKey],
      ['body', parsed.stanzas[0]!.body],
      ['MAC key', hkdf(fileKey, 'sealpin/v1 header')],
      ['MAC', parsed.mac],
      ['input key', inputKey],
      ['commitment', parsed.payload.subarray(24, 56)],
      ['chunk 0', parsed.payload.subarray(56)],
    ] as const) {
      expect(values).toContain(`${name.padEnd(14)}${value.toString('hex')}\n`);
    }
  });
});
