/** Keys of invitations, with the scope `send`: what they store ends; they share that alone. */
import type { Scope, StoredFile } from '../../../../shared/api.ts';
import { shareEnd, shareMaxima, type Env } from '../../../env.ts';
import { err, type Result } from '../../result.ts';

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
 * Returns when a file ends that a key may store on these terms: that of an invitation always does.
 * @returns `insufficient_scope`, `invalid_request`, `forbidden`
 */
export function invitedEnd(
  env: Env,
  key: Scoped & { readonly expiresAt: number | null },
  { mode, expiresAt }: { mode: StoredFile['mode']; expiresAt: number | null },
  nowMs: number,
): Result<{ expiresAt: number | null }> {
  if (!isInvitation(key)) return { ok: true, expiresAt };
  if (mode === 'encrypted') return err('insufficient_scope', 'this needs a key with the scope write');
  const end = shareEnd(env, expiresAt, nowMs);
  const most = `${shareMaxima(env).days} days at this service`;
  if (end === undefined) return err('invalid_request', `a file of an invitation lasts at most ${most}`);
  const latest = key.expiresAt ?? Infinity;
  if (expiresAt !== null && end > latest) return err('forbidden', 'the file would outlive your key');
  return { ok: true, expiresAt: Math.min(end, latest) };
}
