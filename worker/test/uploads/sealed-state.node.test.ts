/**
 * State of an upload in progress, opened as shared/README.md says: a later version continues it.
 */
import { createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { parseApiKey } from '../../../shared/crypto/index.ts';
import { sharedService } from '../../../testkit/service.ts';
import { newOwner } from '../stored-state.ts';
import { create, patch } from './tus-client.ts';
import { present } from '../../../testkit/present.ts';

it('opens with the API key, each part under its own name', async () => {
  const owner = await newOwner(await sharedService());
  const bytes = randomBytes(40_000);
  const { path, id } = await create(owner.call, 'encrypted', bytes.length);
  for (const [from, to] of [
    [0, 20_000],
    [20_000, 39_999],
  ] as const)
    expect((await patch(owner.call, path, from, bytes.subarray(from, to))).status).toBe(204);
  const [row] = (await owner.object.rows('upload')) as Record<string, ArrayBuffer>[];
  const { secret, account } = present(await parseApiKey(owner.call.apiKey));
  const key = new Uint8Array(hkdfSync('sha256', secret, '', 'sealpin/v1 upload', 32));
  const preamble = Buffer.from(present(present(row)['preamble'])).toString('base64');
  const open = (column: string, ...label: string[]): Buffer => {
    const sealed = Buffer.from(present(present(row)[column]));
    const aead = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12));
    aead.setAAD(Buffer.from([account, id, preamble, ...label].join('\n'))).setAuthTag(sealed.subarray(-16));
    return Buffer.concat([aead.update(sealed.subarray(12, -16)), aead.final()]);
  };
  expect(open('sealed_key')).toHaveLength(32);
  expect(open('sealed_metadata', 'metadata').toString()).toMatch(/^filename /);
  const chunk = 16_384;
  expect(open('sealed_rest', 'rest 39999').equals(bytes.subarray(2 * chunk, 39_999))).toBe(true);
});
