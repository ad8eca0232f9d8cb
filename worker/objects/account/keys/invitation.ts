/**
 * The keys of invitations, which have the scope `send`: what they store ends, and they share what
 * they stored, and nothing else.
 */
import type { Scope, StoredFile } from '../../../../shared/api.ts';
import { dayMs } from '../../../../shared/time.ts';
import { shareMaxima, type Env } from '../../../env.ts';
import { err, type Failure } from '../../result.ts';

/** The scopes of which one is enough to store files, and to make, list and end shares. */
export const storing: readonly Scope[] = ['write', 'send'];
export const sharing: readonly Scope[] = ['share', 'send'];

/** The most invitations of an account that have not ended. */
export const maxInvitations = 100;

/** SQL condition of a column that has the ID of an invitation's key. */
export const ofInvitation = `IN (SELECT id FROM api_key WHERE scopes = 'send')`;

type Scoped = { readonly scopes: readonly Scope[] };

export function isInvitation({ scopes }: Scoped): boolean {
  return scopes.includes('send');
}

/**
 * Tells whether a key may hand a scope on. An invitation stores, shares and deletes what it stored:
 * who may do all of that may invite.
 */
export function covers({ scopes }: Scoped, scope: Scope): boolean {
  const needed: readonly Scope[] = scope === 'send' ? ['write', 'share', 'delete'] : [scope];
  return scopes.includes(scope) || needed.every((each) => scopes.includes(each));
}

/**
 * Checks that a key may store a file on these terms: that of an invitation only one that ends soon
 * enough.
 * @returns `insufficient_scope`, `invalid_request`, `forbidden`
 */
export function exceedsInvitation(
  env: Env,
  key: Scoped & { readonly expiresAt: number | null },
  { mode, expiresAt }: { mode: StoredFile['mode']; expiresAt: number | null },
  nowMs: number,
): Failure | undefined {
  if (!isInvitation(key)) return undefined;
  if (mode === 'encrypted') return err('insufficient_scope', 'this needs a key with the scope write');
  if (expiresAt === null) return err('invalid_request', 'a key with the scope send must say when the file expires');
  const { days } = shareMaxima(env);
  if (expiresAt > nowMs + days * dayMs)
    return err('invalid_request', `a file of an invitation lasts at most ${days} days at this service`);
  if (expiresAt > (key.expiresAt ?? Infinity)) return err('forbidden', 'the file would outlive your key');
  return undefined;
}
