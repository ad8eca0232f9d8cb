/** The real local service, one for a test file. */
import { afterAll, beforeAll } from 'vitest';
import { remove, startHere } from './local/harness.ts';
import type { RunningHere } from './local/harness.ts';

export { entry } from './local/harness.ts';

export type Local = {
  /** The data directory of the service and of its user. */ dataDir: string;
  url: string;
  apiKey: string;
};

/**
 * Starts it before the tests of the file and ends it after them. The object is filled when the
 * tests run.
 */
export function localService(): Local {
  const local: Local = { dataDir: '', url: '', apiKey: '' };
  let running: RunningHere;
  beforeAll(async () => {
    running = await startHere();
    const { dataDir, url, apiKey } = running;
    Object.assign(local, { dataDir, url, apiKey });
  });
  afterAll(() => remove(running));
  return local;
}
