/** A share, or the API key of an inbox or invitation, that an argument names by ID or link. */
import { sharesPage } from '../../client/sharing.ts';
import type { Scope } from '../../shared/api.ts';
import { hex, utf8 } from '../../shared/crypto/bytes.ts';
import { keyIdOf } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { isShareId, type Link } from '../../shared/link/index.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { api, authorizedService, sdkHttp } from '../remote/client.ts';
import { firstItems } from '../remote/pages.ts';
import type { Service } from '../remote/service-choice.ts';
import { linkIn } from './received-files.ts';

/**
 * Parses the ID of a share, or its link, and finds the service of the account that made it. Which
 * shares the account has decides, and not the address in the link: a service may have several. But
 * no other service gets the ID of a link, since who has it can use up the openings.
 * @param done what cannot be done to other links, for the error
 * @throws usage, also for a link of another service; link_invalid for an incomplete link,
 * unsupported_version
 */
export async function ownShare(text: string, done: 'taken back' | 'changed', context: Context) {
  const { id, link } = parseShare(text, done);
  const service = await authorizedService(context);
  const http = sdkHttp(service, context);
  if (link !== undefined && link.service !== service.url.href) {
    const { signal } = context;
    const { items } = await firstItems(Infinity, 'shares', (page) => sharesPage(http, { ...page, signal }));
    if (!items.some((share) => share.id === id)) throw otherService(link, service);
  }
  return { id, http };
}

/** The error for a link of another service than the one in use. */
function otherService(link: Link, { url }: Service): SealpinError {
  return new SealpinError('usage', `the link is of ${link.service}, and the service in use is ${url.href}`, {
    hint: 'name the service of the link with --profile or --service; or it has ended, see: sealpin shares',
  });
}

function parseShare(text: string, done: 'taken back' | 'changed'): { id: string; link?: Link } {
  if (isShareId(text)) return { id: text };
  const link = linkIn(text);
  if (link?.kind === 'share') return { id: link.id, link };
  if (link === undefined)
    throw new SealpinError('usage', 'that is neither the ID of a share nor its link', { hint: 'see: sealpin shares' });
  throw new SealpinError('usage', `this link cannot be ${done}`, {
    hint:
      'a link to a blob opens for as long as the blob is stored (sealpin delete); an inbox is ' +
      'closed with: sealpin inbox revoke <id>, an invitation ended with: sealpin invite revoke <id>',
  });
}

/** Says of a share that the service does not find where its ID comes from. */
export function unknownShare(error: unknown): never {
  if (!isSealpinError(error, 'not_found')) throw error;
  throw new SealpinError('not_found', 'the account has no share with this ID', { hint: 'see: sealpin shares' });
}

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
export async function revokeLinkedKey(text: string, { kind, scope }: Kind, context: Context) {
  const link = linkIn(text);
  if (link !== undefined && (link.kind !== kind || !('apiKey' in link)))
    throw new SealpinError('usage', `this is not the link of an ${kind}`, { hint: 'see: sealpin unshare --help' });
  const id = link === undefined ? text : linkedKeyId(link.apiKey);
  const service = await authorizedService(context);
  const routes = api(service, context);
  const key = (await routes.listKeys()).keys.find((each) => each.id === id);
  if (key === undefined && link !== undefined && link.service !== service.url.href) throw otherService(link, service);
  if (key === undefined)
    throw new SealpinError('not_found', `the account has no ${kind} with this ID`, {
      hint: kind === 'inbox' ? 'see: sealpin key list' : 'see: sealpin invite list',
    });
  if (key.scopes.some((each) => each !== scope))
    throw new SealpinError('usage', `this API key does not belong to an ${kind}`, {
      hint: 'see: sealpin key revoke --help',
    });
  const { revoked } = await routes.revokeKey(id, { cascade: false, destroy: false, self: false });
  return { label: key.label, revoked };
}
