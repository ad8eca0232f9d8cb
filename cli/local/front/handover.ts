/**
 * Bytes that go between a client and the embedded node in this process, past the runtime.
 *
 * Of an upload the Worker gets the request without its body, and either refuses it, or asks for
 * what stands in the body's place: a report of what the node has received, which it then pins and
 * records like any other upload. To a request for a file it gives the finished response, or its
 * headers with the place of the bytes in one of them.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { carType, leafBytes } from '../../../shared/ipfs/index.ts';
import { chunkType } from '../../../shared/tus-protocol.ts';
import { arrivals } from '../node/arrivals.ts';
import type { RunningNode } from '../node/server.ts';
import { endToEnd } from './forwarded-headers.ts';
import { failureText, sendBytes } from '../node/rpc.ts';

/** The node, as it takes and gives bytes. */
export type Direct = Pick<RunningNode, 'receive' | 'receiveParts' | 'carOf' | 'bytesOf'> & {
  /** Responses whose bytes the node gives at the moment. */
  readonly giving: Set<ServerResponse>;
  /** Places of files, for commands of the same user: only a service on loopback tells them. */
  readonly placesOf?: RunningNode['placesOf'] | undefined;
  /** Gives the header by which the runtime knows that a request is handed over, once it runs. */
  header(): Promise<readonly [name: string, value: string]>;
};

const uploadTo = 'POST /v1/storage/plain';
const continuing = /^PATCH \/v1\/uploads\/[^/? ]+/;

const givenHead = /^GET \/(?:ipfs\/|v1\/storage\/[^/ ]+\/content[? ])/;

/** Tells whether a request may be handed over, by its head and the length of its body. */
export function isHandedHead(head: string, bytes: number): boolean {
  if (givenHead.test(head)) return true;
  const isUpload = head.startsWith(uploadTo) || (continuing.test(head) && !isUnwanted(head));
  return isUpload && bytes >= leastBytes && Number.isFinite(bytes);
}

/** The header that names the place of a response's bytes, as JSON. */
const placeHeader = 'sealpin-place';

/** The header by which a command asks for the places on the disk, to read them itself. */
const placesHeader = 'sealpin-places';

/** The header by which a command says of how many bytes it writes where the node keeps them. */
const inPlaceHeader = 'sealpin-in-place';

/** A smaller body costs less where it is than the way around. */
const leastBytes = leafBytes;

/** The header of the response to a request whose body the Worker must read itself. */
const bodyHeader = 'sealpin-body';

/** What continues uploads of which the Worker reads all bytes itself, and how many are known. */
const unwanted = new Set<string>();
const maxUnwanted = 1000;

/** @param head of a request, or its method and path */
function isUnwanted(head: string): boolean {
  return unwanted.has(continuing.exec(head)?.[0] ?? '');
}

/** Bodies in a form that the Worker must read itself. */
const readByWorker = new Set(['application/json', carType]);
const describing = [
  'content-digest',
  'repr-digest',
  'want-content-digest',
  'want-repr-digest',
  'content-encoding',
  'content-range',
  'transfer-encoding',
  'upgrade',
];

/** Interval at which the Worker hears that bytes arrive, in ms: far less than a client may rest. */
const beatMs = 250;

/** Tells whether a request is for a file, or an upload that the node can take. */
export function isHandedOver({ method, url = '', headers }: IncomingMessage): boolean {
  if (method === 'GET') return /^\/(?:ipfs|v1\/storage)\//.test(url) && headers['transfer-encoding'] === undefined;
  const essence = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  const target = `${method} ${url.split('?')[0]}`;
  const isUpload = target === uploadTo && !readByWorker.has(essence);
  // What ends amid a leaf is with the Worker.
  const isContinued = continuing.test(target) && essence === chunkType && leavesBefore(headers) !== undefined;
  return (
    (isUpload || (isContinued && !isUnwanted(target))) &&
    Number(headers['content-length']) >= leastBytes &&
    describing.every((name) => headers[name] === undefined)
  );
}

/** Leaves of an upload before the bytes of a request; undefined where the last one is not full. */
function leavesBefore({ 'upload-offset': offset }: IncomingMessage['headers']): number | undefined {
  const leaves = Number(offset) / leafBytes;
  return typeof offset === 'string' && /^[0-9]+$/.test(offset) && Number.isSafeInteger(leaves) ? leaves : undefined;
}

/** Bytes that a command writes where the node keeps them; undefined: they are in the body. */
function inPlaceBytes({ method, headers }: IncomingMessage, { placesOf }: Direct): number | undefined {
  const bytes = Number(headers[inPlaceHeader]);
  return method === 'POST' && placesOf !== undefined && Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
}

/** The headers of a request as the runtime gets them, when it is handed over. */
export async function handedHeaders(request: IncomingMessage, headers: readonly string[], direct: Direct) {
  const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === 'content-length');
  const own = await direct.header();
  if (at === -1) return [...headers, ...own];
  const bytes = inPlaceBytes(request, direct) ?? headers[at + 1] ?? '';
  const length = ['Sealpin-Length', String(bytes), 'Transfer-Encoding', 'chunked'];
  return [...headers.slice(0, at), ...headers.slice(at + 2), ...own, ...length];
}

/**
 * The body of a request, of which the runtime hears that it arrives.
 * @throws once the runtime has ended the request
 */
async function* counted(request: IncomingMessage, upstream: ClientRequest, isOver: () => boolean) {
  let beatAt = performance.now();
  for await (const piece of arrivals(request)) {
    if (isOver()) throw new Error('the runtime has ended the request');
    const now = performance.now();
    if (now - beatAt > beatMs) {
      beatAt = now;
      upstream.write(' ');
    }
    yield piece;
  }
}

/** Tells whether a request continues an upload: what has arrived counts where the client leaves. */
export function isContinued({ method }: IncomingMessage): boolean {
  return method === 'PATCH';
}

/**
 * Has the node take the body, and reports it.
 * @param begin asks for the body, or for what is written into this file of the node
 */
export async function handOver(
  request: IncomingMessage,
  upstream: ClientRequest,
  direct: Direct,
  begin: (file?: string) => void,
): Promise<void> {
  // The runtime has answered, or broken it off.
  const end = new AbortController();
  for (const event of ['response', 'close']) upstream.once(event, () => end.abort());
  const isOver = (): boolean => end.signal.aborted || upstream.destroyed;
  if (!isContinued(request)) return await handFileOver(request, upstream, direct, { begin, isOver });
  begin();
  await handPartsOver(request, upstream, direct, { over: end.signal, isOver });
}

/**
 * Reports a file. A client that leaves ends the request to the runtime, which then records nothing;
 * what the node has received is removed.
 */
async function handFileOver(
  request: IncomingMessage,
  upstream: ClientRequest,
  direct: Direct,
  { begin, isOver }: { begin: (file?: string) => void; isOver: () => boolean },
): Promise<void> {
  const bytesInPlace = inPlaceBytes(request, direct);
  if (bytesInPlace === undefined) begin();
  let report: object;
  try {
    const inPlace = bytesInPlace === undefined ? undefined : { bytes: bytesInPlace, tell: begin };
    const { cid, bytes, head } = await direct.receive(counted(request, upstream, isOver), inPlace);
    report = { cid, bytes, head: Buffer.from(head).toString('hex') };
  } catch (error) {
    // A request of which all has come is destroyed, too.
    if (request.socket.destroyed || isOver()) {
      upstream.destroy();
      return;
    }
    report = { failed: failureText(error) };
  }
  upstream.end(`${JSON.stringify(report)}\n`);
}

/** Reports each part of what continues an upload, also where the client leaves. */
async function handPartsOver(
  request: IncomingMessage,
  upstream: ClientRequest,
  direct: Direct,
  { over, isOver }: { over: AbortSignal; isOver: () => boolean },
): Promise<void> {
  const tell = (report: object): void => void (isOver() || upstream.write(`${JSON.stringify(report)}\n`));
  try {
    const isWhole = await direct.receiveParts(counted(request, upstream, isOver), {
      leaves: leavesBefore(request.headers) ?? 0,
      signal: over,
      onReceived: ({ part, tail, head }) =>
        tell({
          ...(part && { bytes: part.bytes, digests: Buffer.from(part.digests).toString('hex') }),
          tail: Buffer.from(tail).toString('base64'),
          head: Buffer.from(head).toString('hex'),
        }),
    });
    tell({ isWhole });
  } catch (error) {
    tell({ failed: failureText(error) });
  }
  upstream.end();
}

/**
 * Tells whether the Worker must read the body of a request itself, as those of all that continue
 * the same upload.
 */
export function wantsBody({ method, url = '' }: IncomingMessage, { headers }: IncomingMessage): boolean {
  if (headers[bodyHeader] === undefined) return false;
  if (unwanted.size >= maxUnwanted) unwanted.clear();
  unwanted.add(continuing.exec(`${method} ${url}`)?.[0] ?? '');
  return true;
}

/** Content of a response: a CAR of some bytes of a file, or these bytes. */
export type Place = Parameters<Direct['carOf']>[0] & { readonly form?: 'bytes' };

/** The place of the bytes of a response; undefined: they are in it. */
export function placeOf({ headers }: IncomingMessage): Place | undefined {
  const place = headers[placeHeader];
  return place === undefined ? undefined : (JSON.parse(String(place)) as Place);
}

/** Tells where the bytes lie on the disk, if asked for and allowed. @returns whether it did */
export function tellPlaces({ headers }: IncomingMessage, response: ServerResponse, place: Place, { placesOf }: Direct) {
  if (placesOf === undefined || headers[placesHeader] === undefined) return false;
  try {
    const places = JSON.stringify(placesOf(place));
    response.writeHead(200, { 'content-type': 'application/json' }).end(places);
  } catch {
    // A block is missing: the other way says so.
    response.writeHead(503).end();
  }
  return true;
}

/** Headers of a response whose bytes the node gives. */
export function givenHeaders(raw: readonly string[], { form, from, to = 0 }: Place): string[] {
  const kept = endToEnd(raw, [placeHeader, 'content-length']);
  return form === undefined ? kept : [...kept, 'Content-Length', String(to - from + 1)];
}

/**
 * Sends what the node gives.
 * @param begin sends the headers, once there is something to send
 * @returns the first byte that it could not give; undefined: all is sent, or the client has left
 */
export async function give(
  response: ServerResponse,
  place: Place,
  { bytesOf, carOf, giving }: Direct,
  begin: () => void,
): Promise<number | undefined> {
  const { cid, from, to = 0, form } = place;
  let at = from;
  giving.add(response);
  try {
    for await (const piece of form === undefined ? carOf(place) : bytesOf({ cid, from, to })) {
      if (!response.headersSent) begin();
      await sendBytes(response, piece);
      at += piece.length;
    }
    response.end();
    return undefined;
  } catch {
    return response.destroyed ? undefined : at;
  } finally {
    giving.delete(response);
  }
}
