/** A bucket behind an S3 API, which answers late, with 503, or with an error in a 200. */
import { sentWithin, type Behaviour } from './behaviour.ts';
import { SimulatedBucket } from './simulated-bucket.ts';

/** A version of an object; without bytes it says that there is none from then on. */
type Version = { id: string; bytes: Uint8Array | undefined; at: number };

type ReceivedRequest = {
  method: string;
  key: string;
  query: URLSearchParams;
  headers: Headers;
  body: Uint8Array;
  signal: AbortSignal | null | undefined;
};

/** Keys of one page of a listing. */
const pageKeys = 4;

/** Ways of a store that asks for fewer requests. */
const slowly = ['503', '429', '500', '200 before', '200 after'] as const;

export class SimulatedS3 extends SimulatedBucket {
  /** All versions of each key, where the bucket keeps them. */
  readonly #versions: Map<string, Version[]> | undefined;
  readonly #knowsVersions: boolean;
  #count = 0;

  constructor(behaviour: Behaviour, sent: (key: string) => void) {
    super(behaviour, sent);
    const kind = behaviour.random.pick(['versions', 'no versions', 'unknown']);
    this.#versions = kind === 'versions' ? new Map() : undefined;
    this.#knowsVersions = kind !== 'unknown';
  }

  override get keys(): string[] {
    return [...(this.#versions ?? this.objects).keys()];
  }

  /** The `fetch` of its address. */
  async fetch(url: URL, init: RequestInit): Promise<Response> {
    const { behaviour } = this;
    const { method = 'GET', signal } = init;
    signal?.throwIfAborted();
    const body = await sentWithin(init.body as ReadableStream<Uint8Array> | Uint8Array | null | undefined, signal);
    const key = decodeURIComponent(url.pathname.split('/').slice(2).join('/'));
    if (method === 'PUT') this.sent(key);
    const asked = { method, key, query: url.searchParams, headers: new Headers(init.headers), body, signal };
    const label = `${method} ${key || (url.searchParams.get('prefix') ?? url.search.slice(1, 12))}`;
    const response = await behaviour.request(label, () => this.#answer(asked), signal);
    response.headers.set('Date', new Date(behaviour.scheduler.now).toUTCString());
    return response;
  }

  override remove(key: string): void {
    super.remove(key);
    this.#versions?.delete(key);
  }

  #answer(asked: ReceivedRequest): Response {
    const { behaviour } = this;
    if (!/^AWS4-HMAC-SHA256 .*Signature=[0-9a-f]{64}$/.test(asked.headers.get('Authorization') ?? ''))
      return errorOf(403, 'AccessDenied');
    if (!behaviour.meets('busy')) return this.#do(asked);
    const way = behaviour.random.pick(slowly);
    if (way === '503') return errorOf(503, 'SlowDown');
    if (way === '429') return errorOf(429, 'TooManyRequests');
    if (way === '500' || asked.method === 'GET' || asked.method === 'HEAD') return errorOf(500, 'InternalError');
    if (way === '200 after') this.#do(asked);
    return errorOf(200, 'InternalError');
  }

  #do({ method, key, query, headers, body, signal }: ReceivedRequest): Response {
    const found = this.objects.get(key);
    if (method === 'PUT') return this.#put(key, body, headers.get('If-None-Match') === '*');
    if (method === 'DELETE') return this.#delete(key, query.get('versionId'));
    if (key === '') return this.#list(query);
    if (found === undefined) return errorOf(404, 'NoSuchKey', method);
    if (method === 'HEAD') return withLength(new Response(null), found.bytes.length);
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.get('Range') ?? '') ?? [];
    const part = from === undefined ? found.bytes : found.bytes.subarray(Number(from), Number(to) + 1);
    const stream = this.behaviour.stream(part, signal) as BodyInit;
    return withLength(new Response(stream, { status: from === undefined ? 200 : 206 }), part.length);
  }

  #put(key: string, bytes: Uint8Array, onlyNew: boolean): Response {
    if (this.behaviour.has('full')) return errorOf(403, 'QuotaExceeded');
    if (onlyNew && this.objects.has(key))
      return this.behaviour.random.chance(0.1)
        ? errorOf(409, 'ConditionalRequestConflict')
        : errorOf(412, 'PreconditionFailed');
    this.store(key, bytes);
    this.#keep(key, bytes);
    return new Response(null, { headers: { ETag: '"an object"' } });
  }

  #keep(key: string, bytes: Uint8Array | undefined): void {
    const versions = this.#versions?.get(key) ?? [];
    this.#versions?.set(key, [...versions, { id: `v${(this.#count += 1)}`, bytes, at: this.behaviour.scheduler.now }]);
  }

  /** Removes a version; without one, what the key has now: where versions are kept, they stay. */
  #delete(key: string, id: string | null): Response {
    const versions = this.#versions?.get(key);
    const isMarked = this.#versions !== undefined && (id === null || id === 'null');
    if (isMarked && versions !== undefined) this.#keep(key, undefined);
    const left = versions?.filter((each) => each.id !== id) ?? [];
    if (isMarked || left.length === 0) this.objects.delete(key);
    if (isMarked) return new Response(null, { status: 204 });
    this.#versions?.set(key, left);
    if (left.length === 0) this.#versions?.delete(key);
    const last = left.at(-1);
    if (last?.bytes === undefined) this.objects.delete(key);
    else this.objects.set(key, { bytes: last.bytes, at: last.at });
    return new Response(null, { status: 204 });
  }

  #list(query: URLSearchParams): Response {
    if (query.has('lifecycle')) return errorOf(404, 'NoSuchLifecycleConfiguration');
    const prefix = query.get('prefix') ?? '';
    if (query.has('versions')) return this.#knowsVersions ? this.#listVersions(prefix) : errorOf(501, 'NotImplemented');
    const after = query.get('start-after') ?? '';
    const all = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).toSorted();
    const page = all.slice(0, Math.min(pageKeys, Number(query.get('max-keys') ?? pageKeys)));
    const contents = page.map((key) => {
      const { bytes, at } = this.objects.get(key) ?? { bytes: new Uint8Array(), at: 0 };
      return `<Contents>${nameIn(key)}<Size>${bytes.length}</Size>${timeIn(at)}</Contents>`;
    });
    const isCut = `<IsTruncated>${page.length < all.length}</IsTruncated>`;
    return new Response(`<ListBucketResult>${isCut}${contents.join('')}</ListBucketResult>`);
  }

  #listVersions(prefix: string): Response {
    const keys = this.keys.filter((key) => key.startsWith(prefix)).toSorted();
    const all = keys.flatMap((key) =>
      (this.#versions?.get(key) ?? [{ id: 'null', bytes: new Uint8Array(), at: 0 }]).map(({ id, bytes, at }) => {
        const tag = bytes === undefined ? 'DeleteMarker' : 'Version';
        return `<${tag}>${nameIn(key)}<VersionId>${id}</VersionId>${timeIn(at)}</${tag}>`;
      }),
    );
    return new Response(`<ListVersionsResult>${all.slice(0, pageKeys).join('')}</ListVersionsResult>`);
  }
}

function nameIn(key: string): string {
  return `<Key>${encodeURIComponent(key)}</Key>`;
}

function timeIn(at: number): string {
  return `<LastModified>${new Date(at).toISOString()}</LastModified>`;
}

function withLength(response: Response, bytes: number): Response {
  response.headers.set('Content-Length', String(bytes));
  return response;
}

function errorOf(status: number, code: string, method = 'GET'): Response {
  const body = `<Error><Code>${code}</Code><Message>simulated</Message></Error>`;
  return new Response(method === 'HEAD' ? null : body, { status });
}
