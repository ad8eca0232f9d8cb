/** A client of tus for tests, and what the service stores of an upload. */
import { randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import type { ResumableUpload } from '../../../shared/api.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { jsonOf, type Client } from '../../../testkit/api-client.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

export const version = { 'Tus-Resumable': '1.0.0' };
export const mib = 1_048_576;
export type Mode = 'plain' | 'encrypted';
export const modes: readonly Mode[] = ['plain', 'encrypted'];
/** Modes of the short form, in which one stands for both. */
export const modesInForm: readonly Mode[] = long ? modes : ['encrypted'];

/** A body that ends with an error after these bytes. */
export function broken(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start: (controller) => controller.enqueue(bytes),
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      controller.error(new Error('the line breaks'));
    },
  });
}

export function metadataOf(values: Record<string, string>): string {
  return Object.entries(values)
    .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
    .join(',');
}

export type Created = { path: string; id: string; response: Response };

/** Begins an upload. @param headers besides the usual ones */
export async function create(
  call: Client,
  mode: Mode,
  length: number | undefined,
  o: { headers?: Record<string, string>; body?: Uint8Array } = {},
): Promise<Created> {
  const response = await call(`/v1/uploads/${mode}`, {
    method: 'POST',
    headers: {
      ...version,
      ...(length === undefined ? { 'Upload-Defer-Length': '1' } : { 'Upload-Length': String(length) }),
      'Upload-Metadata': metadataOf({ filename: 'näme.bin', filetype: 'image/png' }),
      ...(o.body === undefined ? {} : { 'Content-Type': 'application/offset+octet-stream' }),
      ...o.headers,
    },
    ...(o.body === undefined ? {} : { body: o.body as BodyInit }),
  });
  expect(response.status).toBe(201);
  expect(response.status === 201 ? '' : await response.clone().text()).toBe('');
  const path = present(response.headers.get('Location'));
  return { path, id: itemOf(path.split('/'), -1), response };
}

export function patch(
  call: Client,
  path: string,
  offset: number,
  body: Uint8Array | ReadableStream<Uint8Array>,
  headers: Record<string, string> = {},
): Promise<Response> {
  return call(path, {
    method: 'PATCH',
    headers: {
      ...version,
      'Content-Type': 'application/offset+octet-stream',
      'Upload-Offset': String(offset),
      ...headers,
    },
    body: body as BodyInit,
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  });
}

export function head(call: Client, path: string): Promise<Response> {
  return call(path, { method: 'HEAD', headers: version });
}

/** The offset that HEAD tells. */
export async function offsetOf(call: Client, path: string): Promise<number> {
  const response = await head(call, path);
  expect(response.status).toBe(200);
  return Number(response.headers.get('Upload-Offset'));
}

export async function stateOf(call: Client, path: string): Promise<ResumableUpload> {
  return await jsonOf<ResumableUpload>(call(path));
}

/** Sends bytes in PATCHes of a size. @returns the last response */
export async function send(call: Client, path: string, bytes: Uint8Array, size: number, from = 0): Promise<Response> {
  let last: Response | undefined;
  for (let offset = from; offset < bytes.length || last === undefined; offset += size) {
    last = await patch(call, path, offset, bytes.subarray(offset, offset + size));
    expect(last.status).toBe(204);
    expect(last.status === 204 ? '' : await last.clone().text()).toBe('');
    expect(last.headers.get('Upload-Offset')).toBe(String(Math.min(bytes.length, offset + size)));
  }
  return last;
}

/** Checks that a file is there, with these bytes, under the CID of what is stored. */
export async function expectStored(call: Client, finished: Response, bytes: Uint8Array): Promise<void> {
  const fileId = present(finished.headers.get('Sealpin-File'));
  const cid = present(finished.headers.get('Sealpin-Cid'));
  const file = await call.getFile({ fileId, data: false });
  expect(file).toMatchObject({ cid, size: bytes.length, filename: 'näme.bin', contentType: 'image/png' });
  const read = await call.read(fileId);
  expect(Buffer.compare(read, bytes)).toBe(0);
  const stored = await call.getByCid({ cid });
  expect(await cidOfBytes(stored)).toBe(cid);
  if (file.mode === 'plain') expect(Buffer.compare(stored, bytes)).toBe(0);
}

export function random(bytes: number): Uint8Array {
  return randomBytes(bytes);
}
