/** API keys in links: what they may use up, and for how long. */
import { NewApiKeyResponse, Revoked, type NewApiKey, type Scope } from '../shared/api.ts';
import { dayMs } from '../shared/time.ts';
import { accountOf } from './account-key.ts';
import { endTime, type ServiceHttp } from './service-http.ts';

/** Defaults of such a key: a link that is forgotten costs no more, and for no longer. */
export const keyDefaults = { days: 90, limits: { files: 200, bytes: 1024 ** 3 } };

/** Terms of a key that is made; those that are undefined are `keyDefaults`, or the caller's own. */
export type KeyTerms = {
  label: string;
  expiresAt?: Date | string | undefined;
  limits?: NonNullable<NewApiKey['limits']> | undefined;
  signal?: AbortSignal | undefined;
};

/**
 * Makes a key with one scope, within the limits of the caller's.
 * @throws what the service refuses with
 */
export async function createLimitedKey(
  http: ServiceHttp,
  scope: Scope,
  { label, expiresAt, limits, signal }: KeyTerms,
): Promise<NewApiKeyResponse> {
  const { key: own } = await accountOf(http, signal);
  // No default lies beyond the caller's own key.
  const ownEnd = own.expiresAt === undefined ? undefined : Date.parse(own.expiresAt);
  const end = new Date(least(Date.now() + keyDefaults.days * dayMs, ownEnd));
  const request: NewApiKey = {
    label,
    scopes: [scope],
    expiresAt: endTime(expiresAt ?? end),
    limits: {
      ...limits,
      files: limits?.files ?? least(keyDefaults.limits.files, own.limits?.files),
      bytes: limits?.bytes ?? least(keyDefaults.limits.bytes, own.limits?.bytes),
    },
  };
  return http.json(NewApiKeyResponse, { method: 'POST', path: 'v1/keys', content: request, signal });
}

/** Revokes a key by its ID. */
export function revokeKeyById(http: ServiceHttp, keyId: string, signal: AbortSignal | undefined): Promise<Revoked> {
  return http.json(Revoked, { method: 'DELETE', path: `v1/keys/${encodeURIComponent(keyId)}`, signal });
}

function least(one: number, other = Infinity): number {
  return Math.min(one, other);
}
