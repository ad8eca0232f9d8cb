/**
 * The servers that the same tus requests go to: ours in both modes, and the two that the protocol's
 * authors publish.
 */
import { FileStore } from '@tus/file-store';
import { Server } from '@tus/server';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Service } from '../../../../testkit/service.ts';
import { spawnTusd } from '../../../../testkit/programs/tusd.ts';
import type { Mode } from '../tus-client.ts';
import { startLoopbackServer } from '../../../../testkit/loopback-server.ts';

export type TusServer = {
  /** URL at which a POST creates an upload. */
  endpoint: string;
  /** The URL of an upload that does not exist. */
  nowhere: string;
  /** Headers that every request needs besides those of the protocol. */
  headers: Record<string, string>;
  /** The bytes of a finished upload, by the URL of the upload. */
  stored(uploadUrl: string): Promise<Buffer>;
  /** The same server for somebody else, where it limits what one may leave unfinished. */
  another?(): Promise<TusServer>;
  close(): Promise<void>;
};

/** Length above which all three refuse an upload. */
const maxBytes = 2 ** 35;

const download = async (url: string, headers: Record<string, string> = {}): Promise<Buffer> => {
  const response = await fetch(url, { headers });
  if (response.status !== 200) throw new Error(`${url} responds ${response.status}: ${await response.text()}`);
  return Buffer.from(await response.arrayBuffer());
};

/** Starts tusd, which `.ci/tusd` builds, on a free port of 127.0.0.1. */
export async function startTusd(): Promise<TusServer> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-tusd-'));
  const { endpoint, close } = await spawnTusd(dir, [`-max-size=${maxBytes}`, '-behind-proxy']);
  return {
    endpoint,
    nowhere: new URL('nowhere', endpoint).href,
    headers: {},
    stored: download,
    async close() {
      await close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Starts @tus/server with files as its store, in this process. */
export async function startTusNode(): Promise<TusServer> {
  const directory = await mkdtemp(join(tmpdir(), 'sealpin-tus-node-'));
  const datastore = new FileStore({ directory, expirationPeriodInMilliseconds: 86_400_000 });
  const tus = new Server({ path: '/files', datastore, maxSize: maxBytes, relativeLocation: true });
  const server = await startLoopbackServer((request, response) => void respond(request, response));

  /**
   * Uses its interface for web standards: what it has for Node closes the body of a response to
   * HEAD twice, which is uncaught.
   */
  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/', headers } = request;
    const hasBody = method === 'POST' || method === 'PATCH';
    const answer = await tus.handleWeb(
      new Request(new URL(url, endpoint), {
        method,
        headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
        ...(hasBody && { body: Readable.toWeb(request), duplex: 'half' as const }),
      }),
    );
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(new Uint8Array(await answer.arrayBuffer()));
  }

  const endpoint = `${server.url}/files`;
  return {
    endpoint,
    nowhere: `${endpoint}/nowhere`,
    headers: {},
    stored: download,
    async close() {
      await server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/**
 * The uploads of a running service in one mode, with a key of an account of its own; `close` leaves
 * the service running.
 */
export async function ourUploads(service: Service, mode: Mode): Promise<TusServer> {
  const { apiKey } = await service.account();
  return { ...uploadsOf(service.url, apiKey, mode), another: () => ourUploads(service, mode) };
}

/** The uploads of a key. @param origin of the service, or of what is in front of it */
export function uploadsOf(origin: string, apiKey: string, mode: Mode): TusServer {
  const headers = { Authorization: `Bearer ${apiKey}` };
  return {
    endpoint: `${origin}/v1/uploads/${mode}`,
    nowhere: `${origin}/v1/uploads/${randomUUID()}`,
    headers,
    async stored(uploadUrl) {
      const response = await fetch(uploadUrl, { method: 'HEAD', headers: { ...headers, 'Tus-Resumable': '1.0.0' } });
      const accept = { ...headers, Accept: 'application/octet-stream' };
      return download(`${origin}/v1/storage/${response.headers.get('Sealpin-File')}`, accept);
    },
    async close() {},
  };
}
