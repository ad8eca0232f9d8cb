/** Accounts for the tests of backups, each with a home of its own. */
import { expect } from 'vitest';
import { connect, type Connection } from '../../client/index.ts';
import { type Overrides, type Ran, run, temporaryDirectory } from './environment.ts';
import type { User } from './local.ts';

export const password = 'violet-anchor-tundra-mosaic';

export type Account = {
  readonly url: string;
  readonly apiKey: string;
  readonly files: Connection;
  readonly home: string;
};

export async function accountAt(url: string, create: () => Promise<{ apiKey: string }>): Promise<Account> {
  const { apiKey } = await create();
  return { url, apiKey, files: connect({ service: url, apiKey }), home: await temporaryDirectory() };
}

/** An account at the local service, by its operator. */
export const accountIn = ({ url, newAccount }: User): Promise<Account> => accountAt(url, newAccount);

export const sealpin = (
  { url, apiKey, home }: Account,
  argv: readonly string[],
  directory: string,
  overrides: Overrides = {},
): Promise<Ran> =>
  run([...argv, '--data-dir', home], directory, {
    ...overrides,
    env: { SEALPIN_SERVICE: url, SEALPIN_API_KEY: apiKey, SEALPIN_PASSWORD: password, ...overrides.env },
  });

export async function jsonOf(ran: Promise<Ran>): Promise<Record<string, unknown>> {
  const { exit, stdout, stderr } = await ran;
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: '' });
  return JSON.parse(stdout) as Record<string, unknown>;
}
