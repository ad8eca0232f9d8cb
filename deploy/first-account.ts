/** The first account of a new service, with its API key in a file, and its first link. */
import { connect, receive } from '../client/index.ts';
import { AccountList, NewAccountResponse } from '../shared/api.ts';
import { apiKeyCharacters } from '../shared/crypto/keys/api-key-text.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import type { DoctorContext } from './check-deployment.ts';
import { failure, fine, wrong, type Finding } from './finding.ts';
import type { OperatorApi } from './operator-api.ts';
import { newSecretFile } from './secret-file.ts';

/**
 * Makes an account where the service has none.
 * @param o.account what it is called
 * @throws usage, disk_full, file_unwritable where there can be no file for the key, and what the
 * service responds
 */
export async function firstAccount(
  api: OperatorApi,
  { account: label, apiKeyFile }: { account: string; apiKeyFile: string },
  { print }: Pick<DoctorContext, 'print'>,
): Promise<void> {
  const { accounts } = await api.get('/v1/operator/accounts?limit=1', AccountList);
  if (accounts.length > 0) {
    print('– the service has accounts already: sealpin account create makes more');
    return;
  }
  // The key is shown once: there must be room for it before it is made.
  const file = await newSecretFile(apiKeyFile, '--api-key-file', apiKeyCharacters);
  const request = JSON.stringify({ label });
  const made = await api.post('/v1/operator/accounts', request, NewAccountResponse).catch(async (error: unknown) => {
    await file.discard();
    throw error;
  });
  const { id } = made.account;
  await file.fill(made.apiKey).catch((cause: unknown) => {
    if (!isSealpinError(cause)) throw cause;
    throw new SealpinError(cause.code, `the account ${id} was made, and its API key is lost: ${cause.message}`, {
      hint:
        `delete it with sealpin account delete ${id} --destroy (docs/operating.md), and run npm run ` +
        'setup again a minute later',
      cause,
    });
  });
  print(`✓ made the account ${id}; its first API key, with all scopes, is in ${apiKeyFile} and nowhere else`);
}

const setupText = 'This link was made by npm run setup, to see whether the service works.';

/** Sends a small file with the first API key, receives it by its link, and takes both back. */
export async function firstLink(url: string, apiKey: string): Promise<Finding> {
  try {
    const service = connect({ service: url, apiKey });
    const { link, share, files } = await service.send(
      { name: 'setup.txt', source: new TextEncoder().encode(setupText) },
      { expiresAt: new Date(Date.now() + 3_600_000), opens: 1 },
    );
    try {
      const received = await receive(link);
      const [file] = received.files;
      const content = file === undefined ? '' : await (await file.open()).text();
      if (content !== setupText)
        return wrong(`the link of ${url} returned another file than was sent`, 'npm run doctor');
    } finally {
      await service.unshare(share.id);
      for (const { fileId } of files) await service.delete(fileId);
    }
    return fine(`a file was sent, received by its link ${new URL(link).origin}/s#…, and deleted`);
  } catch (error) {
    // The account's owner may have revoked the first key, or let it do less.
    if (isSealpinError(error, 'forbidden', 'unauthorized')) return fine(`no link was sent: ${error.message}`);
    const todo = 'npm run doctor says what is wrong; then run npm run setup again';
    return failure(error, todo, 'no link could be sent and received: ');
  }
}
