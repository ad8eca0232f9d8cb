/** The real local service, one for a test file. */
import { afterAll, beforeAll } from 'vitest';
import { connect } from '../../client/index.ts';
import { parseRecipients } from '../../shared/crypto/index.ts';
import { first } from '../../testkit/present.ts';
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

/** Makes an inbox as earlier versions could: sealed to the key of the account. @returns its link */
export async function oldInbox({ url, apiKey }: Local): Promise<string> {
  const response = await fetch(`${url}/v1/account`, { headers: { authorization: `Bearer ${apiKey}` } });
  const { account } = (await response.json()) as { account: { publicKey: string } };
  const recipient = first(parseRecipients(account.publicKey)).text ?? '';
  return (await connect({ service: url, apiKey }).inbox.create({ label: 'old', recipient })).link;
}
