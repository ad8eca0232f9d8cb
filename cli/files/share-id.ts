/** The share that an argument names. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { isShareId } from '../../shared/link/index.ts';
import { linkIn } from './received-files.ts';

/**
 * Parses the ID of a share, or its link.
 * @param done what cannot be done to other links, for the error
 * @throws usage, link_invalid for an incomplete link, unsupported_version
 */
export function shareIdOf(text: string, done: 'taken back' | 'changed'): string {
  if (isShareId(text)) return text;
  const link = linkIn(text);
  if (link?.kind === 'share') return link.id;
  if (link === undefined)
    throw new SealpinError('usage', 'that is neither the ID of a share nor its link', { hint: 'see: sealpin shares' });
  throw new SealpinError('usage', `this link cannot be ${done}`, {
    hint:
      'a link to a blob opens for as long as the blob is stored (sealpin delete); an inbox is ' +
      'closed with: sealpin inbox revoke, an invitation ended with: sealpin invite revoke',
  });
}

/** Says of a share that the service does not find where its ID comes from. */
export function unknownShare(error: unknown): never {
  if (!isSealpinError(error, 'not_found')) throw error;
  throw new SealpinError('not_found', 'the account has no share with this ID', { hint: 'see: sealpin shares' });
}
