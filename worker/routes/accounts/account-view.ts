/** Accounts and API keys in the shape of the API. */
import type { AccountSummary, ApiKeyRecord, NewAccountResponse } from '../../../shared/api.ts';
import { encodePublicKeyFile } from '../../../shared/crypto/index.ts';
import type { AccountRecord } from '../../objects/account/account.ts';
import type { AdministeredAccount } from '../../objects/account/administration.ts';
import type { KeyRecord } from '../../objects/account/keys/key-registry.ts';

/** An account in the shape of the API, with its public key as the text of a `public.key` file. */
export function accountView({ id, label, spki, createdAt }: AccountRecord): NewAccountResponse['account'] {
  return { id, label, publicKey: encodePublicKeyFile(spki), createdAt: new Date(createdAt).toISOString() };
}

/** An account as the operator sees it. */
export function accountSummary({ account, usage, settings }: AdministeredAccount): AccountSummary {
  const { id, label, createdAt } = account;
  const { quotaBytes, disabled, origins } = settings;
  return {
    id,
    label,
    createdAt: new Date(createdAt).toISOString(),
    usage: { files: usage.files, bytes: usage.bytes },
    ...(quotaBytes === null ? {} : { quotaBytes }),
    disabled,
    ...(origins === null ? {} : { origins: [...origins] }),
  };
}

/** An API key's record in the shape of the API. @param account the id of its account */
export function keyView(account: string, key: KeyRecord): ApiKeyRecord {
  return {
    id: key.id,
    account,
    label: key.label,
    scopes: key.scopes,
    createdAt: new Date(key.createdAt).toISOString(),
    ...(key.expiresAt === null ? {} : { expiresAt: new Date(key.expiresAt).toISOString() }),
    createdBy: key.createdBy,
    ...(key.limits === undefined ? {} : { limits: { ...key.limits } }),
  };
}
