/** Files that become visible: those that wait for the disk at the same time cost one sync of it. */

/** Files that become visible, all or none. */
type Publication<F> = { files: readonly F[]; published: PromiseWithResolvers<void> };

/**
 * Publishes one batch after another: what arrives meanwhile is the next.
 * @returns what adds files, and resolves once they are visible
 */
export function publishQueue<F>(publish: (files: readonly F[]) => Promise<void>) {
  const queue: Publication<F>[] = [];
  let isRunning = false;

  async function run(): Promise<void> {
    isRunning = true;
    while (queue.length > 0) await settle(queue.splice(0));
    isRunning = false;
  }

  async function settle(batch: readonly Publication<F>[]): Promise<void> {
    try {
      await publish(batch.flatMap(({ files }) => files));
      for (const { published } of batch) published.resolve();
    } catch (cause) {
      // One bad file must not fail the batch.
      if (batch.length > 1) for (const each of batch) await settle([each]);
      else batch[0]?.published.reject(cause);
    }
  }

  return async (files: readonly F[]): Promise<void> => {
    const published = Promise.withResolvers<void>();
    queue.push({ files, published });
    if (!isRunning) void run();
    await published.promise;
  };
}
