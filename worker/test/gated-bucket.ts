/**
 * A bucket of R2 in the Worker whose every request asks a peer outside (`bucket-gate.ts`): what
 * that one refuses is not done, or done and not told; what it answers 205 to is done twice.
 */

/** The number that R2 says a refusal by: https://developers.cloudflare.com/r2/api/error-codes/ */
const codes: Record<number, string> = {
  403: 'Access Denied. (10003)',
  410: 'The specified bucket does not exist. (10006)',
  429: 'Reduce your concurrent request rate for the same object. (10058)',
  503: 'Please try again. (10043)',
  507: 'There is no room. (10045)',
};

/** The bucket behind a gate. */
function gatedBucket(bucket: R2Bucket, gate: string): R2Bucket {
  async function ask(
    path: 'before' | 'after' | 'broken',
    about: Record<string, string>,
    body?: ArrayBuffer | Uint8Array<ArrayBuffer>,
  ): Promise<Response> {
    const url = `${gate}/${path}?${new URLSearchParams(about).toString()}`;
    let response: Response;
    try {
      response = await fetch(url, { method: 'POST', ...(body && { body }) });
    } catch (cause) {
      throw new Error(`${about['method']}: We encountered an internal error. Please try again. (10001)`, { cause });
    }
    if (response.ok || response.status === 404) return response;
    const said = codes[response.status] ?? 'We encountered an internal error. Please try again. (10001)';
    throw new Error(`${about['method']}: ${said}`);
  }

  /**
   * Makes a request between two questions.
   * @param o.sent what it stores @param o.given what it gives, which the peer may change
   * @returns null where the peer says that there is nothing
   */
  async function passed<T>(
    about: { method: string; key: string },
    o: { sent?: Uint8Array<ArrayBuffer> },
    work: () => Promise<{ value: T; given?: ArrayBuffer }>,
  ): Promise<{ value: T; given: Response } | null> {
    const named = { ...about, turn: crypto.randomUUID() };
    const before = await ask('before', named, o.sent);
    if (before.status === 404) return null;
    if (before.status === 205) await work();
    const { value, given } = await work();
    return { value, given: await ask('after', named, given) };
  }

  const gated = {
    // What the adapter recognizes a bucket by.
    createMultipartUpload: () => Promise.reject(new Error('nothing here sends parts')),
    async put(key: string, body: ArrayBuffer | Uint8Array<ArrayBuffer> | ReadableStream, options?: R2PutOptions) {
      const about = { method: 'PUT', key };
      const sent = body instanceof ReadableStream ? await wholeOf(body, about) : new Uint8Array(body);
      return (await passed(about, { sent }, async () => ({ value: await bucket.put(key, sent, options) })))?.value;
    },
    async get(key: string, options?: R2GetOptions) {
      const answer = await passed({ method: 'GET', key }, {}, async () => {
        const value = await bucket.get(key, options);
        return { value, ...(value !== null && 'body' in value && { given: await value.arrayBuffer() }) };
      });
      if (answer === null || answer.value === null) return null;
      return { key, size: answer.value.size, body: answer.given.body ?? new Response('').body };
    },
    head: async (key: string) =>
      (await passed({ method: 'HEAD', key }, {}, async () => ({ value: await bucket.head(key) })))?.value ?? null,
    async list(options: R2ListOptions) {
      const about = { method: 'LIST', key: options.prefix ?? '' };
      const answer = await passed(about, {}, async () => {
        const value = await bucket.list(options);
        const given = value.objects.map(({ key, size, uploaded }) => ({ key, size, uploaded }));
        return { value, given: new TextEncoder().encode(JSON.stringify(given)).buffer as ArrayBuffer };
      });
      if (answer === null) return { objects: [], truncated: false };
      const objects = await answer.given.json<{ key: string; size: number; uploaded: string }[]>();
      const { truncated } = answer.value;
      return { objects: objects.map((each) => ({ ...each, uploaded: new Date(each.uploaded) })), truncated };
    },
    async delete(keys: string | string[]) {
      const [key = ''] = [keys].flat();
      await passed({ method: 'DELETE', key }, {}, async () => ({ value: await bucket.delete(keys) }));
    },
  };

  /** All bytes of a stream; of one that breaks, the peer is told what came. */
  async function wholeOf(stream: ReadableStream, about: Record<string, string>): Promise<Uint8Array<ArrayBuffer>> {
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    const whole = (): Promise<ArrayBuffer> => new Response(new Blob(chunks)).arrayBuffer();
    try {
      for await (const chunk of stream as AsyncIterable<Uint8Array<ArrayBuffer>>) chunks.push(chunk.slice());
    } catch (error) {
      await ask('broken', about, await whole());
      throw error;
    }
    return new Uint8Array(await whole());
  }

  return gated as unknown as R2Bucket;
}

type Gated = { BUCKET?: R2Bucket; BUCKET_GATE?: string };
const known = new WeakMap<object, object>();

/** The bindings, with the bucket behind the gate that they name. */
export function withGate<E extends object>(env: E): E {
  const { BUCKET, BUCKET_GATE } = env as Gated;
  if (BUCKET === undefined || BUCKET_GATE === undefined) return env;
  let gated = known.get(env) as E | undefined;
  if (gated === undefined) {
    gated = { ...env, BUCKET: gatedBucket(BUCKET, BUCKET_GATE) };
    known.set(env, gated);
  }
  return gated;
}
