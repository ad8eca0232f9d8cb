/**
 * The end of `npm run setup`: the first account of a new service, with its API key in a file, or
 * the command that makes one.
 */
import { AccountList, NewAccountResponse } from '../shared/api.ts';
import { apiKeyCharacters } from '../shared/crypto/keys/api-key-text.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import type { DoctorContext } from './doctor.ts';
import type { OperatorApi } from './operator-api.ts';
import type { DeployOptions } from './options.ts';
import { newSecretFile } from './secret-file.ts';

/**
 * Makes an account where the service has none.
 * @param askLabel asks a person what it is called; undefined where there is nobody to ask, '' for
 * no account
 * @throws usage, disk_full, file_unwritable where there can be no file for the key, and what the
 * service responds
 */
export async function firstAccount(
  api: OperatorApi,
  { account, apiKeyFile }: Pick<DeployOptions, 'account' | 'apiKeyFile'>,
  askLabel: () => Promise<string | undefined>,
  { print }: Pick<DoctorContext, 'print'>,
): Promise<void> {
  const { accounts } = await api.get('/v1/operator/accounts?limit=1', AccountList);
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
  // The key is shown once: there must be room for it before it is made.
  const file = await newSecretFile(apiKeyFile, '--api-key-file', apiKeyCharacters);
  let made: NewAccountResponse;
  try {
    made = await api.post('/v1/operator/accounts', JSON.stringify({ label }), NewAccountResponse);
  } catch (error) {
    await file.discard();
    throw error;
  }
  const { id } = made.account;
  try {
    await file.fill(made.apiKey);
  } catch (cause) {
    if (!isSealpinError(cause)) throw cause;
    throw new SealpinError(cause.code, `the account ${id} was made, and its API key is lost: ${cause.message}`, {
      hint:
        `delete it with sealpin account delete ${id} --destroy (docs/operating.md), and run npm run ` +
        'setup again a minute later',
      cause,
    });
  }
  print(`✓ made the account ${id}; its first API key, with all scopes, is in ${apiKeyFile} and nowhere else`);
}
