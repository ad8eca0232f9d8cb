/** Signed requests to an S3 API, without the adapter that is tested. */
import { createHash, createHmac } from 'node:crypto';

/** A bucket, and a key that may do everything in it. */
export type Bucket = {
  /** The API, without the bucket, and without a slash at its end. */
  readonly url: string;
  readonly bucket: string;
  readonly region: string;
  readonly keyId: string;
  readonly secret: string;
};

export type S3Request = {
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer> | string;
  /** The time that the request claims to be made at. */
  readonly at?: Date;
};

/** Sends one request for an object, or for the bucket itself if `key` is empty. */
export function sendS3(bucket: Bucket, method: string, key: string, o: S3Request = {}): Promise<Response> {
  const path = ['', bucket.bucket, ...(key === '' ? [] : key.split('/'))].map(encode).join('/');
  const query = Object.entries(o.query ?? {})
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted()
    .join('&');
  const now = (o.at ?? new Date()).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const headers: Record<string, string> = {
    ...o.headers,
    host: new URL(bucket.url).host,
    'x-amz-content-sha256': 'UNSIGNED-PAYLOAD',
    'x-amz-date': now,
  };
  const names = Object.keys(headers).toSorted();
  const lines = names.map((name) => `${name}:${headers[name]}\n`).join('');
  const request = [method, path, query, lines, names.join(';'), 'UNSIGNED-PAYLOAD'].join('\n');
  const scope = `${now.slice(0, 8)}/${bucket.region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', now, scope, createHash('sha256').update(request).digest('hex')].join('\n');
  const key4 = scope.split('/').reduce<Buffer | string>((key, part) => hmac(key, part), `AWS4${bucket.secret}`);
  const signature = hmac(key4, text).toString('hex');
  const signer = `Credential=${bucket.keyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
  const { host: _, ...sent } = headers;
  return fetch(`${bucket.url}${path}${query === '' ? '' : `?${query}`}`, {
    method,
    headers: { ...sent, authorization: `AWS4-HMAC-SHA256 ${signer}` },
    ...(o.body === undefined ? {} : { body: o.body }),
  });
}

/** Lists the keys below a prefix, in the store's order, so many a request. */
export async function keysOf(bucket: Bucket, prefix = '', many = 1000): Promise<string[]> {
  const keys: string[] = [];
  for (let token = ''; ;) {
    const query = {
      'list-type': '2',
      prefix,
      'max-keys': `${many}`,
      ...(token === '' ? {} : { 'continuation-token': token }),
    };
    const text = await done(await sendS3(bucket, 'GET', '', { query }));
    keys.push(...elements(text, 'Key'));
    [token = ''] = elements(text, 'NextContinuationToken');
    if (token === '') return keys;
  }
}

/** Lists versions and delete markers below a prefix, at most 1,000 of them. */
export async function versionsOf(bucket: Bucket, prefix = ''): Promise<{ key: string; version: string }[]> {
  const text = await done(await sendS3(bucket, 'GET', '', { query: { versions: '', prefix } }));
  const versions = elements(text, 'VersionId');
  return elements(text, 'Key').map((key, index) => ({ key, version: versions[index] ?? '' }));
}

/** The body of a response that must be a success. */
export async function done(response: Response): Promise<string> {
  const text = await response.text();
  if (!response.ok) throw new Error(`the store answered ${response.status}: ${text}`);
  return text;
}

const elements = (xml: string, name: string): string[] =>
  Array.from(xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g')), ([, text = '']) => text);

const hmac = (key: Buffer | string, text: string): Buffer => createHmac('sha256', key).update(text).digest();

const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
