/**
 * Tests of search tags, computed once more by Node's own crypto, from the text of shared/README.md.
 */
import { createHmac, createPrivateKey, hkdfSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { generateKeyPair, searchTag } from '../../../crypto/index.ts';
import { present } from '../../../../testkit/present.ts';

test('a tag is an HMAC under a key derived from the private key, and another one for another account', async () => {
  const { pkcs8 } = await generateKeyPair();
  const { d } = createPrivateKey({ key: Buffer.from(pkcs8), format: 'der', type: 'pkcs8' }).export({ format: 'jwk' });
  const scalar = Buffer.from(present(d), 'base64url');
  const key = Buffer.from(hkdfSync('sha256', scalar, Buffer.alloc(0), 'sealpin/v1 tag', 32));
  for (const tag of ['invoice', 'é b', 'x'.repeat(100)])
    expect(searchTag(pkcs8, tag)).toBe(createHmac('sha256', key).update(tag).digest('hex'));
  const other = await generateKeyPair();
  expect(searchTag(other.pkcs8, 'invoice')).not.toBe(searchTag(pkcs8, 'invoice'));
});
