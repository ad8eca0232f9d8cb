/** Kubo's RPC over HTTP: its requests, responses and errors (reference: Kubo's go-ipfs-cmds). */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isSealpinError } from '../../../shared/errors.ts';
import { parseCid } from '../../../shared/ipfs/index.ts';
import { isDamage } from '../../errno.ts';
import { MultipartError } from './multipart.ts';
import { isFull } from './reserve.ts';

/** A failed command: 500, or 400 when the client is at fault. */
export class RpcError extends Error {
  override readonly name = 'RpcError';
  readonly status: 400 | 500;
  constructor(message: string, o: { client?: boolean; cause?: unknown } = {}) {
    super(message, { cause: o.cause });
    this.status = o.client ? 400 : 500;
  }
}

/** The request of one command, and the response to it. */
export type RpcCall = { request: IncomingMessage; response: ServerResponse; query: URLSearchParams };

/** A boolean option, as Kubo's clients write it; `otherwise` when it is absent. */
export function isSet(query: URLSearchParams, name: string, otherwise = false): boolean {
  const text = query.get(name);
  if (text === null) return otherwise;
  if (text !== 'true' && text !== 'false' && text !== '')
    throw new RpcError(`invalid value for option ${JSON.stringify(name)}: ${text}`, { client: true });
  return text !== 'false';
}

/** An option that is a number of bytes; undefined when it is absent. */
export function bytesOption(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value))
    throw new RpcError(`invalid value for option ${JSON.stringify(name)}: ${text}`, { client: true });
  return value;
}

/** The CIDs in `arg`, each bare or as /ipfs/<cid>. */
export function cids(query: URLSearchParams): string[] {
  return query.getAll('arg').map((arg) => {
    try {
      return parseCid(arg.replace(/^\/ipfs\//, '')).text;
    } catch (cause) {
      throw new RpcError(
        `invalid path ${JSON.stringify(arg)}: this node holds CIDv1 in base32, sha2-256, raw or dag-pb`,
        { cause },
      );
    }
  });
}

/** The CID in `arg`, which must be the only one. */
export function cid(query: URLSearchParams): string {
  const [first, ...others] = cids(query);
  if (first === undefined || others.length > 0)
    throw new RpcError('exactly one argument "ipfs-path" is required', { client: true });
  return first;
}

/** Sends one JSON record. */
export function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(`${JSON.stringify(value)}\n`);
}

/** Sends JSON records, one per line. */
export function lines(response: ServerResponse, values: readonly unknown[]): void {
  response.writeHead(200, { 'content-type': 'application/json', 'x-chunked-output': '1' });
  response.end(values.map((value) => `${JSON.stringify(value)}\n`).join(''));
}

/** Sends a piece of a body; resolves once its memory is free. @throws when the client has left */
export async function sendBytes(response: ServerResponse, bytes: Uint8Array): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // Of a response that was closed before, nothing calls back.
  const onClose = (): void => reject(new Error('the client has closed the connection'));
  response.once('close', onClose);
  try {
    if (response.destroyed) onClose();
    else response.write(bytes, (error) => (error ? reject(error) : resolve()));
    await promise;
  } finally {
    response.off('close', onClose);
  }
}

/** Sends text, as Kubo does when no command runs. */
export function respondWithText(response: ServerResponse, status: number, message: string): void {
  response
    .writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' })
    .end(`${message}\n`);
}

/**
 * Sends the error of a command, or closes a response that has begun, so that nothing looks
 * complete.
 */
export function fail(response: ServerResponse, thrown: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const status = thrown instanceof MultipartError ? 400 : thrown instanceof RpcError ? thrown.status : 500;
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${JSON.stringify({ Message: failureText(thrown), Code: status === 400 ? 1 : 0, Type: 'error' })}\n`);
}

/** The message of a command that failed. */
export function failureText(thrown: unknown): string {
  if (isFull(thrown)) return 'no space left on device';
  if (isDamage(thrown)) return 'the index node.db is damaged: stop the service, and the next start says what to do';
  if (isSealpinError(thrown) || thrown instanceof Error) return thrown.message;
  return String(thrown);
}
