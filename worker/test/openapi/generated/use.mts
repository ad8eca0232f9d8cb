// What a program does with the client that openapi-typescript and openapi-fetch make.
import { deepStrictEqual, ok } from 'node:assert/strict';
import createClient from 'openapi-fetch';
import type { components, paths } from './api.d.ts';

const { SERVICE: baseUrl = '', KEY } = process.env;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${KEY}` } });
const bytes = new Uint8Array([0, 1, 2, 253, 254, 255]);

const json = await client.POST('/v1/storage/encrypted', {
  body: { filename: 'n.bin', data: Buffer.from(bytes).toString('base64') },
});
const raw = await client.POST('/v1/storage/plain', {
  params: { header: { 'Idempotency-Key': crypto.randomUUID() } },
  headers: { 'Content-Type': 'application/octet-stream' },
  body: '',
  bodySerializer: () => bytes,
});
ok(json.data && raw.data, JSON.stringify(json.error ?? raw.error));

const list = await client.GET('/v1/storage', { params: { query: { limit: 2 } } });
deepStrictEqual(
  list.data?.files.map(({ fileId, size }) => [fileId, size]),
  [raw, json].map(({ data }) => [data.fileId, 6]),
);
for (const { fileId } of [json.data, raw.data]) {
  const content = await client.GET('/v1/storage/{fileId}/content', {
    params: { path: { fileId } },
    parseAs: 'arrayBuffer',
  });
  deepStrictEqual(new Uint8Array(content.data as unknown as ArrayBuffer), bytes);
  const file = await client.GET('/v1/storage/{fileId}', { params: { path: { fileId } } });
  const withData: components['schemas']['FileWithData'] | string | undefined = file.data;
  ok(typeof withData === 'object');
  deepStrictEqual(Buffer.from(withData.data ?? '', 'base64'), Buffer.from(bytes));
  const receipt = await client.DELETE('/v1/storage/{fileId}', { params: { path: { fileId } } });
  deepStrictEqual(receipt.data?.key, withData.mode === 'encrypted' ? 'destroyed' : 'none');
  const { error } = await client.GET('/v1/storage/{fileId}', { params: { path: { fileId } } });
  deepStrictEqual(error?.code, 'not_found');
}
