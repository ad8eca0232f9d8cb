/** What receipts say about the platform, which may be able to restore what was destroyed. */
import { recoveryDays, type Env } from '../env.ts';

const dayMs = 86_400_000;

/** Until when the platform could restore what was destroyed at a time; nothing where it cannot. @throws misconfigured */
export function recoverable(env: Env, destroyedMs = Date.now()): { recoverableUntil?: string } {
  const days = recoveryDays(env);
  return days > 0 ? { recoverableUntil: new Date(destroyedMs + days * dayMs).toISOString() } : {};
}
