/** `sealpin account …`: what the operator of a service does. */
import type { AccountChanges, AccountSummary } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, toggle, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { readRecipients } from '../keys/key-files.ts';
import { operatedService } from '../remote/client.ts';
import { operator } from '../remote/operator-routes.ts';
import { visible } from '../terminal/output.ts';
import { rowLines } from '../terminal/fitted-row.ts';
import { parseSize, sizeText, usedText } from '../terminal/size.ts';

const idArg = positional('The ID of the account (see: sealpin account list)');

function accountLines({ id, label, createdAt, usage, quotaBytes, disabled }: AccountSummary, context: Context) {
  const day = createdAt.slice(0, 10);
  const size = quotaBytes === undefined ? sizeText(usage.bytes) : usedText(usage.bytes, quotaBytes);
  const state = disabled ? '  (disabled)' : '';
  const about = `${day}  ${size.padEnd(20)}`;
  const row = { about: about.trimEnd(), name: visible(label), below: [`${id}${state}`] };
  return rowLines(row, context, `${id}  ${about}  ${row.name}${state}`);
}

export const accountCreate = defineCommand({
  about:
    'For the operator of the service, like all account commands but account rotate. Prints the first API key of the ' +
    'account, which has all scopes, once: hand it over, and let its holder make a key of their own and revoke this ' +
    'one. Without a recovery key, an account whose keys are lost is lost.',
  args: {
    label: positional('What the account is called'),
    quota: valueFlag('size', 'How much it may store, such as 50GB'),
    recovery: valueFlag(
      'public_key',
      'The public key that can recover the account: a file, or age1…. It belongs to the future owner',
      { path: true },
    ),
  },
  service: true,
  examples: [
    {
      command: 'sealpin account create research --quota 50GB --recovery research-public.key',
      does: 'An account with a quota, and a key that recovers it',
    },
  ],
  async run({ args, context }) {
    const { output } = context;
    const quotaBytes = args.quota === undefined ? undefined : parseSize(args.quota, 'the quota');
    const recovery = args.recovery === undefined ? undefined : await recoveryKey(args.recovery, context);
    const service = await operatedService(context);
    const { create: createAccount, list: listAccounts } = operator(service, context);
    const same = (await listAccounts()).find(({ label }) => label === args.label);
    const { account, apiKey, key } = await createAccount({ label: args.label, quotaBytes, recovery });
    if (same !== undefined)
      output.warn(`another account is called "${visible(same.label)}", too: tell them apart by ID (${same.id})`);
    output.note(`account "${visible(account.label)}" (ID ${account.id})`);
    output.note('its first API key, with all scopes, is shown only this once');
    output.note(`its holder uses it with: sealpin login ${service.url.href}`);
    await output.result({ account, apiKey, key }, [apiKey]);
  },
});

/** @throws key_invalid when the file has more than one key, or none */
async function recoveryKey(file: string, context: Context): Promise<string> {
  const [recipient, ...more] = await readRecipients([file], context);
  if (recipient?.text === undefined || more.length > 0)
    throw new SealpinError('key_invalid', `${visible(file)} must contain one public key`);
  return recipient.text;
}

export const accountList = defineCommand({
  about:
    'The oldest first. An account that was just made or deleted may take a minute to appear or disappear. At a ' +
    'terminal the ID has a line of its own; other programs get one line for each account.',
  args: {},
  service: true,
  examples: [
    { command: 'sealpin account list', does: 'ID, day, size and quota, label' },
    { command: "sealpin account list --json | jq '[.accounts[].usage.bytes] | add'", does: 'All bytes on IPFS' },
  ],
  async run({ context }) {
    const accounts = await operator(await operatedService(context), context).list();
    const lines = accounts.flatMap((account) => accountLines(account, context));
    await context.output.result({ accounts }, lines);
  },
});

export const accountQuota = defineCommand({
  about: 'A quota below what is stored deletes nothing: the account stores nothing more.',
  args: { id: idArg, size: positional('How much it may store, such as 50GB, or none') },
  service: true,
  examples: [{ command: 'sealpin account quota 7Xy0… 50GB', does: 'At most 50 GB on IPFS' }],
  async run({ args, context }) {
    const quotaBytes = args.size === 'none' ? null : parseSize(args.size, 'the quota');
    await changeAccount(args.id, { quotaBytes }, context);
  },
});

export const accountDisable = defineCommand({
  about: 'None of its API keys works until it is enabled again. What it stored stays, and its shares can be opened.',
  args: { id: idArg },
  service: true,
  examples: [{ command: 'sealpin account disable 7Xy0…', does: 'At once' }],
  run: async ({ args, context }) => await changeAccount(args.id, { disabled: true }, context),
});

export const accountEnable = defineCommand({
  args: { id: idArg },
  service: true,
  examples: [{ command: 'sealpin account enable 7Xy0…', does: 'At once' }],
  run: async ({ args, context }) => await changeAccount(args.id, { disabled: false }, context),
});

async function changeAccount(id: string, changes: AccountChanges, context: Context): Promise<void> {
  const account = await operator(await operatedService(context), context).change(id, changes);
  await context.output.result({ account }, accountLines(account, context));
}

export const accountDelete = defineCommand({
  about:
    'With all files, API keys and shares in it. The keys of files that the service encrypted are ' +
    'destroyed. There is no way back.',
  args: { id: idArg, destroy: toggle('Required, because everything in the account is lost') },
  service: true,
  examples: [{ command: 'sealpin account delete 7Xy0… --destroy', does: 'The account and everything in it' }],
  async run({ args, context }) {
    if (!args.destroy)
      throw new SealpinError('usage', 'this destroys the account with all files, API keys and shares in it', {
        hint: 'if that is meant, add --destroy; sealpin account disable is reversible',
      });
    const receipt = await operator(await operatedService(context), context).remove(args.id);
    const { files, keys, shares = 0 } = receipt;
    context.output.note(`deleted account ${receipt.account} (files: ${files}, API keys: ${keys}, shares: ${shares})`);
    await context.output.result({ receipt }, []);
  },
});
