/**
 * A loopback server whose responses a test defines: what a broken or hostile service or gateway may
 * do.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';

export type Seen = {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  body: Buffer;
};

export type Hostile = { readonly url: string; readonly seen: Seen[] };

/**
 * Answers each request by the first route whose method and path begin like it; anything else is
 * 404, but that the API key may do everything.
 */
export async function hostile(
  routes: Readonly<Record<string, (request: IncomingMessage, response: ServerResponse, seen: Seen) => unknown>>,
): Promise<Hostile> {
  const seen: Seen[] = [];
  const server = await startLoopbackServer((request, response) => {
    const entry: Seen = {
      method: request.method ?? '',
      url: request.url ?? '',
      headers: request.headers,
      body: Buffer.alloc(0),
    };
    seen.push(entry);
    // A peer that breaks off is what some tests are about.
    request.on('error', () => undefined);
    const route = Object.entries(routes).find(([start]) => `${entry.method} ${entry.url}`.startsWith(start));
    if (route === undefined && entry.url === '/v1/account') account()(request, response);
    else if (route === undefined) response.writeHead(404).end();
    else route[1](request, response, entry);
  });
  onTestFinished(() => server.close());
  return { url: server.url, seen };
}

/** Reads the body of a request to its end. */
export async function drain(request: IncomingMessage, seen: Seen): Promise<void> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of request as AsyncIterable<Uint8Array>) chunks.push(chunk);
  seen.body = Buffer.concat(chunks);
}

export function json(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Record<string, string> = {},
): void {
  response
    .writeHead(status, { 'content-type': status >= 400 ? 'application/problem+json' : 'application/json', ...headers })
    .end(JSON.stringify(value));
}

export const health =
  (maxUploadBytes: number | null = null) =>
  (_request: IncomingMessage, response: ServerResponse) =>
    json(response, 200, { status: 'ok', version: '0.1.0', maxUploadBytes });

/** Describes the caller's key as a service does. */
export const account =
  (scopes: readonly string[] = ['read', 'write', 'delete', 'keys']) =>
  (_request: IncomingMessage, response: ServerResponse): void => {
    const createdAt = '2026-01-02T03:04:05.000Z';
    json(response, 200, {
      account: { id: '0'.repeat(22), label: 'a', publicKey: 'AA==', createdAt },
      usage: { files: 0, bytes: 0 },
      key: { id: '00112233aabbccdd', account: '0'.repeat(22), label: 'k', scopes, createdAt, createdBy: null },
    });
  };

/** The file that a service would answer with. */
export const storedFile = (cid: string, size: number) => ({
  fileId: '3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b11',
  filename: null,
  mode: 'plain',
  size,
  contentType: 'application/octet-stream',
  cid,
  createdAt: '2026-01-02T03:04:05.000Z',
  pins: [{ service: 'local', status: 'pinned' }],
});

/** A share as a service lists it. */
export const someShare = {
  id: '3yQn7hXc2LrV0aTfK9dWbe',
  state: 'active',
  opens: 100,
  opensLeft: 99,
  password: false,
  createdAt: '2026-01-01T00:00:00.000Z',
  expiresAt: '2026-01-31T23:30:00.000Z',
  files: ['3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b11'],
  createdBy: '9f2c0d6be1a74583',
};

/** Of the right shape, and of no account. */
export const someApiKey = `sp_${'0'.repeat(71)}`;
