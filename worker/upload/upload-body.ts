/** The file in the body of an upload, as a stream: the bytes themselves, or inside JSON. */
import { sniffBytes } from '../../shared/crypto/index.ts';
import { isSealpinError, type SealpinError } from '../../shared/errors.ts';
import { pulled } from '../../shared/streams/pulled.ts';
import { leafMemory } from '../leaf-memory.ts';
import { exceedsAllowance, type Allowance } from '../objects/account/keys/key-limits.ts';
import { toError } from '../objects/result.ts';
import { PassingDigests } from './passing-digests.ts';
import { CountedBody, readBytes, type CountedOptions } from './counted-body.ts';
import { JsonUploadReader } from './json-upload-reader.ts';

/** Bytes of one read of JSON: its text and the decoded bytes are in memory at the same time. */
const jsonReadBytes = 256 * 1024;

/** `digests` are those of the body as it is sent, `wanted` is that of the file. */
export type UploadOptions = CountedOptions & {
  /** Allowance for the file, by the limits of its API key and the quota of its account. */
  allowance: Allowance | undefined;
  /**
   * `json`: the body is `{filename, data}`; else the bytes themselves, in pieces of 1 MiB whose
   * memory is that of leaves: of a plain file they are the leaves.
   */
  form: 'json' | 'bytes';
};

/** An upload while it arrives. */
export class UploadBody {
  /** The file's bytes, read on demand. It errors with the code for what is wrong with the body. */
  readonly stream: ReadableStream<Uint8Array>;
  /** The `filename` of a JSON body; known once the stream has ended. */
  filename: string | undefined;
  /** Bytes of the file that have arrived. */
  size = 0;
  /** The first bytes of the file, at most `sniffBytes`. */
  head = new Uint8Array(0);
  /** The error that broke the body: streams on the way to the handler may replace it. */
  cause: SealpinError | undefined;

  readonly #allowance: Allowance | undefined;
  readonly #body: CountedBody;
  /** Inside JSON the file has a digest of its own. */
  readonly #ofFile: PassingDigests | undefined;
  #isCancelled = false;

  constructor(request: Request, options: UploadOptions) {
    const { form, wanted, allowance } = options;
    this.#allowance = allowance;
    this.#body = new CountedBody(request, form === 'json' ? { ...options, wanted: undefined } : options);
    this.#ofFile = form === 'json' ? new PassingDigests(wanted) : undefined;
    const next = this.#ofFile === undefined ? () => this.#nextPiece() : this.#decoder(this.#ofFile);
    this.stream = pulled({
      next: () => next().catch((error: unknown) => this.#fail(error)),
      cancel: async (reason) => {
        this.#isCancelled = true;
        await this.#body.cancel(reason);
      },
    });
  }

  /** The wanted digest of the file, as the value of a field, once the stream has ended. */
  async digest(): Promise<string | undefined> {
    return await (this.#ofFile ?? this.#body).digest();
  }

  #fail(error: unknown): never {
    // Cancelling fails the pending read: that is a consequence, not the cause.
    if (!this.#isCancelled && isSealpinError(error)) this.cause = error;
    throw error;
  }

  async #nextPiece(): Promise<Uint8Array | undefined> {
    const bytes = await this.#body.read(leafMemory.take(readBytes));
    this.#count(bytes);
    if (bytes.length === readBytes) return bytes;
    // The end of a file is shorter than the memory that it was read into.
    const last = bytes.length === 0 ? undefined : bytes.slice();
    leafMemory.giveBack(bytes);
    return last;
  }

  #decoder(digests: PassingDigests): () => Promise<Uint8Array | undefined> {
    const parser = new JsonUploadReader();
    const ready: Uint8Array[] = [];
    let buffer = new Uint8Array(jsonReadBytes);
    return async () => {
      while (ready.length === 0) {
        const bytes = await this.#body.read(buffer);
        buffer = new Uint8Array(bytes.buffer);
        if (bytes.length === 0) {
          this.filename = parser.finish().filename;
          return undefined;
        }
        ready.push(...parser.write(bytes));
      }
      const piece = ready.shift();
      if (piece === undefined) return undefined;
      this.#count(piece);
      await digests.write(piece);
      return piece;
    };
  }

  #count(bytes: Uint8Array): void {
    if (this.head.length < sniffBytes)
      this.head = Uint8Array.of(...this.head, ...bytes.subarray(0, sniffBytes - this.head.length));
    this.size += bytes.length;
    const failure = this.#allowance && exceedsAllowance(this.#allowance, this.size);
    if (failure !== undefined) throw toError(failure);
  }
}
