import { type ApiKeyRecord, scopes, type Scope } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { visible } from '../output.ts';
import { type Api, api, authorizedService } from '../service.ts';

const defaultScopes = 'read,write';
const dayMs = 24 * 3600 * 1000;

async function routes(context: Context): Promise<Api> {
  return api(await authorizedService(context), context);
}

function parseScopes(text: string): Scope[] {
  const words = text.split(',');
  const wrong = words.find((word) => !scopes.some((scope) => scope === word));
  if (wrong !== undefined)
    throw new SealpinError('usage', `--scopes has ${JSON.stringify(wrong)}`, {
      hint: `the scopes are ${scopes.join(', ')}, with commas between them`,
    });
  return scopes.filter((scope) => words.includes(scope));
}

/** `30d`, or a date. */
function parseExpiry(text: string, nowMs: number): string {
  const days = /^([1-9]\d{0,4})d$/.exec(text)?.[1];
  const time =
    days === undefined
      ? /^\d{4}-\d{2}-\d{2}/.test(text)
        ? Date.parse(text)
        : Number.NaN
      : nowMs + Number(days) * dayMs;
  if (Number.isNaN(time))
    throw new SealpinError('usage', '--expires is neither a number of days nor a date', {
      hint: 'such as 30d, or 2027-01-31',
    });
  if (time <= nowMs) throw new SealpinError('usage', '--expires is in the past');
  return new Date(time).toISOString();
}

function keyText(key: ApiKeyRecord): string {
  const expiry = key.expiresAt === undefined ? '' : `  until ${key.expiresAt.slice(0, 10)}`;
  return `${key.id}  ${key.createdAt.slice(0, 10)}  ${key.scopes.join(',').padEnd(22)}  ${visible(key.label)}${expiry}`;
}

export const create = defineCommand({
  name: 'key create',
  summary: 'Make an API key and print it, this once',
  about:
    'A key can do no more and live no longer than the one that makes it. Without the scope read it cannot open what the service encrypted, because nothing in the service could open it for that key.',
  args: {
    label: { type: 'positional', description: 'What it is for' },
    scopes: {
      type: 'string',
      valueHint: 'list',
      description: `What it may do: ${scopes.join(', ')} (${defaultScopes})`,
    },
    expires: { type: 'string', valueHint: 'when', description: 'When it ends: 30d, or a date' },
  },
  service: true,
  examples: [
    { command: 'sealpin key create phone', does: 'A key that stores and reads' },
    { command: 'sealpin key create backup --scopes write --expires 90d', does: 'A key that only stores, for 90 days' },
  ],
  async run({ args, context }) {
    const expiry = args.expires === undefined ? {} : { expiresAt: parseExpiry(args.expires, context.now()) };
    const wanted = { label: args.label, scopes: parseScopes(args.scopes ?? defaultScopes), ...expiry };
    const { key, apiKey } = await (await routes(context)).createKey(wanted);
    context.output.note(`${key.id}: shown this once; keep it safe`);
    await context.output.result({ apiKey, key }, [apiKey]);
  },
});

export const list = defineCommand({
  name: 'key list',
  summary: 'List the API keys of the account that are not revoked',
  args: {},
  service: true,
  examples: [{ command: 'sealpin key list', does: 'ID, day, scopes and label of each' }],
  async run({ context }) {
    const { keys } = await (await routes(context)).listKeys();
    await context.output.result({ keys }, keys.map(keyText));
  },
});

export const revoke = defineCommand({
  name: 'key revoke',
  summary: 'Revoke an API key, at once',
  about:
    'The last key with the scope read is the only way to the files that the service encrypted: it goes only with --destroy, and they with it.',
  args: {
    id: { type: 'positional', description: 'Its ID (see: sealpin key list), not the key itself' },
    cascade: { type: 'boolean', description: 'And every key that was made with it' },
    destroy: {
      type: 'boolean',
      description: 'Also the last one that can read. What the service encrypted is lost then',
    },
  },
  service: true,
  examples: [{ command: 'sealpin key revoke 9f2c… --cascade', does: 'A key, and those that were made with it' }],
  async run({ args, context }) {
    if (args.id.startsWith('sp_'))
      throw new SealpinError('usage', 'that is an API key, and its ID is wanted', {
        hint: 'see: sealpin key list. The key stands in the history of your shell now',
      });
    const { revoked } = await (
      await routes(context)
    ).revokeKey(args.id, { cascade: args.cascade, destroy: args.destroy });
    for (const id of revoked) context.output.note(`revoked ${visible(id)}`);
    await context.output.result({ revoked }, []);
  },
});
