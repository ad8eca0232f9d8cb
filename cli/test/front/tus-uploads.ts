/** Uploads in several requests to a local service, whose client a test can stop anywhere. */
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { expect } from 'vitest';
import type { ResumableUpload } from '../../../shared/api.ts';
import { cidBuilder, leafBytes } from '../../../shared/ipfs/index.ts';
import { client, jsonOf } from '../../../testkit/api-client.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { control } from '../../local/control.ts';
import { loadSecrets, localPaths } from '../../local/state.ts';
import { api, type RunningHere } from '../local/harness.ts';

/** Headers of every request. */
export const tus = { 'Tus-Resumable': '1.0.0' };
/** The same of one that has bytes. */
export const chunk = { ...tus, 'Content-Type': 'application/offset+octet-stream' };

/** The status of a response that has come whole. */
export async function statusOf(sent: ClientRequest): Promise<number | undefined> {
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  await buffer(response);
  return response.statusCode;
}

/** Sends bytes of a request. Resolves once they are on their way. */
export async function write(sent: ClientRequest, bytes: Uint8Array): Promise<void> {
  await new Promise((resolve) => sent.write(bytes, resolve));
}

export type Uploads = ReturnType<typeof uploadsTo>;

/** Uploads of one API key: by default, that of the service. */
export function uploadsTo(service: Pick<RunningHere, 'url' | 'apiKey' | 'dataDir'>, call = api(service)) {
  async function create(length: number | undefined, mode = 'plain'): Promise<string> {
    const told = length === undefined ? { 'Upload-Defer-Length': '1' } : { 'Upload-Length': String(length) };
    const headers = { ...tus, ...told, 'Upload-Metadata': 'filename bg==' };
    const response = await call(`/v1/uploads/${mode}`, { method: 'POST', headers });
    expect(response.status).toBe(201);
    return present(response.headers.get('Location'));
  }

  function patch(path: string, offset: number, body: Uint8Array): Promise<Response> {
    const headers = { ...chunk, 'Upload-Offset': String(offset) };
    return call(path, { method: 'PATCH', headers, body: body as BodyInit });
  }

  const stateOf = async (path: string): Promise<ResumableUpload> => jsonOf<ResumableUpload>(call(path));

  /** A request whose bytes come when the test sends them. */
  function begin(path: string, offset: number, length: number): ClientRequest {
    const authorization = `Bearer ${call.apiKey}`;
    const headers = { ...chunk, authorization, 'upload-offset': offset, 'content-length': length };
    const sent = request(service.url + path, { method: 'PATCH', agent: false, headers });
    // What became of it, the test asks.
    sent.on('error', () => undefined);
    return sent;
  }

  /** A command of the node behind the service. */
  async function node(command: string): Promise<Response> {
    const { ipfs } = await control(service, 'status');
    const { rpcToken } = await loadSecrets(service.dataDir);
    const headers = { Authorization: `Bearer ${rpcToken}` };
    const response = await fetch(`${ipfs}/api/v0/${command}`, { method: 'POST', headers });
    expect(response.status).toBe(200);
    return response;
  }

  async function pins(): Promise<string[]> {
    const { Keys } = await jsonOf<{ Keys: object }>(node('pin/ls?type=recursive'));
    return Object.keys(Keys).toSorted();
  }

  async function operator(): Promise<ReturnType<typeof client>> {
    return client(service.url, (await loadSecrets(service.dataDir)).adminToken);
  }

  return {
    call,
    create,
    patch,
    stateOf,
    begin,
    pins,
    operator,

    /** Sends what is left, in requests that end at these offsets, and at the end. */
    async send(path: string, bytes: Buffer, ends: readonly number[] = [], from = 0): Promise<void> {
      let offset = from;
      for (const end of [...ends, bytes.length]) {
        const response = await patch(path, offset, bytes.subarray(offset, end));
        expect(response.status, await response.clone().text()).toBe(204);
        expect(response.headers.get('Upload-Offset')).toBe(String(end));
        offset = end;
      }
    },

    /** The offset that HEAD tells. */
    async offsetOf(path: string): Promise<number> {
      const response = await call(path, { method: 'HEAD', headers: tus });
      expect(response.status).toBe(200);
      return Number(response.headers.get('Upload-Offset'));
    },

    /** Checks the file of an upload, byte for byte, and removes it. */
    async expectStored(path: string, bytes: Buffer): Promise<void> {
      const fileId = itemOf(path.split('/'), -1);
      await expect.poll(async () => (await stateOf(path)).state).toBe('done');
      const builder = cidBuilder();
      await builder.write(bytes);
      const { cid } = await builder.finish();
      const file = await call.getFile({ fileId, data: false });
      expect(file).toMatchObject({ size: bytes.length, ...(file.mode === 'plain' && { cid }) });
      expect((await call.read(fileId)).equals(bytes)).toBe(true);
      await call.deleteFile({ fileId });
    },

    /** Begins an upload and sends a part of it, which is recorded, and a little more. */
    async half(bytes: Buffer): Promise<{ path: string; sent: ClientRequest; sentBytes: number }> {
      const path = await create(bytes.length);
      const sent = begin(path, 0, bytes.length);
      const sentBytes = 20 * leafBytes + 77;
      await write(sent, bytes.subarray(0, sentBytes));
      await expect.poll(async () => (await stateOf(path)).offset).toBeGreaterThanOrEqual(16 * leafBytes);
      return { path, sent, sentBytes };
    },

    /** Names of the files that the node has. */
    async filesOnDisk(): Promise<string[]> {
      return (await readdir(join(localPaths(service.dataDir).ipfs, 'data'))).toSorted();
    },

    /** Has the node remove what nothing pins. */
    async collect(): Promise<void> {
      await (await node('repo/gc')).arrayBuffer();
    },

    /** Waits until each pin of the node has a row. */
    async expectRows(): Promise<void> {
      const told = await operator();
      const withoutRow = async (): Promise<string[]> => {
        const held = await pins();
        const rows = new Set<string>();
        let cursor: string | undefined;
        do {
          const page = await told.listPins({ cursor });
          for (const { cid } of page.pins) rows.add(cid);
          ({ cursor } = page);
        } while (cursor !== undefined);
        return held.filter((cid) => !rows.has(cid));
      };
      await expect.poll(withoutRow).toEqual([]);
    },
  };
}
