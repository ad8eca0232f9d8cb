/**
 * The format as `shared/README.md` describes it: a second reader, of the page alone, opens the
 * golden files and the worked examples.
 */
import {
  createECDH,
  createHash,
  createPrivateKey,
  createPublicKey,
  decapsulate,
  diffieHellman,
  hkdfSync,
  pbkdf2Sync,
  scryptSync,
  type ECDH,
} from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import {
  bech32Bytes,
  expand512,
  fileKeyOf,
  hkdf,
  hmac,
  hpkeKeys,
  openChaCha,
  openGcm,
  openPayload,
  parse,
  read,
  scheduleKeys,
} from './page-reader.ts';
import { first, itemOf, present } from '../../../../testkit/present.ts';

describe('a reader written from the page alone', () => {
  for (const name of ['sealpin-scrypt', 'sealpin-pbkdf2-sha512', 'sealpin-p256']) {
    test(`opens ${name}`, async () => {
      const file = await read(name);
      const parsed = parse(Buffer.from(present(file.container), 'base64'));
      expect(openPayload(fileKeyOf(parsed, file), parsed.payload)).toEqual(Buffer.from(file.plaintext, 'base64'));
    });
  }

  test('opens sealpin-detached, and reads what the file is called', async () => {
    const file = await read('sealpin-detached');
    const parsed = parse(Buffer.from(present(file.header), 'base64'));
    const fileKey = fileKeyOf(parsed, file);
    const payload = Buffer.from(present(file.payload), 'base64');
    expect(payload.subarray(0, 20).toString()).toBe('sealpin/v1 detached\n');
    expect(openPayload(fileKey, payload.subarray(20))).toEqual(Buffer.from(file.plaintext, 'base64'));
    const { args, body } = present(parsed.stanzas.find(({ args }) => args[0] === 'file'));
    const json = openGcm(
      hkdf(fileKey, 'sealpin/v1 file'),
      body.subarray(0, 12),
      body.subarray(12),
      Buffer.from(itemOf(args, 1)),
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

  /** The blocks of an example on the page, and the digest that ends it. */
  async function example(name: string): Promise<{ blocks: string[]; text: string }> {
    const page = await readFile(new URL('../../../README.md', import.meta.url), 'utf8');
    const examples = page.slice(page.indexOf('## Worked examples'));
    const start = examples.indexOf(`\n### ${name}\n`);
    expect(start).toBeGreaterThan(0);
    const end = examples.indexOf('\n### ', start + 1);
    const text = examples.slice(start, end < 0 ? undefined : end);
    return { text, blocks: [...text.matchAll(/```\n([^`]+)```/g)].map(([, block]) => present(block)) };
  }

  /** Checks that a block names these values, which may take several lines. */
  function expectValues(block: string, values: Record<string, Buffer>): void {
    const lines = block.replace(/\n +/g, '');
    for (const [name, value] of Object.entries(values))
      expect(lines).toContain(`${name.padEnd(14)}${value.toString('hex')}\n`);
    expect(lines.trimEnd().split('\n').length).toBe(Object.keys(values).length);
  }

  const examplePayload = async (): Promise<Buffer> => {
    const { blocks } = await example('scrypt');
    return parse(Buffer.from(itemOf(blocks, 2).replaceAll('\n', ''), 'hex')).payload;
  };
  const sha256 = (data: Buffer): string => createHash('sha256').update(data).digest('hex');

  test('opens the worked example of scrypt on the page, and comes to its values', async () => {
    const { text, blocks } = await example('scrypt');
    const container = Buffer.from(itemOf(blocks, 2).replaceAll('\n', ''), 'hex');
    expect(text).toContain(sha256(container));
    const parsed = parse(container);
    expect(container.subarray(0, parsed.macInput.length + 44).toString()).toBe(itemOf(blocks, 1).trimEnd());
    const fileKey = fileKeyOf(parsed, { kind: '', plaintext: '', password: 'password' });
    expect(openPayload(fileKey, parsed.payload).toString()).toBe('hello');
    const inputKey = hkdf(fileKey, 'sealpin/v1 payload');
    const salt = Buffer.concat([Buffer.from('sealpin/v1 scrypt'), fileKey.subarray(0, 16)]);
    const info = 'c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0';
    const derived = expand512(
      inputKey,
      Buffer.concat([Buffer.from(info), parsed.payload.subarray(0, 24), Buffer.from('sealpin/v1')]),
      76,
    );
    expectValues(first(blocks), {
      fk: fileKey,
      KEK: scryptSync('password', salt, 32, { N: 2 ** 10, r: 8, p: 1 }),
      body: first(parsed.stanzas).body,
      'MAC key': hkdf(fileKey, 'sealpin/v1 header'),
      MAC: parsed.mac,
      'input key': inputKey,
      key: derived.subarray(0, 32),
      'base nonce': derived.subarray(32, 44),
      commitment: derived.subarray(44),
      'chunk 0': parsed.payload.subarray(56),
    });
  });

  test('opens the worked example of PBKDF2 on the page', async () => {
    const { text, blocks } = await example('pbkdf2-sha512');
    const container = Buffer.concat([Buffer.from(first(blocks)), await examplePayload()]);
    expect(text).toContain(`${container.length} bytes with SHA-256 \`${sha256(container)}\``);
    const parsed = parse(container);
    const fileKey = fileKeyOf(parsed, { kind: '', plaintext: '', password: 'password' });
    expect(openPayload(fileKey, parsed.payload).toString()).toBe('hello');
    const salt = Buffer.concat([Buffer.from('sealpin/v1 pbkdf2-sha512'), fileKey.subarray(0, 16)]);
    expect(text).toContain(`\`${pbkdf2Sync('password', salt, 220_000, 32, 'sha512').toString('hex')}\``);
  });

  /** The private key of the examples, 20…3f, as this reader takes it. */
  const exampleKey = (): { pem: string; own: ECDH } => {
    const own = createECDH('prime256v1');
    own.setPrivateKey(Buffer.from(Array.from({ length: 32 }, (_, index) => 0x20 + index)));
    const prefix = Buffer.from('308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420', 'hex');
    const der = Buffer.concat([prefix, own.getPrivateKey(), Buffer.from('a144034200', 'hex'), own.getPublicKey()]);
    return { own, pem: `-----BEGIN PRIVATE KEY-----\n${der.toString('base64')}\n-----END PRIVATE KEY-----\n` };
  };

  test('opens the worked example of p256 on the page, and comes to its values', async () => {
    const { text, blocks } = await example('p256');
    const container = Buffer.concat([Buffer.from(itemOf(blocks, 1)), await examplePayload()]);
    expect(text).toContain(`${container.length} bytes with SHA-256 \`${sha256(container)}\``);
    const parsed = parse(container);
    const { pem, own } = exampleKey();
    const fileKey = fileKeyOf(parsed, { kind: '', plaintext: '', privateKey: pem });
    expect(openPayload(fileKey, parsed.payload).toString()).toBe('hello');
    const { args, body } = first(parsed.stanzas);
    const enc = Buffer.from(itemOf(args, 1), 'base64');
    const { shared, key, nonce } = hpkeKeys(pem, enc, 'sealpin/v1 p256');
    expectValues(first(blocks), {
      point: own.getPublicKey(),
      enc,
      'ECDH (x)': own.computeSecret(enc),
      shared_secret: shared,
      key,
      base_nonce: nonce,
      body,
    });
  });

  test('opens the worked example of the encrypted mode on the page', async () => {
    const { text, blocks } = await example('Detached');
    const header = Buffer.from(first(blocks));
    const stored = Buffer.concat([Buffer.from('sealpin/v1 detached\n'), await examplePayload()]);
    const whole = Buffer.concat([header, stored]);
    expect(text).toContain(`${whole.length} bytes with SHA-256 \`${sha256(whole)}\``);
    const parsed = parse(header);
    const fileKey = fileKeyOf(parsed, { kind: '', plaintext: '', privateKey: exampleKey().pem });
    expect(openPayload(fileKey, stored.subarray(20)).toString()).toBe('hello');
    const key = hkdf(fileKey, 'sealpin/v1 file');
    expect(text).toContain(`\`${key.toString('hex')}\``);
    const { args, body } = itemOf(parsed.stanzas, 1);
    expect(args).toEqual(['file', 'example']);
    const json = openGcm(key, body.subarray(0, 12), body.subarray(12), Buffer.from('example')).toString();
    expect(text).toContain(`\`${json.trimEnd()}\` with ${json.length - json.trimEnd().length} spaces`);
  });

  const shake256 = (data: Buffer, bytes: number): Buffer =>
    createHash('shake256', { outputLength: bytes }).update(data).digest();
  const sha3 = (...parts: (Buffer | string)[]): Buffer =>
    parts.reduce((hash, part) => hash.update(part), createHash('sha3-256')).digest();

  /**
   * Decapsulation of ML-KEM-768 by OpenSSL, with a key from its `d ‖ z` (RFC 9935: PKCS#8 with the
   * seed as [0]).
   */
  function mlKem(seed: Buffer, ciphertext: Buffer): Buffer {
    const der = Buffer.concat([Buffer.from('3054020100300b060960864801650304040204428040', 'hex'), seed]);
    return decapsulate(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }), ciphertext);
  }

  const order = Buffer.from('ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551', 'hex');

  /** The shared secret of 0x0050, as the page has it. */
  function mlKemP256(seed: Buffer, enc: Buffer): Buffer {
    const expanded = shake256(seed, 192);
    const candidates = [64, 96, 128, 160].map((at) => expanded.subarray(at, at + 32));
    const own = createECDH('prime256v1');
    own.setPrivateKey(present(candidates.find((one) => one.compare(order) < 0 && one.some((byte) => byte !== 0))));
    const secret = mlKem(expanded.subarray(0, 64), enc.subarray(0, 1088));
    const point = enc.subarray(1088);
    return sha3(secret, own.computeSecret(point), point, own.getPublicKey(), 'MLKEM768-P256');
  }

  /** The shared secret of 0x647a, as the page has it. */
  function mlKemX25519(seed: Buffer, enc: Buffer): Buffer {
    const expanded = shake256(seed, 96);
    const pkcs8 = Buffer.concat([Buffer.from('302e020100300506032b656e04220420', 'hex'), expanded.subarray(64)]);
    const privateKey = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
    const own = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32);
    const share = enc.subarray(1088);
    const spki = Buffer.concat([Buffer.from('302a300506032b656e032100', 'hex'), share]);
    const publicKey = createPublicKey({ key: spki, format: 'der', type: 'spki' });
    const secret = mlKem(expanded.subarray(0, 64), enc.subarray(0, 1088));
    return sha3(secret, diffieHellman({ privateKey, publicKey }), share, own, Buffer.from('5c2e2f2f5e5c', 'hex'));
  }

  for (const { name, kem, shared } of [
    { name: 'mlkem768p256tag', kem: 0x0050, shared: mlKemP256 },
    { name: 'mlkem768x25519', kem: 0x647a, shared: mlKemX25519 },
  ]) {
    test(`opens age-${name}`, async () => {
      const file = await read(`age-${name}`);
      const parsed = parse(Buffer.from(present(file.container), 'base64'), 'age-encryption.org/v1');
      const seed = bech32Bytes(present(/^[A-Z]+-SECRET-KEY-PQ-1.*$/m.exec(present(file.privateKey)))[0]);
      expect(seed.length).toBe(32);
      const { args, body } = present(parsed.stanzas.find(({ args }) => args[0] === name));
      const secret = shared(seed, Buffer.from(itemOf(args, -1), 'base64'));
      const { key, nonce } = scheduleKeys(kem, 3, secret, `age-encryption.org/${name}`);
      const fileKey = openChaCha(key, nonce, body);
      expect(hmac('sha256', hkdf(fileKey, 'header'), parsed.macInput)).toEqual(parsed.mac);
      const payloadKey = Buffer.from(hkdfSync('sha256', fileKey, parsed.payload.subarray(0, 16), 'payload', 32));
      const last = Buffer.from('000000000000000000000001', 'hex');
      expect(openChaCha(payloadKey, last, parsed.payload.subarray(16))).toEqual(Buffer.from(file.plaintext, 'base64'));
    });
  }
});
