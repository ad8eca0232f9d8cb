/**
 * A store that keeps no data, and has zeros in their place: for files that no disk needs to hold.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import type { Bucket } from '../../../testkit/object-stores/s3-requests.ts';

const zeros = Buffer.alloc(1_048_576);

function* zerosOf(length: number): Generator<Buffer> {
  for (let left = length; left > 0; left -= zeros.length) yield zeros.subarray(0, Math.min(left, zeros.length));
}

/** Starts one, with an empty bucket. It lists nothing, and removes nothing. */
export async function startZeroStore(): Promise<Bucket & { close(): Promise<void> }> {
  const kept = new Map<string, Buffer>();
  const lengths = new Map<string, number>();
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
    const xml = (status: number, body: string) =>
      response.writeHead(status, { 'content-type': 'application/xml' }).end(body);
    if (searchParams.has('list-type'))
      return xml(200, '<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>');
    if (request.method === 'PUT') {
      if (kept.has(pathname) && request.headers['if-none-match'] === '*') return xml(412, '');
      if (!pathname.includes('/data/')) kept.set(pathname, await buffer(request));
      else {
        lengths.set(pathname, Number(request.headers['content-length']));
        for await (const _chunk of request);
      }
      return response.writeHead(200, { etag: '"x"' }).end();
    }
    const object = kept.get(pathname);
    const length = lengths.get(pathname) ?? object?.length;
    if (request.method === 'HEAD') return response.writeHead(length === undefined ? 404 : 200).end();
    if (length === undefined) return xml(404, '<Error><Code>NoSuchKey</Code></Error>');
    if (object !== undefined) return response.writeHead(200, { 'content-length': length }).end(object);
    const [, from = 0, to = length - 1] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')?.map(Number) ?? [];
    response.writeHead(request.headers.range === undefined ? 200 : 206, { 'content-length': to - from + 1 });
    return Readable.from(zerosOf(to - from + 1)).pipe(response);
  };
  const server = await startLoopbackServer((request, response) => void answer(request, response));
  return {
    url: server.url,
    bucket: 'zeros',
    region: 'any',
    keyId: 'key',
    secret: 'secret',
    close: () => server.close(),
  };
}
