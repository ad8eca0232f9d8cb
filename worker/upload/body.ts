/** The body of an upload: its bytes as a stream, read in large pieces and counted, whether raw or inside JSON. */
import { sniffBytes } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { setArrivedBytes } from '../http/arrived-bytes.ts';
import type { Algorithm, Digests } from '../http/digest-fields.ts';
import { leafMemory } from '../leaf-memory.ts';
import { exceedsAllowance, type Allowance } from '../objects/account/keys/key-limits.ts';
import { toError } from '../objects/result.ts';
import { PassingDigests } from './passing-digests.ts';
import { JsonUploadReader } from './json-upload-reader.ts';

/** Bytes of one read: workerd gives 4 KiB otherwise, and each read has its cost. */
const readBytes = 1024 * 1024;
/** Bytes of one read of JSON: its text and the decoded bytes are in memory at the same time. */
const jsonReadBytes = 256 * 1024;

/** The body of an upload while it arrives. */
export type UploadBody = {
  /** The file's bytes. It errors with the code for what is wrong with the body. */
  stream: ReadableStream<Uint8Array>;
  /** The `filename` of a JSON body; known once the stream has ended. */
  filename(): string | undefined;
  /** Counts the bytes of the file that have arrived. */
  size(): number;
  /** The first bytes of the file, at most `sniffBytes`. */
  head(): Uint8Array;
  /** The digest of the file that was wanted, as the value of a field; known once the stream has ended. */
  digest(): Promise<string | undefined>;
  /**
   * The error that broke the body, if it is broken: streams on the way to the handler may replace it by one of their
   * own.
   */
  cause(): SealpinError | undefined;
};

/** The largest body where no limit is configured: 4 PiB, so that all lengths computed from it are exact numbers. */
const largestBytes = 2 ** 52;

/**
 * Refuses a body whose announced length is over the limit, before a byte of it is read.
 * @throws too_large
 */
export function checkLength(request: Request, limitBytes = largestBytes): void {
  const announced = Number(request.headers.get('Content-Length') ?? Number.NaN);
  if (announced > limitBytes) throw tooLarge(limitBytes);
}

/** Options for reading a body. */
export type UploadOptions = {
  /** Largest number of bytes of the body; counted, because a length need not be announced. */
  limitBytes: number | undefined;
  /** Allowance for the file, by the limits of its API key and the quota of its account. */
  allowance?: Allowance | undefined;
  /** Time for which it may send nothing before it fails. */
  idleMs: number;
  /**
   * `json`: the body is `{filename, data}`; else the bytes themselves, in pieces of 1 MiB whose memory is that of leaves: of a plain
   * file they are the leaves.
   */
  form: 'json' | 'bytes';
  /** Digests that the body must have as it is sent: JSON as JSON. */
  digests: Digests;
  /** Digest of the file to compute. */
  wanted: Algorithm | undefined;
};

/** The body of a request, read on demand. */
export function uploadBody(request: Request, o: UploadOptions): UploadBody {
  const { form, wanted, allowance } = o;
  const body = countedBody(request, o);
  // Inside JSON the file has a digest of its own.
  const ofFile = new PassingDigests(form === 'json' && wanted !== undefined ? [wanted] : []);
  let cancelled = false;
  let size = 0;
  let head = new Uint8Array(0);
  let filename: string | undefined;
  let cause: SealpinError | undefined;

  function count(bytes: Uint8Array): void {
    if (head.length < sniffBytes) head = Uint8Array.of(...head, ...bytes.subarray(0, sniffBytes - head.length));
    size += bytes.length;
    const failure = allowance && exceedsAllowance(allowance, size);
    if (failure !== undefined) throw toError(failure);
  }

  /** Wraps a pull so that its error becomes the cause of the body's failure. */
  function recordingFault<C>(pull: (controller: C) => Promise<void>): (controller: C) => Promise<void> {
    return async (controller) => {
      try {
        await pull(controller);
      } catch (thrown) {
        const error = isSealpinError(thrown)
          ? thrown
          : new SealpinError('body_incomplete', undefined, { cause: thrown });
        // Cancelling fails the pending read: that is a consequence, not the cause.
        if (!cancelled) cause = error;
        throw error;
      }
    };
  }

  async function pullPieces(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    const bytes = await body.read(leafMemory.take(readBytes));
    count(bytes);
    // The end of a file is shorter than the memory that it was read into.
    const isShort = bytes.length < readBytes;
    if (bytes.length === 0) controller.close();
    else controller.enqueue(isShort ? bytes.slice() : bytes);
    if (isShort) leafMemory.giveBack(bytes);
  }

  const parser = new JsonUploadReader();
  let buffer = new Uint8Array(form === 'json' ? jsonReadBytes : 0);

  async function pullData(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    for (;;) {
      const bytes = await body.read(buffer);
      buffer = new Uint8Array(bytes.buffer);
      if (bytes.length === 0) {
        ({ filename } = parser.finish());
        return controller.close();
      }
      const pieces = parser.write(bytes);
      for (const piece of pieces) {
        count(piece);
        await ofFile.write(piece);
        controller.enqueue(piece);
      }
      if (pieces.length > 0) return;
    }
  }

  const cancel = (reason: unknown): Promise<void> => {
    cancelled = true;
    return body.cancel(reason);
  };
  const stream = new ReadableStream<Uint8Array>(
    { pull: recordingFault(form === 'json' ? pullData : pullPieces), cancel },
    { highWaterMark: 0 },
  );
  return {
    stream,
    filename: () => filename,
    size: () => size,
    head: () => head,
    digest: () => (form === 'json' ? ofFile.field(wanted) : body.digest(wanted)),
    cause: () => cause,
  };
}

/** A body that is read as it arrives. */
export type ArrivingBody = {
  /**
   * Waits for bytes: all that have arrived, at most `maxBytes`, in memory that holds nothing else; none at the end. While the client is
   * fast, a read waits for more of them. @throws body_incomplete, body_timeout, too_large
   */
  read(maxBytes: number): Promise<Uint8Array<ArrayBuffer>>;
  cancel(reason: unknown): Promise<void>;
};

/**
 * The body of a request whose bytes count even if the rest of it never comes.
 * @param o.limitBytes how many bytes it may have @param o.idleMs how long it may send nothing
 */
export function arrivingBody(request: Request, o: { limitBytes: number | undefined; idleMs: number }): ArrivingBody {
  const body = countedBody(request, { ...o, digests: new Map(), wanted: undefined });
  return {
    read: (maxBytes) => asIncomplete(body.readSome(leafMemory.take(maxBytes))),
    cancel: (reason) => body.cancel(reason),
  };
}

/**
 * All bytes of a body, in memory. @param o.limitBytes how many bytes it may have @param o.digests what it must have
 * @throws body_incomplete, body_timeout, too_large, digest_mismatch
 */
export async function heldBody(
  request: Request,
  o: { limitBytes: number; idleMs: number; digests: Digests },
): Promise<Uint8Array<ArrayBuffer>> {
  const announced = Number(request.headers.get('Content-Length') ?? o.limitBytes);
  const body = countedBody(request, { ...o, wanted: undefined });
  const bytes = await asIncomplete(body.read(new Uint8Array(Math.min(announced, o.limitBytes) + 1)));
  // The end, where the digests are compared.
  await asIncomplete(body.read(new Uint8Array(1)));
  return bytes;
}

/** An error of the runtime is that of a body that broke. */
async function asIncomplete<T>(read: Promise<T>): Promise<T> {
  try {
    return await read;
  } catch (thrown) {
    throw isSealpinError(thrown) ? thrown : new SealpinError('body_incomplete', undefined, { cause: thrown });
  }
}

type CountedBody = {
  /** Waits for bytes, for more of them while the client is fast; none: it has ended. The result is in the same memory. */
  readSome(buffer: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
  /**
   * Fills a buffer, unless the body ends before; no bytes: it has ended, and has its digests. The result is in the same memory,
   * transferred to a new buffer.
   */
  read(buffer: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
  /** The digest of all that `read` gave. */
  digest(algorithm: Algorithm | undefined): Promise<string | undefined>;
  cancel(reason: unknown): Promise<void>;
};

/**
 * A read that takes less than this part of the idle time makes the next one wait for more bytes: a fast client costs
 * few reads.
 */
const quickPart = 1 / 64;
/** A read of this many bytes may take twice the idle time, one of 1 MiB five times. */
const bytesPerIdleTime = 256 * 1024;

type CountedOptions = Pick<UploadOptions, 'limitBytes' | 'idleMs' | 'digests' | 'wanted'>;

function countedBody(request: Request, { limitBytes, idleMs, digests, wanted }: CountedOptions): CountedBody {
  const passing = new PassingDigests([...digests.keys(), ...(wanted === undefined ? [] : [wanted])]);
  const digest = (algorithm: Algorithm | undefined) => passing.field(algorithm);
  const reader = request.body?.getReader({ mode: 'byob' });
  if (reader === undefined) {
    const nothing = async (buffer: Uint8Array<ArrayBuffer>) => {
      await passing.check(digests);
      return buffer.subarray(0, 0);
    };
    return { readSome: nothing, read: nothing, digest, cancel: async () => undefined };
  }
  let received = 0;
  setArrivedBytes(request, 0);
  let minBytes = 1;

  /** Reads until `minBytes` have arrived. How many have is not visible before, so a slow client gets small reads. */
  async function readFrom(
    from: ReadableStreamBYOBReader,
    view: Uint8Array<ArrayBuffer>,
  ): Promise<{ bytes: Uint8Array<ArrayBuffer>; ended: boolean }> {
    const wanted = Math.min(minBytes, view.length);
    const startedAt = Date.now();
    const { value } = await withTimeout(from.readAtLeast(wanted, view), idleMs * (1 + wanted / bytesPerIdleTime));
    if (value === undefined) throw new SealpinError('body_incomplete', 'the body was cancelled');
    const isQuick = Date.now() - startedAt < idleMs * quickPart;
    minBytes = isQuick ? Math.min(Math.max(minBytes * 4, value.length * 2), readBytes) : 1;
    return { bytes: value, ended: value.length < wanted };
  }

  /** Limits a read to one byte over the limit: the rest of a body that exceeds it is not waited for. */
  const within = (bytes: number): number => Math.min(bytes, (limitBytes ?? Number.MAX_SAFE_INTEGER) - received + 1);

  function count(bytes: number): void {
    received += bytes;
    setArrivedBytes(request, received);
    if (limitBytes !== undefined && received > limitBytes) throw tooLarge(limitBytes);
  }

  return {
    async readSome(buffer) {
      const { bytes } = await readFrom(reader, buffer.subarray(0, within(buffer.length)));
      count(bytes.length);
      return bytes;
    },
    async read(buffer) {
      const room = within(buffer.length);
      const { byteOffset } = buffer;
      let memory = buffer.buffer;
      let filled = 0;
      for (let ended = false; !ended && filled < room;) {
        const some = await readFrom(reader, new Uint8Array(memory, byteOffset + filled, room - filled));
        ({ ended } = some);
        memory = some.bytes.buffer;
        filled += some.bytes.length;
      }
      count(filled);
      const bytes = new Uint8Array(memory, byteOffset, filled);
      if (filled === 0) await passing.check(digests);
      else await passing.write(bytes);
      return bytes;
    },
    digest,
    cancel: (reason) => reader.cancel(reason),
  };
}

/** @throws body_timeout */
async function withTimeout<T>(step: Promise<T>, timeoutMs: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new SealpinError('body_timeout')), timeoutMs);
  try {
    return await Promise.race([step, late]);
  } finally {
    clearTimeout(timer);
  }
}

function tooLarge(limitBytes: number): SealpinError {
  return new SealpinError('too_large', `the body may have at most ${limitBytes} bytes`);
}
