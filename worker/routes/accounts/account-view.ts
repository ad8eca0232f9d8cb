/** Accounts and API keys in the shape of the API. */
import {
  AccountRecord as AccountShape,
  AccountSummary,
  ApiKeyRecord,
  type AccountDetails,
  type EndedShare,
  type NewAccountResponse,
  type Revoked,
} from '../../../shared/api.ts';
import { encodePublicKeyFile } from '../../../shared/crypto/index.ts';
import type { AccountRecord } from '../../objects/account/account-row.ts';
import type { AdministeredAccount } from '../../objects/account/calls/administration-calls.ts';
import type { KeyMaterial, KeyRecord } from '../../objects/account/keys/key-rows.ts';
import { accountColumns, keyColumns, settingColumns } from '../../objects/account/tables.ts';
import { viewed } from '../../objects/columns.ts';

/** An account in the shape of the API, with its public key as the text of a `public.key` file. */
export function accountView(account: AccountRecord): NewAccountResponse['account'] {
  return { ...viewed(accountColumns, AccountShape, account), publicKey: encodePublicKeyFile(account.spki) };
}

/** A rotation that runs. */
export function rotationView(
  { spki, sealed }: NonNullable<KeyMaterial['previous']>,
  remaining: number,
): AccountDetails['rotation'] {
  return { replaces: encodePublicKeyFile(spki), remaining, previous: sealed.toBase64() };
}

/** An account as the operator sees it. */
export function accountSummary({ account, usage, settings }: AdministeredAccount): AccountSummary {
  return {
    ...viewed(accountColumns, AccountSummary, account),
    usage: { files: usage.files, bytes: usage.bytes },
    ...viewed(settingColumns, AccountSummary, settings),
  };
}

/** An API key's record in the shape of the API. @param account the id of its account */
export function keyView(account: string, key: KeyRecord): ApiKeyRecord {
  return { ...viewed(keyColumns, ApiKeyRecord, key), account, limits: key.limits && { ...key.limits } };
}

/** Keys that were revoked, and the shares that ended with them. */
export function revokedView({ revoked, shares }: { revoked: string[]; shares: readonly EndedShare[] }): Revoked {
  return { revoked, shares: shares.length > 0 ? [...shares] : undefined };
}
