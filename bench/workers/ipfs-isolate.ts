/** Measurements in a Worker: the CID of a body, by us and the library, and digests alone. */
import { importByteStream } from 'ipfs-unixfs-importer';
import { cidBuilder, leafBytes } from '../../shared/ipfs/index.ts';
import { byteReader } from '../../shared/streams/reader.ts';

type RequestStream = ReadableStream<Uint8Array>;
type BodyReader = { readAtLeast(bytes: number, view: Uint8Array): Promise<{ done: boolean; value?: Uint8Array }> };

const nowhere = { put: async (cid: unknown) => cid };

const works: Record<string, (body: RequestStream) => Promise<unknown>> = {
  async sealpin(body) {
    const builder = cidBuilder();
    const reader = byteReader(body);
    for (let bytes = await reader.read(leafBytes); bytes.length > 0; bytes = await reader.read(leafBytes))
      await builder.write(bytes);
    return await builder.finish();
  },
  async library(body) {
    return await importByteStream(body, nowhere as never, { profile: 'unixfs-v1-2025' });
  },
  async digests(body) {
    const reader = body.getReader({ mode: 'byob' }) as unknown as BodyReader;
    for (let buffer = new Uint8Array(leafBytes); ;) {
      const { done, value } = await reader.readAtLeast(leafBytes, buffer);
      if (value) await crypto.subtle.digest('SHA-256', value);
      if (done || !value) return undefined;
      buffer = new Uint8Array(value.buffer as ArrayBuffer);
    }
  },
};

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export default {
  async fetch(request: Request): Promise<Response> {
    const work = works[new URL(request.url).pathname.slice(1)];
    if (work === undefined || request.body === null) return new Response('unknown kind, or no body', { status: 400 });
    await work(request.body);
    return new Response('done');
  },
};
