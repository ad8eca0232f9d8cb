/**
 * Requests as a test writes them: no header is added but Host, Connection and the length, and a
 * body may stay open.
 */
import { request, type ClientRequest, type IncomingMessage } from 'node:http';

export type Answered = { status: number; headers: Headers; body: string };

/** A request whose body the test writes. */
export type Open = { request: ClientRequest; answered: Promise<Answered> };

/**
 * Opens a request on a connection of its own. `answered` rejects when the connection breaks before
 * the response is whole.
 */
export function open(method: string, url: string, headers: Record<string, string>): Open {
  const sent = request(url, { method, headers, agent: false });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve).once('error', reject);
    sent.once('close', () => reject(new Error('the connection ended without a response')));
  }).then(async (response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
    // What breaks after the response is whole, as the rest of a body that nobody reads, is no
    // matter of this request.
    sent.on('error', () => undefined);
    const headers = new Headers(Object.entries(response.headers).map(([name, value]) => [name, String(value)]));
    return { status: response.statusCode ?? 0, headers, body: Buffer.concat(chunks).toString() };
  });
  answered.catch(() => undefined); // a test that waits for it sees it
  return { request: sent, answered };
}

/** Sends a request with a body of a known length, and resolves with the response. */
export async function send(
  method: string,
  url: string,
  headers: Record<string, string> = {},
  body?: string | Uint8Array,
): Promise<Answered> {
  const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) };
  const { request: sent, answered } = open(method, url, { ...headers, ...length });
  sent.end(body);
  return await answered;
}
