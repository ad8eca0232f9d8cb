/** Accounts and API keys in the shape of the API. */
import type { ApiKeyRecord, NewAccountResponse } from '../../shared/api.ts';
import { recipientFromSpki } from '../../shared/crypto/index.ts';
import { pem } from '../auth/recovery-file.ts';
import type { AccountRecord } from '../objects/account.ts';
import type { KeyRecord } from '../objects/key-registry.ts';

/** An account in the shape of the API, with its public key as the text of a `public.key` file. */
export function accountView({ id, label, spki, createdAt }: AccountRecord): NewAccountResponse['account'] {
  const publicKey = `# recipient: ${recipientFromSpki(spki).text}\n${pem('PUBLIC KEY', spki)}`;
  return { id, label, publicKey, createdAt: new Date(createdAt).toISOString() };
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
  };
}
