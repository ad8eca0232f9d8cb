/** Files in several requests, of every length and cut: what is stored is what was sent. */
import { beforeAll, describe, expect, it } from 'vitest';
import { client, type Client } from '../../../testkit/api-client.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { create, expectStored, mib, modes, modesInForm, patch, random, send, stateOf } from './tus-client.ts';
import { long } from '../../../testkit/long-run.ts';

let service: Service;
let call: Client;
beforeAll(async () => {
  service = await sharedService();
  call = client(service.url, (await service.account()).apiKey);
});

describe.each(modes)('%s', (mode) => {
  // Of a leaf of an encrypted payload, 76 bytes are before its first chunk, and each chunk of
  // 16,384 bytes takes 16,400.
  const lastOfLeaf = Math.floor((mib - 76) / 16_400) * 16_384;
  const lengths = [
    ['no byte', 0],
    ['one byte', 1],
    ['a chunk less a byte', 16_383],
    ['a chunk', 16_384],
    ['two chunks', 32_768],
    ['what begins a leaf', lastOfLeaf + (mib - 76 - Math.floor((mib - 76) / 16_400) * 16_400) - 16],
    ['a leaf', mib],
    ['a leaf and a byte', mib + 1],
    ['three leaves', 3 * mib],
    ['more than a part', 17 * mib + 5],
  ] as const;
  // The lengths of chunks are those of the encrypted mode alone.
  const inPlain: readonly string[] = ['no byte', 'a leaf and a byte'];
  const inEncrypted: readonly string[] = ['one byte', 'a chunk', 'what begins a leaf', 'a leaf', 'more than a part'];
  const inForm = lengths.filter(([name]) => long || (mode === 'plain' ? inPlain : inEncrypted).includes(name));
  it.each(inForm)('%s', async (_, length) => {
    const bytes = random(length);
    const { path, response } = await create(call, mode, length);
    const finished = length === 0 ? response : await send(call, path, bytes, 5 * mib);
    await expectStored(call, finished, bytes);
    expect(await stateOf(call, path)).toMatchObject({ state: 'done', offset: length, length });
  });
});

describe.each(modesInForm)('%s', (mode) => {
  it('in pieces of 512,000 bytes', async () => {
    const bytes = random(1_333_333);
    const { path } = await create(call, mode, bytes.length);
    await expectStored(call, await send(call, path, bytes, 512_000), bytes);
  });

  it('in pieces of one byte', async () => {
    const bytes = random(long ? 40 : 12);
    const { path } = await create(call, mode, bytes.length);
    await expectStored(call, await send(call, path, bytes, 1), bytes);
  });

  it('with the first bytes in the request that begins it', async () => {
    const bytes = random(1_500_000);
    const { path, response } = await create(call, mode, bytes.length, { body: bytes.subarray(0, 1_200_000) });
    expect(response.headers.get('Upload-Offset')).toBe('1200000');
    await expectStored(call, await send(call, path, bytes, mib, 1_200_000), bytes);
    const whole = await create(call, mode, bytes.length, { body: bytes });
    await expectStored(call, whole.response, bytes);
  });

  it('of a length that is told with the last bytes, or after them', async () => {
    const bytes = random(1_500_000);
    const one = await create(call, mode, undefined);
    await send(call, one.path, bytes.subarray(0, 500_000), mib);
    const length = { 'Upload-Length': String(bytes.length) };
    await expectStored(call, await patch(call, one.path, 500_000, bytes.subarray(500_000), length), bytes);
    const other = await create(call, mode, undefined);
    await send(call, other.path, bytes, mib);
    await expectStored(call, await patch(call, other.path, bytes.length, new Uint8Array(0), length), bytes);
  });
});
