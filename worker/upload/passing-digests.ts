/** Digests of bytes that pass by. */
import { timingSafeEqual } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { digestField, type Algorithm, type Digests } from '../http/digest-fields.ts';

/** Computes digests of a stream of bytes; without an algorithm it costs nothing. */
export class PassingDigests {
  readonly #hashes: ReadonlyMap<Algorithm, { digest: Promise<Uint8Array>; writer: WritableStreamDefaultWriter }>;
  readonly #wanted: Algorithm | undefined;
  readonly #expected: Digests;
  #ended: Promise<unknown> | undefined;

  /** @param wanted what `digest` returns @param expected what `check` compares */
  constructor(wanted: Algorithm | undefined, expected: Digests = new Map()) {
    this.#wanted = wanted;
    this.#expected = expected;
    const algorithms = new Set(wanted === undefined ? expected.keys() : [...expected.keys(), wanted]);
    this.#hashes = new Map(
      Array.from(algorithms, (algorithm) => {
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
  async check(): Promise<void> {
    for (const [algorithm, digest] of this.#expected) {
      const actual = await this.#end(algorithm);
      if (actual !== undefined && timingSafeEqual(actual, digest)) continue;
      throw new SealpinError('digest_mismatch', `the body has another ${algorithm} than the request says`);
    }
  }

  /** Returns the wanted digest of all bytes, as the value of a field. */
  async digest(): Promise<string | undefined> {
    const algorithm = this.#wanted;
    const digest = algorithm && (await this.#end(algorithm));
    return algorithm && digest && digestField(algorithm, digest);
  }

  async #end(algorithm: Algorithm): Promise<Uint8Array | undefined> {
    await (this.#ended ??= Promise.all(Array.from(this.#hashes.values(), ({ writer }) => writer.close())));
    return await this.#hashes.get(algorithm)?.digest;
  }
}
