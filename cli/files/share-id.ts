/** The share that an argument names. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { isShareId, type Link } from '../../shared/link/index.ts';
import type { ServiceHttp } from '../../client/service-http.ts';
import type { Context } from '../context.ts';
import { sharesPage } from '../../client/sharing.ts';
import { authorizedService, sdkHttp } from '../remote/client.ts';
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
export async function ownShare(
  text: string,
  done: 'taken back' | 'changed',
  context: Context,
): Promise<{ id: string; http: ServiceHttp }> {
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
export function otherService(link: Link, { url }: Service): SealpinError {
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
