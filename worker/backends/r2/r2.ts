/**
 * A bucket of R2 that is bound to the Worker:
 * https://developers.cloudflare.com/r2/api/workers/workers-api-reference/
 */
import * as v from 'valibot';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { within } from '../../../shared/streams/timing.ts';
import type { Adapter } from '../contract.ts';
import type { Bucket, ObjectBody } from '../objects/bucket.ts';
import { objectStore } from '../objects/object-store.ts';
import { repeated, slowDownSeconds } from '../objects/store-requests.ts';
import { prefixField, unknownField } from '../option-fields.ts';

const R2BackendOptions = v.strictObject(
  {
    binding: v.pipe(v.string('binding must be a string'), v.regex(/^\w+$/, 'binding must be the name of a binding')),
    prefix: prefixField,
  },
  unknownField,
);

/** R2, configured by `{"binding", "prefix"?}`. */
export const r2Adapter: Adapter<typeof R2BackendOptions> = {
  options: R2BackendOptions,
  triedAgainst: 'the simulation of R2 in Miniflare; no bucket of Cloudflare',
  make({ binding, prefix }, { id, serviceId, bindingOf, misconfigured }) {
    const bound = bindingOf(binding);
    if (!isBucket(bound)) throw misconfigured(`there is no R2 bucket with the binding ${binding}`);
    const bucket: Bucket = { ...r2Bucket(id, bound), place: `r2 ${binding}` };
    return objectStore({ id, serviceId, prefix, bucket });
  },
};

function isBucket(value: unknown): value is R2Bucket {
  return typeof value === 'object' && value !== null && 'createMultipartUpload' in value;
}

/** The longest that a stream may take, in ms: as long as an alarm may. */
const streamMs = 900_000;

const onlyIfNew = { onlyIf: { etagDoesNotMatch: '*' } } as const;

/** The failure of a request: R2 says what is wrong by a number in the message. */
function bucketFailure(id: string, cause: unknown): SealpinError {
  if (isSealpinError(cause)) return cause;
  const message = `${id}: ${cause instanceof Error ? cause.message : String(cause)}`;
  if (/\((10006|10007|10002|10003|10004)\)/.test(message)) {
    const hint = 'the operator must check that the bucket exists, and what is bound to the Worker';
    // The log has no hints.
    return new SealpinError('misconfigured', `${message}; ${hint}`, { hint, cause });
  }
  const wait = /\((10058|10043)\)/.test(message) ? { retryAfterSeconds: slowDownSeconds } : {};
  return new SealpinError('pinning_unavailable', message, { ...wait, cause });
}

function r2Bucket(id: string, bucket: R2Bucket): Omit<Bucket, 'place'> {
  const failed = (cause: unknown): SealpinError => bucketFailure(id, cause);
  const once = async <T>(request: () => Promise<T>): Promise<T> =>
    await request().catch((cause: unknown) => Promise.reject(failed(cause)));
  const asked = async <T>(signal: AbortSignal, request: () => Promise<T>): Promise<T> =>
    await repeated(id, signal, async () => await once(request));

  const late = (): never => {
    throw new SealpinError('pinning_timeout', `${id} did not take an object within ${streamMs / 60_000} minutes`);
  };

  async function put(key: string, body: ObjectBody, onlyNew: boolean, signal: AbortSignal): Promise<boolean> {
    const options = onlyNew ? onlyIfNew : undefined;
    if (body instanceof Uint8Array) return (await asked(signal, () => bucket.put(key, body, options))) !== null;
    try {
      // The bucket knows no signal: who waits continues without its answer.
      const stored = await within(bucket.put(key, body.stream as ReadableStream, options), streamMs, late, signal);
      if (stored !== null && stored.size !== body.length)
        throw new SealpinError('pinning_failed', `${id} took ${stored.size} bytes of ${body.length}`);
      return stored !== null;
    } catch (cause) {
      signal.throwIfAborted();
      throw failed(cause);
    }
  }

  return {
    put,
    async get(key, range) {
      // With the runtime's streams no signal ends a read: who cancels the stream does.
      const object = await once(() => bucket.get(key, range && { range }));
      return object === null ? undefined : (object.body as ReadableStream<Uint8Array>);
    },
    size: async (key, signal) => (await asked(signal, () => bucket.head(key)))?.size,
    async list(prefix, after, signal) {
      const page = await asked(signal, () =>
        bucket.list({ prefix, ...(after !== undefined && { startAfter: after }) }),
      );
      const objects = page.objects.map(({ key, size, uploaded }) => ({
        key,
        bytes: size,
        storedAt: uploaded.getTime(),
      }));
      return { objects, isLast: !page.truncated, now: Date.now() };
    },
    async removeAll(prefix, signal) {
      for (let pages = 0; pages < 4; pages += 1) {
        const { objects } = await asked(signal, () => bucket.list({ prefix }));
        if (objects.length === 0) return true;
        await asked(signal, () => bucket.delete(objects.map(({ key }) => key)));
      }
      return false;
    },
  };
}
