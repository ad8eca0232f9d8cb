import { accountIdentities } from '../../client/account-key.ts';
import { concernsDelivery, openSealed, readDelivery } from '../../client/inboxes.ts';
import { rotateAccount } from '../../client/account-rotation.ts';
import type { ServiceHttp } from '../../client/service-http.ts';
import { sharesPage } from '../../client/sharing.ts';
import type { ApiKeyRecord } from '../../shared/api.ts';
import { exitOf, SealpinError } from '../../shared/errors.ts';
import { sealedParcelType } from '../../shared/link/index.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { yesArg } from '../flags/args.ts';
import { type Api, api, authorizedService, requireScopes, sdkHttp } from '../remote/client.ts';
import { firstItems } from '../remote/pages.ts';
import { confirm } from '../terminal/confirm.ts';
import { visible } from '../terminal/output.ts';
import { countText } from '../terminal/size.ts';

export const command = defineCommand({
  about:
    'For the owner of an account, with an API key that has the scopes read and keys: the account gets a new key ' +
    'pair, and what the service encrypted is sealed to it, file by file. All other API keys with read end. Use it ' +
    'when somebody may have had one: they get nothing that is stored from then on, and keep what they have copied.',
  args: {
    yes: {
      ...yesArg,
      description:
        'Do not ask. Required where deliveries to old inboxes, which are sealed to the account key, may not ' +
        'open any more (key export keeps that key)',
    },
  },
  service: true,
  interrupted: 'what is done stays: the same command completes it',
  examples: [{ command: 'sealpin account rotate', does: 'It shows what ends with the old pair, and asks' }],
  async run({ args, context }) {
    const { output, signal } = context;
    const service = await authorizedService(context);
    const [http, routes] = [sdkHttp(service, context), api(service, context)];
    const { account, key, rotation, usage } = await routes.account();
    requireScopes(key.scopes, ['read', 'keys']);
    if (rotation === undefined) {
      const isLossy = await showEndings({ http, routes, apiKey: service.apiKey, key }, context);
      if (isLossy && !args.yes)
        throw new SealpinError('conflict', 'deliveries may be lost: nothing was changed', {
          hint:
            'keep the key that opens them with sealpin key export, and end old inboxes with ' +
            'sealpin inbox revoke <id>; then add --yes',
        });
      await confirm('Replace the key pair of the account', args.yes, context);
    } else output.note(`the key pair is being replaced already: ${countText(rotation.remaining, 'file')} left`);
    const total = rotation?.remaining ?? usage?.files ?? 0;
    const progress = output.progress('sealing', total, { amount: (count) => countText(count, 'file') });
    let left = total;
    const rotated = await rotateAccount(http, {
      signal,
      onProgress(remaining) {
        progress.add(left - remaining);
        left = remaining;
      },
    });
    progress.done();
    for (const id of rotated.revoked) output.note(`revoked ${id}`);
    for (const id of rotated.unreadable) output.warn(`${id} is damaged, and opens with neither key pair`);
    output.note('the account has a new key pair, and what the service encrypts is sealed to it');
    output.note('what sealpin key export wrote is of the pair before; the next sealpin backup needs a new folder');
    if (account.recovery !== undefined)
      output.note(
        `the recovery file has a new secret, and copies of the one before recover nothing: ` +
          `fetch /v1/accounts/${account.id}/recovery again`,
      );
    await output.result({ account: account.id, ...rotated }, []);
  },
});

/** Asks a service as the holder of an API key. */
type Asking = { readonly http: ServiceHttp; readonly routes: Api; readonly apiKey: string; readonly key: ApiKeyRecord };

/** Shows what ends with the pair. @returns whether deliveries may be lost */
async function showEndings(asking: Asking, context: Context): Promise<boolean> {
  const { http, routes, key } = asking;
  const { output, signal } = context;
  const { keys } = await routes.listKeys();
  const ending = keys.filter(({ id, scopes }) => id !== key.id && scopes.includes('read'));
  const ends = new Set(ending.map(({ id }) => id));
  for (const { id, label, scopes } of ending)
    output.note(`the API key ${id} ends: ${visible(label)} (${scopes.join(', ')})`);
  if (key.scopes.includes('share')) {
    const { items } = await firstItems(Infinity, 'shares', (page) => sharesPage(http, { ...page, signal }));
    const count = items.filter(({ createdBy, state }) => state === 'active' && ends.has(createdBy)).length;
    if (count > 0) output.note(`${countText(count, 'link')} that these keys made end with them`);
  } else if (ending.length > 0) output.note('the links that these keys made end with them');
  const { uploads } = await routes.listUploads();
  const open = uploads.filter(({ createdBy, state }) => state === 'open' && ends.has(createdBy ?? '')).length;
  if (open > 0) output.note(`${countText(open, 'unfinished upload')} of these keys end with them`);
  const writers = keys.filter(
    ({ scopes, expiresAt }) =>
      scopes.join() === 'write' && (expiresAt === undefined || Date.parse(expiresAt) > context.now()),
  );
  for (const { id, label } of writers)
    output.warn(`the API key ${id} only stores: if ${visible(label)} is an old inbox, what comes there opens no more`);
  return (await warnOfDeliveries(asking, context)) || writers.length > 0;
}

/**
 * Exit codes of deliveries that a rotation takes nothing from: they are gone, another key opens
 * them, or none.
 */
const unaffected: readonly number[] = [3, 4, 5];

/** Warns of deliveries that only the account's key opens, or may. @returns whether any do */
async function warnOfDeliveries({ http, routes, apiKey }: Asking, { output, signal }: Context): Promise<boolean> {
  const query = { mode: 'plain', contentType: sealedParcelType } as const;
  const { items } = await firstItems(Infinity, 'files', (page) => routes.list({ ...page, ...query }));
  const identities = items.length === 0 ? [] : await accountIdentities(http, apiKey, signal);
  let sealed = 0;
  let unread = 0;
  for (const file of items) {
    try {
      await openSealed(http, file, await readDelivery(http, file, signal), identities);
      sealed += 1;
    } catch (error) {
      if (!concernsDelivery(error)) throw error;
      if (unaffected.includes(exitOf(error))) continue;
      unread += 1;
      output.warn(`the delivery ${file.fileId} may open no more: it cannot be looked into (${error.message})`);
    }
  }
  if (sealed > 0)
    output.warn(`${sealed === 1 ? 'a delivery' : `${sealed} deliveries`} sealed to the key before will open no more`);
  return sealed + unread > 0;
}
