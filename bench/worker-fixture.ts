/** For benches of the service: a client, full accounts, a backend that stores nothing. */
import { once } from 'node:events';
import { Agent, request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { secondsOf, summarize } from './figure.ts';
import { urlIn } from './node-fixture.ts';
import { startProgram } from '../testkit/programs/programs.ts';
import type { Service } from '../testkit/service.ts';

const agent = new Agent({ keepAlive: true });

/** A body that is made while it is sent. */
export type MadeBody = { length: number; pieces: Iterable<Uint8Array> };

type SentRequest = [
  url: string,
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: Buffer | MadeBody,
];

/** Sends one request; resolves with the text of the response. @throws as `sendFor` */
export async function sendAndRead(...request: SentRequest): Promise<string> {
  return (await sendFor(...request)).text;
}

/** Sends one request; resolves with the number of bytes in the response. @throws as `sendFor` */
export async function sendAndCount(...request: SentRequest): Promise<number> {
  let bytes = 0;
  for await (const chunk of await responseTo(...request)) bytes += chunk.length;
  return bytes;
}

/** Sends one request; resolves with the response. @throws when its status is 300 or more */
export async function sendFor(...request: SentRequest): Promise<{ headers: IncomingHttpHeaders; text: string }> {
  const response = await responseTo(...request);
  return { headers: response.headers, text: await textOf(response) };
}

async function responseTo(...[url, method, path, headers, body]: SentRequest): Promise<Response> {
  const { length, pieces } = Buffer.isBuffer(body) ? { length: body.length, pieces: [body] } : (body ?? noBody);
  const about = body === undefined ? {} : { 'Content-Length': length };
  const sent = request(new URL(path, url), { method, agent, headers: { ...headers, ...about } });
  const answered = once(sent, 'response') as Promise<[Response]>;
  for (const piece of pieces) if (!sent.write(piece)) await Promise.race([once(sent, 'drain'), answered]);
  sent.end();
  const [response] = await answered;
  if ((response.statusCode ?? 500) < 300) return response;
  throw new Error(`${method} ${path}: ${response.statusCode} ${await textOf(response)}`);
}

type Response = IncomingMessage & AsyncIterable<Buffer>;
const noBody: MadeBody = { length: 0, pieces: [] };

const textOf = async (response: Response): Promise<string> => Buffer.concat(await Array.fromAsync(response)).toString();

/** The module for `startService` in which accounts can be filled. */
export const filled = 'bench/workers/filled-account.ts';

const oneCid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
/** Files of one transaction: more would block the object for longer than workerd allows. */
const filledAtOnce = 50_000;

/**
 * Makes an account and writes so many files straight into its object; the service must run
 * `filled`.
 * @returns tasks that measure the time of a page of its list and of one GET, in ms
 */
export async function filledAccount(
  { miniflare, url, account }: Service,
  count: number,
): Promise<{ page(): Promise<number>; one(): Promise<number> }> {
  const made = await account();
  const objects = await miniflare.getDurableObjectNamespace('ACCOUNT');
  const object = objects.get(objects.idFromName(made.account.id)) as unknown as {
    fill(before: number, count: number, cid: string): Promise<string>;
  };
  let fileId = '';
  for (let before = 0; before < count; before += filledAtOnce)
    fileId = await object.fill(before, Math.min(filledAtOnce, count - before), oneCid);
  const get = (path: string) => () =>
    latency(() => sendAndRead(url, 'GET', path, { Authorization: `Bearer ${made.apiKey}` }));
  return { page: get('/v1/storage?limit=10'), one: get(`/v1/storage/${fileId}?data=false`) };
}

/** The median time of a request, in ms. */
async function latency(ask: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let index = 0; index < 40; index += 1) times.push(1000 * (await secondsOf(ask)));
  return summarize(times).median;
}

/** Starts `sink.ts` in a process of its own. @param block what each read gets */
export async function startSink(block: Buffer): Promise<{ url: string; stop(): Promise<void> }> {
  const args = [join(import.meta.dirname, 'sink.ts'), block.toString('base64')];
  const { ready, stop } = await startProgram(process.execPath, args, { ready: urlIn });
  return { url: ready, stop: () => stop() };
}
