/**
 * Files that are to become visible. Those that wait for the disk at the same time cost one sync of
 * it together.
 */

/** Files that become visible, all or none. */
type Publication<F> = { files: readonly F[]; published: PromiseWithResolvers<void> };

/** Publishes one batch after another: what arrives meanwhile is the next. */
export class PublishQueue<F> {
  readonly #publish: (files: readonly F[]) => Promise<void>;
  #queue: Publication<F>[] = [];
  #isRunning = false;

  constructor(publish: (files: readonly F[]) => Promise<void>) {
    this.#publish = publish;
  }

  /** Resolves once the files are visible. */
  async add(files: readonly F[]): Promise<void> {
    const published = Promise.withResolvers<void>();
    this.#queue.push({ files, published });
    if (!this.#isRunning) void this.#run();
    await published.promise;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#queue.length > 0) await this.#settle(this.#queue.splice(0));
    this.#isRunning = false;
  }

  async #settle(batch: readonly Publication<F>[]): Promise<void> {
    try {
      await this.#publish(batch.flatMap(({ files }) => files));
      for (const { published } of batch) published.resolve();
    } catch (cause) {
      // One bad file must not fail the batch.
      if (batch.length > 1) for (const each of batch) await this.#settle([each]);
      else batch[0]?.published.reject(cause);
    }
  }
}
