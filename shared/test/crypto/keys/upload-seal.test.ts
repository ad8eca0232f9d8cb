import { expect, test } from 'vitest';
import { newAccountId, newApiKey, uploadSeal } from '../../../crypto/index.ts';
import { isSealpinError } from '../../../errors.ts';

const bytes = new TextEncoder().encode('what an upload keeps');
const upload = { uploadId: '0b7a2a2e-6a34-4a53-8f4b-0d7a3ad2f6a1', preamble: new Uint8Array(56).fill(7) };
const key = await newApiKey(newAccountId());
const sealed = await (await uploadSeal(key, upload)).seal(bytes, 'rest 5');

test('what is sealed opens with the same key, upload and label', async () => {
  expect(await (await uploadSeal(key, upload)).open(sealed, 'rest 5')).toEqual(bytes);
  expect(sealed.length).toBe(12 + bytes.length + 16);
});

test.each([
  ['another key', await newApiKey(key.account), upload, 'rest 5'],
  ['another upload', key, { ...upload, uploadId: crypto.randomUUID() }, 'rest 5'],
  ['another preamble', key, { ...upload, preamble: new Uint8Array(56) }, 'rest 5'],
  ['another label', key, upload, 'rest 6'],
  ['no label', key, upload, undefined],
])('and not with %s', async (_, other, of, label) => {
  const failure: unknown = await (await uploadSeal(other, of)).open(sealed, label).catch((error: unknown) => error);
  expect(isSealpinError(failure, 'decrypt_failed')).toBe(true);
});

test('nor when it is cut off', async () => {
  const failure: unknown = await (await uploadSeal(key, upload)).open(sealed.subarray(0, 20)).catch((error) => error);
  expect(isSealpinError(failure, 'decrypt_failed')).toBe(true);
});
