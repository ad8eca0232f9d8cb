/** A bucket behind an S3 API, addressed by its path. */
import * as v from 'valibot';
import { cancelQuietly } from '../../../shared/streams/cancel-quietly.ts';
import { SealpinError } from '../../../shared/errors.ts';
import type { Adapter } from '../contract.ts';
import type { Bucket, Listing } from '../objects/bucket.ts';
import { objectStore } from '../objects/object-store.ts';
import { inParallel } from '../objects/store-requests.ts';
import { addressField, prefixField, unknownField } from '../option-fields.ts';
import { ruleCheck } from './s3-rules.ts';
import { elementsIn, s3Requests, textIn, type S3Options, type S3Requests } from './s3-requests.ts';

const textField = (field: string, form: RegExp) =>
  v.pipe(v.string(`${field} must be a string`), v.regex(form, `${field} must be ${form.source}`));

const S3BackendOptions = v.strictObject(
  {
    url: addressField('url', 'keySecret and secretSecret'),
    bucket: textField('bucket', /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/),
    region: v.optional(textField('region', /^[a-zA-Z0-9-]{1,64}$/), 'us-east-1'),
    prefix: prefixField,
    keySecret: textField('keySecret', /^\w+$/),
    secretSecret: textField('secretSecret', /^\w+$/),
  },
  unknownField,
);

/** Configured by `{"url", "bucket", "region"?, "prefix"?, "keySecret", "secretSecret"}`. */
export const s3Adapter: Adapter<typeof S3BackendOptions> = {
  options: S3BackendOptions,
  triedAgainst: 'versitygw 1.8.0, and Ceph 16.2.15 while its disks and its gateway are killed; no hosted service',
  make({ keySecret, secretSecret, prefix, ...where }, { id, serviceId, secretOf, fetch, misconfigured }) {
    const secret = (name: string): string => {
      const value = secretOf(name);
      if (value === undefined || value === '') throw misconfigured(`the secret ${name} is not set`);
      return value;
    };
    const credentials = { accessKeyId: secret(keySecret), secretAccessKey: secret(secretSecret) };
    const bucket = s3Bucket({ id, fetch, ...where, ...credentials });
    return objectStore({ id, serviceId, prefix, bucket });
  },
};

const pageKeys = 500;

export function s3Bucket(o: S3Options): Bucket {
  const { id } = o;
  const { once, again } = s3Requests(o);
  const { page, left } = listings(id, again);

  return {
    warning: ruleCheck(o.bucket, again),

    place: `s3 ${o.url}/${o.bucket}`,

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

    get: objectReader(id, once),

    async size(key, signal) {
      const { response } = await again({ method: 'HEAD', key, expected: [404] }, signal);
      if (response.ok) return Number(response.headers.get('Content-Length'));
      // The answer to HEAD does not say what is missing: it may be the bucket.
      const { objects } = await page({ prefix: key, 'max-keys': '1' }, signal);
      return objects.find((object) => object.key === key)?.bytes;
    },

    list: (prefix, after, signal) => page({ prefix, ...(after !== undefined && { 'start-after': after }) }, signal),

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
function objectReader(id: string, once: S3Requests['once']): Bucket['get'] {
  return async (key, range, signal) => {
    if (range?.length === 0) return new Response(new Uint8Array()).body as ReadableStream<Uint8Array>;
    const bytes = range && { range: `bytes=${range.offset}-${range.offset + range.length - 1}` };
    const { response } = await once({ method: 'GET', key, expected: [404], ...(bytes && { headers: bytes }) }, signal);
    if (response.status === 404) return undefined;
    const length = Number(response.headers.get('Content-Length') ?? Number.NaN);
    if (range !== undefined && length !== range.length) {
      await cancelQuietly(response.body);
      throw new SealpinError('pinning_failed', `${id} gave ${length} bytes of ${range.length}`);
    }
    return response.body as ReadableStream<Uint8Array>;
  };
}

type ListingQuery = { prefix: string; [name: string]: string };

/** Makes the functions that list objects. */
function listings(id: string, again: S3Requests['again']) {
  async function page(query: ListingQuery, signal: AbortSignal): Promise<Listing> {
    const paged = { 'list-type': '2', ...query, 'encoding-type': 'url' };
    const { response, xml } = await again({ method: 'GET', query: paged }, signal);
    if (!xml.includes('<IsTruncated>')) throw new SealpinError('pinning_failed', `${id}: its response is no listing`);
    const objects = entriesIn(id, xml, 'Contents', query.prefix).map(({ key, entry }) => ({
      key,
      bytes: Number(textIn(entry, 'Size')),
      storedAt: Date.parse(textIn(entry, 'LastModified') ?? ''),
    }));
    const now = Date.parse(response.headers.get('Date') ?? '');
    return { objects, isLast: textIn(xml, 'IsTruncated') !== 'true', now };
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
    if (!xml.includes('<ListVersionsResult')) return (await page(query, signal)).objects;
    return ['Version', 'DeleteMarker'].flatMap((tag) =>
      entriesIn(id, xml, tag, prefix).map(({ key, entry }) => ({
        key,
        version: textIn(entry, 'VersionId') ?? 'null',
      })),
    );
  }

  return { page, left };
}

/**
 * Finds the entries of a listing. It is believed only as a whole, with keys below the prefix that
 * was asked for: what it names may be removed, and what it lacks counts as gone.
 * @throws pinning_unavailable
 */
function entriesIn(id: string, xml: string, tag: string, prefix: string): { key: string; entry: string }[] {
  try {
    if (!/Result>\s*$/.test(xml)) throw new Error('it has no end');
    return elementsIn(xml, tag).map((entry) => {
      const key = decodeURIComponent((textIn(entry, 'Key') ?? '').replaceAll('+', ' '));
      if (!key.startsWith(prefix)) throw new Error('a key is not below the prefix');
      return { key, entry };
    });
  } catch (cause) {
    throw new SealpinError('pinning_unavailable', `${id} gave a damaged listing`, { cause });
  }
}
