/** Accounts and API keys in the shape of the API. */
import * as shapes from '../../../shared/api.ts';
import { encodePublicKeyFile } from '../../../shared/crypto/index.ts';
import type { AccountRecord } from '../../objects/account/account-row.ts';
import type { AdministeredAccount } from '../../objects/account/calls/administration-calls.ts';
import type { KeyMaterial, KeyRecord } from '../../objects/account/keys/key-rows.ts';
import { accountColumns, keyColumns, settingColumns } from '../../objects/account/tables.ts';
import { viewed } from '../../objects/columns.ts';

/** An account in the shape of the API, with its public key as the text of a `public.key` file. */
export function accountView(account: AccountRecord): shapes.NewAccountResponse['account'] {
  return { ...viewed(accountColumns, shapes.AccountRecord, account), publicKey: encodePublicKeyFile(account.spki) };
}

/** A rotation that runs. */
export function rotationView({ spki, sealed }: NonNullable<KeyMaterial['previous']>, remaining: number) {
  return { replaces: encodePublicKeyFile(spki), remaining, previous: sealed.toBase64() };
}

/** An account as the operator sees it. */
export function accountSummary({ account, usage, settings }: AdministeredAccount): shapes.AccountSummary {
  return {
    ...viewed(accountColumns, shapes.AccountSummary, account),
    usage: { files: usage.files, bytes: usage.bytes },
    ...viewed(settingColumns, shapes.AccountSummary, settings),
  };
}

/** An API key's record in the shape of the API. @param account the id of its account */
export function keyView(account: string, key: KeyRecord): shapes.ApiKeyRecord {
  return { ...viewed(keyColumns, shapes.ApiKeyRecord, key), account, limits: key.limits && { ...key.limits } };
}

/** Keys that were revoked, and the shares that ended with them. */
export function revokedView({ revoked, shares = [] }: shapes.Revoked): shapes.Revoked {
  return { revoked, shares: shares.length > 0 ? shares : undefined };
}
