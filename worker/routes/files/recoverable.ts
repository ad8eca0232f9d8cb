/** What receipts say of the platform and backups, which may restore what was destroyed. */
import type { Recoverable } from '../../../shared/api.ts';
import { backupDays, recoveryDays, type Env } from '../../env.ts';
import { dayMs, isoTime } from '../../../shared/time.ts';

/**
 * Returns the time until which the platform, or a backup, could restore what was destroyed at a
 * time; nothing if neither can.
 * @param backedUp whether a backup of the account was ever fetched
 * @throws misconfigured
 */
export function recoverable(env: Env, backedUp: boolean, destroyedMs = Date.now()): Recoverable {
  const kept = backedUp ? backupDays(env) : 0;
  const days = Math.max(recoveryDays(env), kept ?? 0);
  return {
    recoverableUntil: isoTime(days > 0 ? destroyedMs + days * dayMs : null),
    backups: kept === undefined ? 'unknown' : undefined,
  };
}

/**
 * Reads the settings that a receipt needs, so that a wrong one fails before anything is destroyed.
 * @throws misconfigured
 */
export function checkRecoverable(env: Env): void {
  recoverable(env, true);
}
