/** Uploads to tusd, the reference server of tus, over a line that breaks. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SealpinError } from '../../shared/errors.ts';
import { cidOfBytes } from '../../testkit/cid.ts';
import { faultyProxy, type ProxyFault, type Passed } from '../../testkit/faulty-proxy.ts';
import { hasTusd, noTusd, startTusdService, type TusdService } from '../../testkit/programs/tusd.ts';
import { isTemporaryFailure } from '../attempts.ts';
import { createUpload, endUpload, sendUpload, type SendOptions, type Transport } from '../resumable-upload.ts';

const mib = 1024 * 1024;

/** A transport on the built-in fetch. */
function overFetch(service: string): Transport {
  return {
    async request({ path, body, ...o }) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of body?.stream ?? []) chunks.push(chunk);
      const init = { ...o, ...(body === undefined ? {} : { body: Buffer.concat(chunks) }) };
      try {
        const response = await fetch(new URL(path, `${service}/`), init);
        const text = await response.text();
        return { status: response.status, text, header: (name) => response.headers.get(name) ?? undefined };
      } catch (cause) {
        o.signal.throwIfAborted();
        throw new SealpinError('service_unreachable', 'the connection broke', { cause });
      }
    },
    errorOf: ({ status }) => new SealpinError('service_answer', `status ${status}`),
  };
}

const sourceOf = (bytes: Uint8Array) => ({
  bytes: bytes.length,
  async *read(start: number, end: number) {
    yield new Uint8Array(bytes.subarray(start, end));
  },
});

describe.runIf(hasTusd())('an upload', () => {
  let service: TusdService;
  beforeAll(async () => {
    service = await startTusdService({ maxUploadBytes: null });
  });
  afterAll(() => service.close());

  /** Uploads random bytes through a proxy, without real pauses, and gives what happened. */
  async function uploadThrough(
    fault: (request: Passed, before: readonly Passed[]) => ProxyFault | undefined,
    o: Partial<SendOptions> & { bytes?: number } = {},
  ) {
    const { url, passed } = await faultyProxy(() => service.url, fault);
    const data = randomBytes(o.bytes ?? 5 * mib);
    const offsets: number[] = [];
    const pauses: number[] = [];
    const { signal } = new AbortController();
    const options: SendOptions = {
      signal,
      maxBodyBytes: 2 * mib,
      wait: async (ms) => void pauses.push(ms),
      onOffset: (offset) => offsets.push(offset),
      ...o,
    };
    const transport = overFetch(url);
    const cid = await cidOfBytes(data);
    const id = await createUpload(transport, { bytes: data.length, cid, idempotencyKey: crypto.randomUUID() }, options);
    const sent = sendUpload(transport, id, sourceOf(data), options);
    // The test looks at the failure later.
    sent.catch(() => undefined);
    return { id, cid, data, sent, offsets, pauses, passed, transport, options };
  }

  const patches = (passed: readonly Passed[]): Passed[] => passed.filter(({ method }) => method === 'PATCH');
  const offsetsOf = (passed: readonly Passed[]): number[] =>
    patches(passed).map(({ headers }) => Number(headers['upload-offset']));

  test('goes in parts that the service takes, and gives the file with its CID', async () => {
    const { id, cid, sent, offsets, passed } = await uploadThrough(() => undefined);
    expect(await sent).toEqual({ fileId: id, cid });
    expect(offsetsOf(passed)).toEqual([0, 2 * mib, 4 * mib]);
    expect(patches(passed).map(({ headers }) => Number(headers['content-length']))).toEqual([2 * mib, 2 * mib, mib]);
    expect(offsets).toEqual([0, 2 * mib, 4 * mib, 5 * mib]);
  });

  test('of no bytes is complete at once', async () => {
    const { cid, sent, passed } = await uploadThrough(() => undefined, { bytes: 0 });
    expect(await sent).toMatchObject({ cid });
    expect(patches(passed)).toEqual([]);
  });

  test('S69: continues at the byte that the service has, after a break in the middle of a part', async () => {
    const { cid, sent, offsets, passed } = await uploadThrough(({ method }, before) =>
      method === 'PATCH' && patches(before).length === 1 ? { kind: 'break', afterBytes: mib } : undefined,
    );
    expect(await sent).toMatchObject({ cid });
    const starts = offsetsOf(passed);
    // Some of the second part was kept, and is not sent again.
    expect(starts[2]).toBeGreaterThan(2 * mib);
    expect(starts[2]).toBeLessThan(4 * mib);
    expect(offsets).toContain(starts[2]);
  });

  test('S71: asks where to continue when a response is lost, also the last one', async () => {
    const { cid, sent, passed, pauses } = await uploadThrough(({ method }, before) =>
      method === 'PATCH' && before.at(-1)?.method !== 'HEAD' ? { kind: 'swallow' } : undefined,
    );
    expect(await sent).toMatchObject({ cid });
    // What arrived is not sent a second time.
    expect(offsetsOf(passed)).toEqual([0, 2 * mib, 4 * mib]);
    expect(pauses.length).toBeGreaterThan(0);
  });

  test('creates one upload when the response to its creation is lost, by its idempotency key', async () => {
    const { sent, passed } = await uploadThrough(({ method }, before) =>
      method === 'POST' && before.length === 0 ? { kind: 'swallow' } : undefined,
    );
    await sent;
    const keys = passed.filter(({ method }) => method === 'POST').map(({ headers }) => headers['idempotency-key']);
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
  });

  test.each([408, 409, 423, 429, 500, 503])('tries again after %i, also in response to HEAD', async (status) => {
    const { cid, sent, pauses } = await uploadThrough(({ method }, before) =>
      ['PATCH', 'HEAD'].includes(method) && !before.some((one) => one.method === method)
        ? { kind: 'answer', status }
        : undefined,
    );
    expect(await sent).toMatchObject({ cid });
    expect(pauses).toHaveLength(2);
  });

  test('waits as long as Retry-After says', async () => {
    const { sent, pauses } = await uploadThrough(({ method }, before) =>
      method === 'PATCH' && patches(before).length === 0
        ? { kind: 'answer', status: 423, headers: { 'retry-after': '7' } }
        : undefined,
    );
    await sent;
    expect(pauses).toEqual([7000]);
  });

  test('waits longer each time, ends after eight attempts without a new byte, and can be resumed', async () => {
    let isBroken = true;
    const { id, cid, data, sent, pauses, transport, options } = await uploadThrough(({ method }) =>
      method === 'PATCH' && isBroken ? { kind: 'break', afterBytes: 0 } : undefined,
    );
    const failure: unknown = await sent.catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'service_unreachable' });
    expect(isTemporaryFailure(failure)).toBe(true);
    expect(pauses).toHaveLength(7);
    for (const [index, ms] of pauses.entries()) {
      const fullMs = Math.min(30_000, 1000 * 2 ** index);
      expect(ms).toBeGreaterThanOrEqual(fullMs / 2);
      expect(ms).toBeLessThanOrEqual(fullMs);
    }
    isBroken = false;
    expect(await sendUpload(transport, id, sourceOf(data), options)).toMatchObject({ cid });
  });

  test('survives any number of breaks, as long as each attempt brings bytes', async () => {
    const { cid, sent, passed } = await uploadThrough(
      ({ method }) => (method === 'PATCH' ? { kind: 'break', afterBytes: 256 * 1024 } : undefined),
      { bytes: 4 * mib, maxBodyBytes: mib },
    );
    expect(await sent).toMatchObject({ cid });
    expect(patches(passed).length).toBeGreaterThan(8);
  });

  test('ends its parts with a leaf, also after a break amid one', async () => {
    // Until something of it has arrived: what is on its way when the line breaks may be lost.
    const { cid, sent, passed } = await uploadThrough(({ method, headers }) =>
      method === 'PATCH' && headers['upload-offset'] === '0' ? { kind: 'break', afterBytes: 300_000 } : undefined,
    );
    expect(await sent).toMatchObject({ cid });
    const [amid = 0, ...others] = offsetsOf(passed).filter((offset) => offset > 0);
    expect(amid % mib).not.toBe(0);
    expect(others).toEqual([2 * mib, 4 * mib]);
  });

  test.each([400, 401, 403, 413, 415])('ends at once after %i', async (status) => {
    const { sent, passed } = await uploadThrough(({ method }) =>
      method === 'PATCH' ? { kind: 'answer', status } : undefined,
    );
    const failure: unknown = await sent.catch((error: unknown) => error);
    expect(failure).toMatchObject({ message: `status ${status}` });
    expect(isTemporaryFailure(failure)).toBe(false);
    expect(patches(passed)).toHaveLength(1);
  });

  test('S82: that the service has lost ends with gone', async () => {
    const { id, sent, transport, data, options } = await uploadThrough(() => undefined);
    await sent;
    await endUpload(transport, id, options.signal);
    await expect(sendUpload(transport, id, sourceOf(data), options)).rejects.toMatchObject({ code: 'gone' });
    // What is gone is ended.
    await endUpload(transport, id, options.signal);
  });

  test.each([
    { title: 'no offset', headers: {} },
    { title: 'an offset that is no number', headers: { 'upload-offset': '1e9' } },
    { title: 'an offset beyond the end', headers: { 'upload-offset': String(6 * mib) } },
    { title: 'an offset before what was there', headers: { 'upload-offset': '-1' } },
  ])('refuses $title', async ({ headers }) => {
    const { sent } = await uploadThrough(({ method }) =>
      method === 'PATCH' ? { kind: 'answer', status: 204, headers } : undefined,
    );
    await expect(sent).rejects.toMatchObject({ code: 'service_answer' });
  });

  test('ends when the service accepts nothing', async () => {
    const { sent, passed } = await uploadThrough(({ method }) =>
      method === 'PATCH' ? { kind: 'answer', status: 204, headers: { 'upload-offset': '0' } } : undefined,
    );
    await expect(sent).rejects.toMatchObject({ code: 'service_answer' });
    expect(patches(passed)).toHaveLength(8);
  });

  test('ends with an error of the source, which is not tried again', async () => {
    const { id, sent, transport, options, passed } = await uploadThrough(({ method }) =>
      method === 'PATCH' ? { kind: 'answer', status: 413 } : undefined,
    );
    await sent.catch(() => undefined);
    const source = {
      bytes: 5 * mib,
      async *read(): AsyncGenerator<Uint8Array> {
        yield new Uint8Array(1);
        throw new SealpinError('file_unreadable', 'the disk is broken');
      },
    };
    const before = passed.length;
    await expect(sendUpload(transport, id, source, options)).rejects.toMatchObject({ code: 'file_unreadable' });
    expect(passed.slice(before).map(({ method }) => method)).toEqual(['HEAD']);
  });

  test('ends with the reason of its signal, also while it waits', async () => {
    const abort = new AbortController();
    const { sent } = await uploadThrough(
      ({ method }) => (method === 'PATCH' ? { kind: 'answer', status: 503 } : undefined),
      {
        signal: abort.signal,
        wait: (_, signal) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason as Error));
            abort.abort(new SealpinError('interrupted'));
          }),
      },
    );
    await expect(sent).rejects.toMatchObject({ code: 'interrupted' });
  });

  test('waits while the service builds the file, and reports what it ends with', async () => {
    const status = { mode: 'plain', offset: 5 * mib, length: 5 * mib, expiresAt: '2026-01-02T03:04:05.000Z' };
    const answers = [{ state: 'finishing' }, { state: 'finishing' }, { state: 'failed', code: 'cid_mismatch' }];
    const { sent, pauses } = await uploadThrough(({ method, path }) => {
      if (method !== 'GET') return undefined;
      const body = JSON.stringify({ uploadId: path.slice(-36), ...status, ...answers.shift() });
      return { kind: 'answer', status: 200, body };
    });
    await expect(sent).rejects.toMatchObject({ code: 'cid_mismatch' });
    expect(pauses).toEqual([1000, 1000]);
  });

  test.each(['https://elsewhere.example/v1/storage/x', '', '/v1/uploads/../keys'])(
    'goes nowhere else when its location is %j',
    async (location) => {
      const { url } = await faultyProxy(
        () => service.url,
        () => ({ kind: 'answer', status: 201, headers: { location } }),
      );
      const file = { bytes: 1, cid: 'bafkreix', idempotencyKey: 'k' };
      const { signal } = new AbortController();
      await expect(createUpload(overFetch(url), file, { signal })).rejects.toMatchObject({ code: 'service_answer' });
    },
  );

  test.each([200, 202, 204])('takes no other answer than 201 for a created upload (%i)', async (status) => {
    const location = `/v1/uploads/${crypto.randomUUID()}`;
    const { url } = await faultyProxy(
      () => service.url,
      () => ({ kind: 'answer', status, headers: { location } }),
    );
    const { signal } = new AbortController();
    const created = createUpload(overFetch(url), { bytes: 1, idempotencyKey: 'k' }, { signal });
    await expect(created).rejects.toMatchObject({ code: 'service_answer' });
  });
});

describe('a service that never ends an upload', () => {
  const uploadId = crypto.randomUUID();
  const [signal, bytes] = [new AbortController().signal, Uint8Array.of(1, 2)];
  /** It has all bytes or none, and is in a state. */
  const service = (offset: number, state: string): Transport => ({
    async request({ method }) {
      const about = { uploadId, mode: 'plain', offset, length: 2, state, expiresAt: '2030-01-02T03:04:05.000Z' };
      const text = method === 'GET' ? JSON.stringify(about) : '';
      return { status: 200, text, header: (name) => (name === 'upload-offset' ? `${offset}` : undefined) };
    },
    errorOf: ({ status }) => new SealpinError('service_answer', `status ${status}`),
  });

  test.each([0, -1, 0.5])('as it takes %d bytes in a request, is refused', async (maxBodyBytes) => {
    const sent = sendUpload(service(0, 'open'), uploadId, sourceOf(bytes), { signal, maxBodyBytes });
    await expect(sent).rejects.toMatchObject({ code: 'service_answer' });
  });

  test.each([
    ['finishing', 'finishing'],
    ['open', 'service_answer'],
    ['done', 'service_answer'],
  ] as const)('as it has all bytes, and is %s for ever, is left', async (state, code) => {
    const options = { signal, maxBodyBytes: null, wait: async () => undefined };
    await expect(sendUpload(service(2, state), uploadId, sourceOf(bytes), options)).rejects.toMatchObject({ code });
  });
});

if (!hasTusd()) test.skip(noTusd);
