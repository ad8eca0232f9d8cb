/** The account whose API key a page was given, which is here, in memory, and nowhere else. */
import { accountOf } from '../../client/account-key.ts';
import { serviceHttp } from '../../client/service-http.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Sending } from '../protocol.ts';
import type { Handlers } from './serve-calls.ts';

/** `until`: of a guest, the end of the invitation in ms; Infinity for one without end. */
type SignedIn = { readonly service: string; readonly apiKey: string; readonly until?: number };

let account: SignedIn | undefined;

/** @throws SealpinError `unauthorized` without an API key */
export function signedIn(): SignedIn {
  if (account === undefined) throw new SealpinError('unauthorized');
  return account;
}

export function useAccount(next: SignedIn): void {
  account = next;
}

/** Takes an API key. @throws SealpinError `unauthorized` */
export const signIn: Handlers<Sending>['signIn'] = async ({ root, apiKey }, { signal }) => {
  const candidate = { service: root, apiKey: apiKey.trim() };
  const { key } = await accountOf(serviceHttp(candidate), signal);
  account = candidate;
  return { scopes: key.scopes };
};
