/** tusd, the reference server of tus, behind the routes that Sealpin adds. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createReadStream } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cidOfBytes } from '../cid.ts';
import { sendOnce } from '../faulty-proxy.ts';
import { programPath, startProgram } from './programs.ts';
import { startLoopbackServer } from '../loopback-server.ts';

/** The note of tests that are skipped without tusd. */
export const noTusd = 'tusd is not installed: build it with .ci/tusd';

/** Tells whether `.ci/tusd` has built it. */
export const hasTusd = (): boolean => programPath('tusd') !== undefined;

export type TusdService = {
  url: string;
  /** Bytes of the uploads at tusd, by their IDs. */
  bytesOf(uploadId: string): Promise<number | undefined>;
  close(): Promise<void>;
};

/** Starts tusd on a free port. `endpoint` is where uploads are created. */
export async function spawnTusd(
  dir: string,
  args: readonly string[] = [],
): Promise<{ endpoint: string; close(): Promise<void> }> {
  // How often it looks whether another request waits for the lock of an upload; by default only
  // every 2 and 5 s.
  const polls = ['-filelock-holder-poll-interval=50ms', '-filelock-acquirer-poll-interval=50ms'];
  const all = ['-host=127.0.0.1', '-port=0', `-upload-dir=${dir}`, ...args, ...polls];
  const { ready, stop } = await startProgram(programPath('tusd') ?? 'tusd', all, {
    ready: (output) => /upload files to: (\S+)/.exec(output),
  });
  return { endpoint: ready[1] ?? '', close: () => stop() };
}

/** Starts it on free ports of 127.0.0.1. @param o.maxUploadBytes what its health says */
export async function startTusdService(o: { maxUploadBytes: number | null }): Promise<TusdService> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-tusd-'));
  const tusd = await spawnTusd(dir);
  const files = tusd.endpoint;
  const adapter = await startLoopbackServer((request, response) => {
    answer(request, response, { files, dir, maxUploadBytes: o.maxUploadBytes }).catch(() => response.destroy());
  });
  return {
    url: adapter.url,
    bytesOf: async (uploadId) => (await uploadStatus(files, tusdIdOf(uploadId)))?.offset,
    async close() {
      await adapter.close();
      await tusd.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

const tusdIdOf = (uuid: string): string => uuid.replaceAll('-', '');
const uuidOf = (id: string): string => id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

type Behind = { files: string; dir: string; maxUploadBytes: number | null };
const createdAt = '2026-01-02T03:04:05.000Z';

async function answer(request: IncomingMessage, response: ServerResponse, behind: Behind): Promise<void> {
  const { method = '', url = '' } = request;
  const json = (status: number, value: unknown): void => {
    const type = status >= 400 ? 'application/problem+json' : 'application/json';
    response.writeHead(status, { 'content-type': type }).end(JSON.stringify(value));
  };
  if (url === '/v1/health')
    return json(200, { status: 'ok', version: '0', maxUploadBytes: behind.maxUploadBytes, maxFileBytes: 2 ** 35 });
  if (url === '/v1/account') return json(200, someAccount);
  if (method === 'POST' && url === '/v1/uploads/plain') return forward(request, response, behind.files);
  if (url.startsWith('/v1/storage?')) return json(200, { files: [] });
  if (method === 'POST') {
    // Uploads in one request are not what this is for: it takes all of it, and refuses.
    request.resume();
    await once(request, 'end');
  }
  const [, uuid] = /^\/v1\/uploads\/([0-9a-f-]{36})$/.exec(url) ?? [];
  if (uuid === undefined) return json(404, problem(404, 'not_found'));
  const id = tusdIdOf(uuid);
  if (method !== 'GET') return forward(request, response, `${behind.files}${id}`);
  const status = await uploadStatus(behind.files, id);
  if (status === undefined) return json(404, problem(404, 'not_found'));
  const isDone = status.offset === status.length;
  return json(200, {
    uploadId: uuid,
    mode: 'plain',
    ...status,
    state: isDone ? 'done' : 'open',
    expiresAt: createdAt,
    file: isDone ? await uploadedFile(join(behind.dir, id), uuid) : undefined,
  });
}

const problem = (status: number, code: string) => ({ type: 'about:blank', title: code, status, code });

const someAccount = {
  account: { id: '0'.repeat(22), label: 'a', publicKey: 'AA==', createdAt },
  usage: { files: 0, bytes: 0 },
  key: {
    id: '00112233aabbccdd',
    account: '0'.repeat(22),
    label: 'k',
    scopes: ['read', 'write'],
    createdAt,
    createdBy: null,
  },
};

async function uploadStatus(files: string, id: string): Promise<{ offset: number; length: number } | undefined> {
  const { status, headers } = await fetch(`${files}${id}`, { method: 'HEAD', headers: { 'tus-resumable': '1.0.0' } });
  if (status !== 200) return undefined;
  return { offset: Number(headers.get('upload-offset')), length: Number(headers.get('upload-length')) };
}

/** The file as Sealpin describes it, its CID computed from what tusd has written. */
async function uploadedFile(path: string, fileId: string) {
  return { fileId, cid: await cidOfBytes(createReadStream(path) as AsyncIterable<Buffer>) };
}

/** Passes a request on. tusd keeps what it has where a client breaks off. */
async function forward(request: IncomingMessage, response: ServerResponse, target: string): Promise<void> {
  const url = new URL(target);
  const answer = await sendOnce({ request, response, url, headers: { ...request.headers, host: url.host } });
  const headers = { ...answer.headers };
  const [, id] = /\/([0-9a-f]{32})$/.exec(headers.location ?? '') ?? [];
  if (id !== undefined) headers.location = `/v1/uploads/${uuidOf(id)}`;
  response.writeHead(answer.statusCode ?? 500, headers);
  answer.pipe(response);
}
