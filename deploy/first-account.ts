/** The end of `npm run setup`: the first account of a new service, with its API key in a file, or the command that makes one. */
import { rm } from 'node:fs/promises';
import { AccountList, NewAccountResponse } from '../shared/api.ts';
import type { Context } from './doctor.ts';
import type { OperatorApi } from './operator-api.ts';
import type { Options } from './options.ts';
import { newSecretFile } from './secret-file.ts';

/**
 * Makes an account where the service has none.
 * @param askLabel asks a person what it is called; undefined where there is nobody to ask, '' for no account
 * @throws usage where there can be no file for the key, and what the service responds
 */
export async function firstAccount(
  api: OperatorApi,
  { account, apiKeyFile }: Pick<Options, 'account' | 'apiKeyFile'>,
  askLabel: () => Promise<string | undefined>,
  { print }: Pick<Context, 'print'>,
): Promise<void> {
  const { accounts } = await api.get('/v1/accounts?limit=1', AccountList);
  if (accounts.length > 0) {
    if (account !== undefined) print('– the service has accounts already: sealpin account create makes more');
    return;
  }
  const label = account ?? (await askLabel());
  if (!label) {
    print(
      '– the service has no account yet: npm run setup -- --account <label> [--api-key-file <path>] makes the first',
    );
    return;
  }
  // The key is shown once: there has to be a place for it before it is made.
  const file = await newSecretFile(apiKeyFile, '--api-key-file');
  try {
    const made = await api.post('/v1/accounts', JSON.stringify({ label }), NewAccountResponse);
    await file.writeFile(`${made.apiKey}\n`);
    await file.sync();
    print(
      `✓ made the account ${made.account.id}; its first API key, with all scopes, is in ${apiKeyFile} and nowhere else`,
    );
  } catch (error) {
    await rm(apiKeyFile);
    throw error;
  } finally {
    await file.close();
  }
}
