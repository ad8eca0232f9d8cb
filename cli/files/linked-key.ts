/** The API keys that links have: of inboxes and of invitations. */
import type { Scope } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { api, authorizedService } from '../remote/client.ts';
import type { Service } from '../remote/service-choice.ts';
import { linkIn } from './received-files.ts';

type Kind = { readonly kind: 'inbox' | 'invitation'; readonly scope: Scope };

/**
 * Revokes the key of a link.
 * @param text the ID of the key, or the link
 * @throws not_found, usage for a key or a link of another kind
 */
export async function revokeLinkedKey(
  text: string,
  { kind, scope }: Kind,
  context: Context,
): Promise<{ label: string; revoked: string[] }> {
  const service = await authorizedService(context);
  const routes = api(service, context);
  const id = await keyIdOf(text, kind, service, context);
  const key = (await routes.listKeys()).keys.find((each) => each.id === id);
  if (key === undefined)
    throw new SealpinError('not_found', `the account has no ${kind} with this ID`, { hint: `see: ${lists[kind]}` });
  if (key.scopes.some((each) => each !== scope))
    throw new SealpinError('usage', `this API key does not belong to an ${kind}`, {
      hint: 'see: sealpin key revoke --help',
    });
  const { revoked } = await routes.revokeKey(id, { cascade: false, destroy: false, self: false });
  return { label: key.label, revoked };
}

const lists = { inbox: 'sealpin key list', invitation: 'sealpin invite list' } as const;

/** The ID of a key; a link has the key itself, which tells its ID. */
async function keyIdOf(text: string, kind: Kind['kind'], service: Service, context: Context): Promise<string> {
  const link = linkIn(text);
  if (link === undefined) return text;
  if (link.kind !== kind || !('apiKey' in link))
    throw new SealpinError('usage', `this is not the link of an ${kind}`, { hint: 'see: sealpin unshare --help' });
  const { key } = await api({ ...service, apiKey: link.apiKey }, context).account();
  return key.id;
}
