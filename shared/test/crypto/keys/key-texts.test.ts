import * as v from 'valibot';
import { expect, test } from 'vitest';
import { NewAccountResponse } from '../../../api.ts';
import {
  decodePem,
  encodePem,
  encodePrivateKeyFile,
  encodePublicKeyFile,
  generateKeyPair,
  isAccountId,
  isApiKeyText,
  isKeyPair,
  isPrivateText,
  newAccountId,
  newApiKey,
  parseIdentities,
  parseRecipients,
  timingSafeEqual,
} from '../../../crypto/index.ts';
import { at } from '../../../streams/at.ts';
import { equalBytes } from '../../../streams/equal-bytes.ts';

test('the texts of key files are the same from DER as from a fresh pair', async () => {
  const { pkcs8, spki, privatePem, publicPem, recipient } = await generateKeyPair();
  expect(encodePublicKeyFile(spki)).toBe(publicPem);
  expect(encodePrivateKeyFile(pkcs8)).toBe(privatePem);
  expect(publicPem.startsWith(`# recipient: ${recipient}\n-----BEGIN PUBLIC KEY-----\n`)).toBe(true);
  expect(parseRecipients(publicPem).map(({ text }) => text)).toEqual([recipient]);
  expect(parseIdentities(privatePem)).toHaveLength(1);
  expect(() => encodePublicKeyFile(pkcs8)).toThrow(expect.objectContaining({ code: 'key_invalid' }) as Error);
});

test('a PEM block has lines of 64 characters and decodes to its bytes, also with other text around it', () => {
  for (const length of [1, 47, 48, 49, 96, 100]) {
    const bytes = Uint8Array.from({ length }, (_, index) => index);
    const pem = encodePem('PRIVATE KEY', bytes);
    expect(Math.max(...pem.split('\n').map((line) => line.length))).toBeLessThanOrEqual(64);
    expect(pem).not.toContain('\n\n');
    expect(decodePem('PRIVATE KEY', `# a line\n${pem.replaceAll('\n', '\r\n')}more`)).toEqual(bytes);
  }
});

test.each([
  '',
  'no block',
  '-----BEGIN PRIVATE KEY-----\nAAAA\n',
  '-----END PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----\nAAAA\n',
  '-----BEGIN PRIVATE KEY-----\nAA*A\n-----END PRIVATE KEY-----\n',
  '-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n',
  '-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n',
])('a text without a valid PEM block decodes to nothing: %j', (text) => {
  expect(decodePem('PRIVATE KEY', text)).toBeUndefined();
});

test('two halves of one pair belong together, and those of two pairs do not', async () => {
  const [one, other] = [await generateKeyPair(), await generateKeyPair()];
  expect(isKeyPair(one.pkcs8, one.spki)).toBe(true);
  expect(isKeyPair(one.pkcs8, other.spki)).toBe(false);
  expect(() => isKeyPair(one.spki, one.spki)).toThrow(expect.objectContaining({ code: 'key_invalid' }) as Error);
});

test('a private key in a text is noticed, whatever its kind', async () => {
  const { privatePem, publicPem } = await generateKeyPair();
  for (const text of [privatePem, 'AGE-SECRET-KEY-1X', 'sealpin-secret-key-pq-1x'])
    expect(isPrivateText(text)).toBe(true);
  expect(isPrivateText(publicPem)).toBe(false);
});

test('API keys and account ids have the shapes that the API announces', async () => {
  const account = newAccountId();
  const { text } = await newApiKey(account);
  const { id } = NewAccountResponse.entries.account.entries;
  const { apiKey } = NewAccountResponse.entries;
  for (const candidate of [
    text,
    account,
    `${text}0`,
    text.slice(1),
    `${account}0`,
    account.slice(1),
    `${account}\n`,
    '',
  ]) {
    expect(isApiKeyText(candidate)).toBe(v.is(apiKey, candidate));
    expect(isAccountId(candidate)).toBe(v.is(id, candidate));
  }
  expect(isApiKeyText(text) && isAccountId(account)).toBe(true);
  // 22 characters of base62 hold more than 128 bits.
  expect(isAccountId('z'.repeat(22))).toBe(false);
});

test.each([equalBytes, timingSafeEqual])('%o compares every byte, and the lengths', (equal) => {
  const bytes = Uint8Array.of(1, 2, 3);
  expect(equal(bytes, bytes.slice())).toBe(true);
  expect(equal(new Uint8Array(0), new Uint8Array(0))).toBe(true);
  for (const other of [[0, 2, 3], [1, 2, 0], [1, 2], [1, 2, 3, 0], []])
    expect(equal(bytes, Uint8Array.from(other))).toBe(false);
});

test('at returns an element that exists, and throws for any other', () => {
  expect(at(['a', undefined], 1)).toBeUndefined();
  expect(at(Uint8Array.of(7), 0)).toBe(7);
  for (const index of [-1, 1, 0.5]) expect(() => at(['a'], index)).toThrow(RangeError);
});
