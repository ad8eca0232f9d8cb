/**
 * Entry point of the page, also in other runtimes than Node: the suites of the SDK, and the SDK
 * itself for a test that drives it.
 */
import { exposeSuites } from '../../testkit/browsers/page-suites.ts';
import { cidOf, connect, fetchBlob, type Source } from '../index.ts';
import { containers, endings, passwordSealing } from './suites/containers.ts';
import { requestBodies } from './suites/request-bodies.ts';
import { sending } from './suites/sending.ts';

exposeSuites({ containers, endings, passwordSealing, requestBodies, sending });

/** Stores five bytes as every kind of source, and reads them back. Gives what went wrong. */
async function roundTrips(service: string, apiKey: string, largeMib = 17): Promise<string[]> {
  const connection = connect({ service, apiKey });
  const sources: Record<string, () => Source> = {
    text: () => 'hello',
    file: () => new File(['hello'], 'a.txt', { type: 'text/plain' }),
    response: () => new Response('hello'),
    stream: () => new Blob(['hello']).stream(),
  };
  const wrong: string[] = [];
  for (const [kind, source] of Object.entries(sources)) {
    const { fileId } = await connection.put(source(), { name: 'a.txt' });
    if ((await (await connection.get(fileId)).text()) !== 'hello') wrong.push(`${kind}, encrypted`);
    const part = await connection.get(fileId, { start: 1, end: 3 });
    if ((await part.text()) !== 'el') wrong.push(`${kind}, a range`);
    const { cid } = await connection.put(source(), { mode: 'plain' });
    if ((await (await fetchBlob(cid, { from: service })).text()) !== 'hello') wrong.push(`${kind}, by its blob ID`);
  }
  const large = new Blob([new Uint8Array(largeMib * 1024 * 1024).fill(7)]);
  const uploaded = await connection.upload(large);
  if (uploaded.cid !== (await cidOf(large))) wrong.push('in parts');
  const failure = await connection.get(crypto.randomUUID()).catch((error: unknown) => error);
  if ((failure as { code?: string }).code !== 'not_found') wrong.push('the code of an error');
  return wrong;
}

/**
 * Stores a stream that is too long to be read before it is sent. Gives whether all of it arrived.
 */
async function storesLongStream(service: string, apiKey: string): Promise<boolean> {
  const blob = new Blob([new Uint8Array(33 * 1024 * 1024).fill(7)]);
  const { cid } = await connect({ service, apiKey }).put(blob.stream(), { mode: 'plain' });
  return cid === (await cidOf(blob));
}

Object.assign(globalThis, { roundTrips, storesLongStream });
