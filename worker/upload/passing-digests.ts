/** Digests of bytes that pass by. */
import { timingSafeEqual } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { digestField, type Algorithm, type Digests } from '../http/digest-fields.ts';

/** Computes digests of a stream of bytes; without an algorithm it costs nothing. */
export class PassingDigests {
  readonly #hashes: ReadonlyMap<Algorithm, { digest: Promise<Uint8Array>; writer: WritableStreamDefaultWriter }>;
  #ended: Promise<unknown> | undefined;

  constructor(algorithms: Iterable<Algorithm>) {
    this.#hashes = new Map(
      Array.from(new Set(algorithms), (algorithm) => {
        const stream = new crypto.DigestStream(algorithm.toUpperCase());
        const digest = stream.digest.then((buffer) => new Uint8Array(buffer));
        // Nobody waits for that of a body that breaks.
        digest.catch(() => undefined);
        return [algorithm, { digest, writer: stream.getWriter() }];
      }),
    );
  }

  /** Takes bytes, which are free again once it resolves. */
  async write(bytes: Uint8Array): Promise<void> {
    for (const { writer } of this.#hashes.values()) await writer.write(bytes);
  }

  /** Ends the bytes, and compares them. @throws digest_mismatch */
  async check(expected: Digests): Promise<void> {
    for (const [algorithm, digest] of expected) {
      const actual = await this.#end(algorithm);
      if (actual !== undefined && timingSafeEqual(actual, digest)) continue;
      throw new SealpinError('digest_mismatch', `the body has another ${algorithm} than the request says`);
    }
  }

  /** The digest of all bytes, as the value of a field; undefined for an algorithm that is not computed. */
  async field(algorithm: Algorithm | undefined): Promise<string | undefined> {
    const digest = algorithm && (await this.#end(algorithm));
    return algorithm && digest && digestField(algorithm, digest);
  }

  async #end(algorithm: Algorithm): Promise<Uint8Array | undefined> {
    await (this.#ended ??= Promise.all(Array.from(this.#hashes.values(), ({ writer }) => writer.close())));
    return await this.#hashes.get(algorithm)?.digest;
  }
}
