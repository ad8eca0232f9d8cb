/** A bucket behind an S3 API, addressed by its path. */
import { SealpinError } from '../../../shared/errors.ts';
import type { Bucket, ListedObject } from '../objects/bucket.ts';
import { inParallel } from '../objects/store-requests.ts';
import { ruleCheck } from './s3-rules.ts';
import { elementsIn, s3Requests, textIn, type S3Options, type S3Requests } from './s3-requests.ts';

const pageKeys = 500;

export function s3Bucket(o: S3Options): Bucket {
  const { id } = o;
  const { once, again } = s3Requests(o);
  const { page, left } = listings(id, again);

  return {
    warning: ruleCheck(o.bucket, again),

    place: `s3 ${o.url.replace(/\/+$/, '')}/${o.bucket}`,

    async put(key, body, onlyNew, signal) {
      const headers = { 'content-type': 'application/octet-stream', ...(onlyNew && { 'if-none-match': '*' }) };
      const send = body instanceof Uint8Array ? again : once;
      // Without the condition, 412 is an answer that says nothing of what is stored.
      const expected = onlyNew ? [409, 412] : [409];
      const { response } = await send({ method: 'PUT', key, headers, body, expected }, signal);
      if (response.status === 409)
        throw new SealpinError('pinning_unavailable', `${id} is storing the same object`, { retryAfterSeconds: 1 });
      // Every store names what it has stored; a proxy that only says 200 does not.
      if (response.ok && response.headers.get('ETag') === null)
        throw new SealpinError('pinning_failed', `${id} did not say that it has stored an object`);
      return response.ok;
    },

    get: reading(id, once),

    async size(key, signal) {
      const { response } = await again({ method: 'HEAD', key, expected: [404] }, signal);
      if (response.ok) return Number(response.headers.get('Content-Length'));
      // The answer to HEAD does not say what is missing: it may be the bucket.
      const { xml } = await page({ 'list-type': '2', prefix: key, 'max-keys': '1' }, signal);
      return objectsIn(xml).find((object) => object.key === key)?.bytes;
    },

    async list(prefix, after, signal) {
      const query = { 'list-type': '2', prefix, ...(after !== undefined && { 'start-after': after }) };
      const { xml, now } = await page(query, signal);
      return { objects: objectsIn(xml), isLast: textIn(xml, 'IsTruncated') !== 'true', now };
    },

    async removeAll(prefix, signal) {
      const found = await left(prefix, signal);
      await inParallel([...Map.groupBy(found, ({ key }) => key).values()], async (ofKey) => {
        for (const { key, version } of ofKey) {
          const query = version === undefined ? {} : { versionId: version };
          await again({ method: 'DELETE', key, query, expected: [404] }, signal);
        }
      });
      return found.length === 0 || (found.length < pageKeys && (await left(prefix, signal)).length === 0);
    },
  };
}

/** Makes the function that reads objects. */
function reading(id: string, once: S3Requests['once']): Bucket['get'] {
  return async (key, range, signal) => {
    if (range?.length === 0) return new Response(new Uint8Array()).body as ReadableStream<Uint8Array>;
    const bytes = range && { range: `bytes=${range.offset}-${range.offset + range.length - 1}` };
    const { response } = await once({ method: 'GET', key, expected: [404], ...(bytes && { headers: bytes }) }, signal);
    if (response.status === 404) return undefined;
    const length = Number(response.headers.get('Content-Length') ?? Number.NaN);
    if (range !== undefined && length !== range.length) {
      await response.body?.cancel();
      throw new SealpinError('pinning_failed', `${id} gave ${length} bytes of ${range.length}`);
    }
    return response.body as ReadableStream<Uint8Array>;
  };
}

/** Makes the functions that list objects. */
function listings(id: string, again: S3Requests['again']) {
  async function page(query: Record<string, string>, signal: AbortSignal): Promise<{ xml: string; now: number }> {
    const { response, xml } = await again({ method: 'GET', query: { ...query, 'encoding-type': 'url' } }, signal);
    if (!xml.includes('<IsTruncated>')) throw new SealpinError('pinning_failed', `${id}: its response is no listing`);
    return { xml, now: Date.parse(response.headers.get('Date') ?? '') };
  }

  /**
   * Lists what a prefix still has, with all versions and delete markers. A bucket is asked each
   * time, as it may begin to keep versions; only of a store that knows none the objects are listed.
   */
  async function left(prefix: string, signal: AbortSignal): Promise<{ key: string; version?: string }[]> {
    const query = { prefix, 'max-keys': String(pageKeys) };
    const versions = { ...query, versions: '', 'encoding-type': 'url' };
    // What these stores answer that have no versions.
    const expected = [405, 501];
    const { xml } = await again({ method: 'GET', query: versions, expected }, signal);
    if (!xml.includes('<ListVersionsResult'))
      return objectsIn((await page({ 'list-type': '2', ...query }, signal)).xml);
    return ['Version', 'DeleteMarker'].flatMap((tag) =>
      elementsIn(xml, tag).map((each) => ({ key: keyIn(each), version: textIn(each, 'VersionId') ?? 'null' })),
    );
  }

  return { page, left };
}

function keyIn(xml: string): string {
  return decodeURIComponent((textIn(xml, 'Key') ?? '').replaceAll('+', ' '));
}

function objectsIn(xml: string): ListedObject[] {
  return elementsIn(xml, 'Contents').map((each) => ({
    key: keyIn(each),
    bytes: Number(textIn(each, 'Size')),
    storedAt: Date.parse(textIn(each, 'LastModified') ?? ''),
  }));
}
