/** The real local service, one for a test file. */
import { afterAll, beforeAll } from 'vitest';
import { remove, startLocal } from './local/harness.ts';
import type { Running } from './local/harness.ts';

export { entry } from './local/harness.ts';

export type Local = {
  /** The data directory of the service and of its user. */ dataDir: string;
  url: string;
  apiKey: string;
};

/** Starts it before the tests of the file and ends it after them. The object is filled when the tests run. */
export function localService(): Local {
  const local: Local = { dataDir: '', url: '', apiKey: '' };
  let running: Running;
  beforeAll(async () => {
    running = await startLocal();
    const { dataDir, url, apiKey } = running;
    Object.assign(local, { dataDir, url, apiKey });
  });
  afterAll(() => remove(running));
  return local;
}
