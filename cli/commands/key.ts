import { type ApiKeyList, scopes, type Scope } from '../../shared/api.ts';
import { apiKeyPrefix } from '../../shared/crypto/keys/api-key-text.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, toggle, valueFlag } from '../command.ts';
import { confirm } from '../terminal/confirm.ts';
import { yesArg, expiryForms, parseExpiry, parseLimits } from '../flags/args.ts';
import type { Context } from '../context.ts';
import { type Api, api, authorizedService } from '../remote/client.ts';
import { rowLines } from '../terminal/fitted-row.ts';
import { hinting } from '../terminal/hints.ts';

const defaultScopes = 'read,write';

function parseScopes(text: string): Scope[] {
  const words = text.split(',').map((word) => word.trim());
  const wrong = words.find((word) => !scopes.some((scope) => scope === word));
  if (wrong !== undefined)
    throw new SealpinError('usage', `unknown scope ${JSON.stringify(wrong)}`, {
      hint: `the scopes are ${scopes.join(', ')}, with commas between them`,
    });
  return scopes.filter((scope) => words.includes(scope));
}

type ListedKey = ApiKeyList['keys'][number];

/** The keys of the account, the one in use marked `current`, which older services do not report. */
async function listed(account: Api): Promise<ListedKey[]> {
  const { keys } = await account.listKeys();
  if (keys.some(({ current }) => current === true)) return keys;
  const { key } = await account.account();
  return keys.map((each) => (each.id === key.id ? { ...each, current: true } : each));
}

function keyLines({ id, createdAt, expiresAt, scopes: may, label, current }: ListedKey, context: Context): string[] {
  const day = createdAt.slice(0, 10);
  const expiry = expiresAt === undefined ? '' : `until ${expiresAt.slice(0, 10)}`;
  const use = current === true ? '(in use here)' : '';
  const remarks = [expiry, use].filter((text) => text !== '').join('  ');
  const plain = `${id}  ${day}  ${may.join(',').padEnd(28)}  ${label}  ${remarks}`.trimEnd();
  const below = [may.join(','), remarks].filter((text) => text !== '');
  return rowLines({ about: `${id}  ${day}`, name: label, below }, context, plain);
}

export const keyCreate = defineCommand({
  about:
    'A key never exceeds the scopes, the expiry or the limits of the key that created it. Without the scope read, a ' +
    'key cannot open files that the service encrypted, not even with the help of the service.',
  args: {
    label: positional('What it is for'),
    scopes: valueFlag('list', `Its scopes: ${scopes.join(', ')} (${defaultScopes})`),
    expires: valueFlag('when', `When it expires: ${expiryForms}`),
    limits: valueFlag('limits', 'What it may store: files=100,bytes=10GB,fileBytes=1GB, or some of these'),
  },
  service: true,
  examples: [
    { command: 'sealpin key create phone', does: 'A key that stores and reads' },
    { command: 'sealpin key create backup --scopes write --expires 90d', does: 'A key that only stores, for 90 days' },
    {
      command: 'sealpin key create inbox --scopes write --limits files=20,bytes=1GB',
      does: 'A key that stores so much and no more',
    },
  ],
  async run({ args, context }) {
    const expiresAt = parseExpiry(args.expires, context.now());
    const limits = args.limits === undefined ? undefined : parseLimits(args.limits);
    const wanted = { label: args.label, scopes: parseScopes(args.scopes ?? defaultScopes), expiresAt, limits };
    const service = await authorizedService(context);
    const { key, apiKey } = await api(service, context).createKey(wanted);
    const can = key.scopes.join(', ');
    context.output.note(`API key "${key.label}" (ID ${key.id}, may ${can}); it is shown only this once`);
    context.output.note(
      `use it with SEALPIN_SERVICE=${service.url.href} and SEALPIN_API_KEY, or with: sealpin login ${service.url.href}`,
    );
    await context.output.result({ apiKey, key }, [apiKey]);
  },
});

export const keyList = defineCommand({
  about: 'At a terminal the scopes have a line of their own; other programs get one line for each key.',
  args: {},
  service: true,
  examples: [{ command: 'sealpin key list', does: 'ID, day, scopes and label of each, and which one is in use here' }],
  async run({ context }) {
    const keys = await listed(api(await authorizedService(context), context));
    const lines = keys.flatMap((key) => keyLines(key, context));
    await context.output.result({ keys }, lines);
  },
});

export const keyRevoke = defineCommand({
  about:
    'Takes effect at once. Revoking the key that this command itself uses requires --self: without another key ' +
    'you are locked out. Revoking the last key with the scope read, the only way to files that the service ' +
    'encrypted, or the last key with the scope keys, the only way to create others, requires --destroy.',
  args: {
    id: positional('Its ID (see: sealpin key list), not the key itself'),
    cascade: toggle('Also revoke every key that was created with it'),
    self: toggle('Allow revoking the key that this command uses'),
    destroy: toggle(
      'Allow revoking the last key that can read (files that the service encrypted are lost) or create keys',
    ),
    yes: yesArg,
  },
  service: true,
  examples: [{ command: 'sealpin key revoke 9f2c… --cascade', does: 'A key, and those that were created with it' }],
  async run({ args, context }) {
    if (args.id.startsWith(apiKeyPrefix))
      throw new SealpinError('usage', 'expected the ID of an API key, got the key itself', {
        hint: 'see: sealpin key list. The key is now in your shell history',
      });
    const account = api(await authorizedService(context), context);
    const going = withDescendants(args.id, args.cascade, await listed(account));
    if (going.length === 0)
      throw new SealpinError('not_found', 'the account has no API key with this ID', { hint: 'see: sealpin key list' });
    if (!args.self && going.some(({ current }) => current === true))
      throw new SealpinError('conflict', `that ${going.length > 1 ? 'includes' : 'is'} the API key in use here`, {
        hint: 'without another key you are locked out; to revoke it anyway add --self',
      });
    const labels = going.map(({ label }) => label).join(', ');
    const what = going.length > 1 ? `${going.length} API keys` : 'the API key';
    await confirm(`Revoke ${what} (${labels})`, args.yes, context);
    const { cascade, destroy, self } = args;
    const { revoked } = await hinting(
      account.revokeKey(args.id, { cascade, destroy, self }),
      'conflict',
      'to revoke it anyway add --destroy (the last key with its scope) or --self (the key in use here)',
    );
    for (const id of revoked) context.output.note(`revoked ${id}`);
    await context.output.result({ revoked }, []);
  },
});

/** The key with an ID and, with `cascade`, all its descendants. */
function withDescendants(id: string, cascade: boolean, keys: readonly ListedKey[]): ListedKey[] {
  const going = new Set(keys.filter((key) => key.id === id));
  // Iterating a set also visits what is added meanwhile.
  for (const { id: issuer } of cascade ? going : [])
    for (const key of keys) if (key.createdBy === issuer) going.add(key);
  return [...going];
}
