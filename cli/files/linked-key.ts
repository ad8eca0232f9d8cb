/** The API keys that links have: of inboxes and of invitations. */
import type { Scope } from '../../shared/api.ts';
import { hex, utf8 } from '../../shared/crypto/bytes.ts';
import { keyIdOf } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { api, authorizedService } from '../remote/client.ts';
import { linkIn } from './received-files.ts';
import { otherService } from './share-id.ts';

type Kind = { readonly kind: 'inbox' | 'invitation'; readonly scope: Scope };

/** The ID of the API key in a link. It follows from the key, which no service needs to be sent. */
export function linkedKeyId(apiKey: string): string {
  return keyIdOf(hex(nodeProvider.sha256(utf8(apiKey))));
}

/**
 * Revokes the key of a link. Which keys the account has decides, and not the address in the link: a
 * service may have several.
 * @param text the ID of the key, or the link
 * @throws not_found, usage for a key or a link of another kind, or of another service;
 * link_invalid for an incomplete link
 */
export async function revokeLinkedKey(
  text: string,
  { kind, scope }: Kind,
  context: Context,
): Promise<{ label: string; revoked: string[] }> {
  const link = linkIn(text);
  if (link !== undefined && (link.kind !== kind || !('apiKey' in link)))
    throw new SealpinError('usage', `this is not the link of an ${kind}`, { hint: 'see: sealpin unshare --help' });
  const id = link === undefined ? text : linkedKeyId(link.apiKey);
  const service = await authorizedService(context);
  const routes = api(service, context);
  const key = (await routes.listKeys()).keys.find((each) => each.id === id);
  if (key === undefined && link !== undefined && link.service !== service.url.href) throw otherService(link, service);
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
