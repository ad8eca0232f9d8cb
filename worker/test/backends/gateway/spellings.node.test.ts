/**
 * `/ipfs/` by every spelling of a CID: each is the same file, and none is a way around a deletion
 * or the denylist.
 */
import { randomBytes } from 'node:crypto';
import { base16 } from 'multiformats/bases/base16';
import { base32upper } from 'multiformats/bases/base32';
import { base36 } from 'multiformats/bases/base36';
import { base58btc } from 'multiformats/bases/base58';
import { CID } from 'multiformats/cid';
import { expect, test } from 'vitest';
import { adminToken, sharedService } from '../../../../testkit/service.ts';
import { bytesOf, client, problemOf } from '../../../../testkit/api-client.ts';
import { newOwner } from '../../stored-state.ts';

const service = await sharedService();

function spellingsOf(cid: string): string[] {
  const parsed = CID.parse(cid);
  const texts = [base16, base32upper, base36, base58btc].map((base) => parsed.toString(base));
  return [cid, ...texts, ...(parsed.code === 0x70 ? [parsed.toV0().toString()] : [])];
}

test.each([20, 1_500_000])('a file of %i bytes is read by every spelling, and gone by every one', async (length) => {
  const owner = await newOwner(service);
  const operator = client(service.url, adminToken);
  const bytes = randomBytes(length);
  const file = await owner.call.store('plain', bytes);
  const all = spellingsOf(file.cid);
  expect(new Set(all).size).toBe(length > 1_048_576 ? 6 : 5);
  const get = (cid: string, method = 'GET') => fetch(`${service.url}/ipfs/${cid}`, { method });
  for (const cid of all) {
    const response = await get(cid);
    expect(response.status, cid).toBe(200);
    expect(response.headers.get('ETag'), cid).toBe(`"${file.cid}"`);
    expect(response.headers.get('X-Ipfs-Path'), cid).toBe(`/ipfs/${file.cid}`);
    expect((await bytesOf(response)).equals(bytes), cid).toBe(true);
    const head = await get(cid, 'HEAD');
    expect(head.status, cid).toBe(200);
    expect(head.headers.get('Content-Length'), cid).toEqual(String(length));
  }
  const refused = async (code: string) => {
    for (const cid of all) {
      expect(await problemOf(get(cid)), cid).toMatch(new RegExp(`^(404|410) ${code}$`));
      expect((await get(cid, 'HEAD')).status, cid).toBeGreaterThanOrEqual(404);
    }
  };
  await operator.denyCid({ cid: file.cid });
  await refused('content_denied');
  await operator.ask('allowCid', { cid: file.cid });
  expect((await get(all[1] ?? '')).status).toBe(200);
  await owner.call.deleteFile({ fileId: file.fileId });
  await refused('not_found');
});

test('a block is read in part, and a page may ask for what is cached only', async () => {
  const owner = await newOwner(service);
  const bytes = randomBytes(1000);
  const { cid } = await owner.call.store('plain', bytes);
  const url = `${service.url}/ipfs/${cid}?format=raw`;
  const part = await fetch(url, { headers: { Range: 'bytes=10-19' } });
  expect(part.status).toBe(206);
  expect(part.headers.get('Content-Range')).toBe('bytes 10-19/1000');
  expect((await bytesOf(part)).equals(bytes.subarray(10, 20))).toBe(true);
  const preflight = await fetch(url, {
    method: 'OPTIONS',
    headers: {
      Origin: 'https://page.example',
      'Access-Control-Request-Method': 'GET',
      'Access-Control-Request-Headers': 'cache-control',
    },
  });
  expect(preflight.headers.get('Access-Control-Allow-Headers')).toContain('Cache-Control');
});
