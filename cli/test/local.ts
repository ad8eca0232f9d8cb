/** The real local service, one for a test file or one for all files of a process. */
import { afterAll, beforeAll } from 'vitest';
import { connect } from '../../client/index.ts';
import type { NewAccountResponse } from '../../shared/api.ts';
import { parseRecipients } from '../../shared/crypto/index.ts';
import { first, present } from '../../testkit/present.ts';
import { directoryOfRun } from '../../testkit/run-cache.ts';
import { run } from './environment.ts';
import { remove, startHere } from './local/harness.ts';
import type { RunningHere } from './local/harness.ts';

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

/** A user of a service of others. `dataDir` is the user's alone, and has a profile for it. */
export type User = Local & {
  /** Makes another account of the service. @param flags of `account create` */
  newAccount(...flags: string[]): Promise<NewAccountResponse>;
};

let shared: Promise<RunningHere> | undefined;

/**
 * As `localService`, but all files of a process share the service, and it ends with the process. A
 * file has an account there, and no more: it may look at nothing else.
 */
export function sharedLocalService(): User {
  const newAccount = async (...flags: string[]): Promise<NewAccountResponse> => {
    // Vitest ends its processes by this signal, and workerd ends by the event 'exit', which Node
    // would not send for it.
    if (shared === undefined) process.once('SIGTERM', () => process.exit());
    shared ??= directoryOfRun().then((dataDir) => startHere({ dataDir }));
    const { dataDir } = await shared;
    const { stdout } = await run(['account', 'create', 'test', ...flags, '--json', '--data-dir', dataDir], '/');
    return JSON.parse(stdout) as NewAccountResponse;
  };
  const user: User = { dataDir: '', url: '', apiKey: '', newAccount };
  beforeAll(async () => {
    const { apiKey } = await newAccount();
    const [{ url }, dataDir] = [await present(shared), await directoryOfRun()];
    await run(['login', url, '--data-dir', dataDir], '/', { stdin: `${apiKey}\n` });
    Object.assign(user, { dataDir, url, apiKey });
  });
  return user;
}

/** Makes an inbox as earlier versions could: sealed to the key of the account. @returns its link */
export async function oldInbox({ url, apiKey }: Local): Promise<string> {
  const response = await fetch(`${url}/v1/account`, { headers: { authorization: `Bearer ${apiKey}` } });
  const { account } = (await response.json()) as { account: { publicKey: string } };
  const recipient = first(parseRecipients(account.publicKey)).text ?? '';
  return (await connect({ service: url, apiKey }).inbox.create({ label: 'old', recipient })).link;
}
