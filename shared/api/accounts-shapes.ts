/** The wire shapes of accounts and API keys. */
import * as v from 'valibot';
import {
  AccountId,
  ApiKeyText,
  Bytes,
  Count,
  ExpiresAt,
  KeyId,
  Label,
  Positive,
  Scope,
  scopes,
  Timestamp,
} from './fields.ts';
import { RunningRotation } from './rotation-shapes.ts';
import { EndedShare } from './shares-shapes.ts';

/**
 * `recovery`: the public key (`age1…`, `age1tag1…` or an SPKI PEM) of the recovery file.
 * `quotaBytes`: how many bytes on IPFS the account may store.
 */
export const NewAccount = v.strictObject({
  label: Label,
  recovery: v.optional(v.pipe(v.string(), v.maxLength(4096))),
  quotaBytes: v.optional(Bytes),
});
export type NewAccount = v.InferOutput<typeof NewAccount>;

/** Limits on what a key may store: files, bytes on IPFS altogether, and bytes of one file. */
const limits = { files: v.optional(Positive), bytes: v.optional(Positive), fileBytes: v.optional(Positive) };
export const KeyLimits = v.object(limits);

/** Description of an API key, without the key. */
export const ApiKeyRecord = v.object({
  id: KeyId,
  account: AccountId,
  label: v.pipe(v.string(), v.examples(['backup'])),
  scopes: v.array(Scope),
  createdAt: Timestamp,
  expiresAt: v.optional(Timestamp),
  createdBy: v.nullable(v.pipe(v.string(), v.examples(['5f0c9e2ab71d3846']))),
  limits: v.optional(KeyLimits),
});
export type ApiKeyRecord = v.InferOutput<typeof ApiKeyRecord>;

export const AccountRecord = v.object({
  id: AccountId,
  label: v.pipe(v.string(), v.examples(['team'])),
  publicKey: v.pipe(v.string(), v.examples(['-----BEGIN PUBLIC KEY-----\n…\n-----END PUBLIC KEY-----\n'])),
  createdAt: Timestamp,
});

/** `recovery`: the public key of the recovery file. */
export const AccountWithRecovery = v.object({ ...AccountRecord.entries, recovery: v.optional(v.string()) });

/**
 * `left`: what its limits leave, besides what its unfinished uploads announced; without a member
 * there is no such limit. `sealed`: the account's private key, sealed to this API key (base64); for
 * keys with `read` only.
 */
export const OwnApiKey = v.object({
  ...ApiKeyRecord.entries,
  left: v.optional(v.object({ files: v.optional(Count), bytes: v.optional(Bytes) })),
  sealed: v.optional(v.pipe(v.string(), v.examples(['c2VhbGVk']))),
});

export const Usage = v.object({ files: Count, bytes: Bytes });

/**
 * `usage`, `quotaBytes`, how many bytes it may reach, and `rotation` are for keys with `read` only;
 * the age of the account and its recovery key for those with `read` or `keys`; its label is not for
 * keys with `send`.
 */
export const AccountDetails = v.object({
  account: v.object({
    ...AccountWithRecovery.entries,
    label: v.optional(AccountRecord.entries.label),
    createdAt: v.optional(Timestamp),
  }),
  usage: v.optional(Usage),
  quotaBytes: v.optional(Bytes),
  rotation: v.optional(RunningRotation),
  key: OwnApiKey,
});
export type AccountDetails = v.InferOutput<typeof AccountDetails>;

/**
 * Scopes, expiry and limits of a new key lie within its issuer's; expiry and limits default to the
 * issuer's.
 */
export const NewApiKey = v.strictObject({
  label: Label,
  scopes: v.pipe(
    v.array(Scope),
    v.nonEmpty(),
    // A list longer than that of all scopes has one twice; looking up each of its items would be
    // quadratic.
    v.checkItems(
      (scope, index, all) => all.length <= scopes.length && all.indexOf(scope) === index,
      'a scope appears twice',
    ),
  ),
  expiresAt: v.optional(ExpiresAt),
  limits: v.optional(v.strictObject(limits)),
});
export type NewApiKey = v.InferOutput<typeof NewApiKey>;

/** `apiKey` appears in this response only. */
export const NewApiKeyResponse = v.object({ key: ApiKeyRecord, apiKey: ApiKeyText });
export type NewApiKeyResponse = v.InferOutput<typeof NewApiKeyResponse>;

/** `current`: the key of the request itself. */
export const ListedApiKey = v.object({ ...ApiKeyRecord.entries, current: v.optional(v.boolean()) });

export const ApiKeyList = v.object({ keys: v.array(ListedApiKey) });
export type ApiKeyList = v.InferOutput<typeof ApiKeyList>;

/** The ids of the keys that the request revoked, and the shares that ended with them. */
export const Revoked = v.object({ revoked: v.array(KeyId), shares: v.optional(v.array(EndedShare)) });
export type Revoked = v.InferOutput<typeof Revoked>;

/** Counts of the files, keys and shares that ended with an account. */
export const AccountReceipt = v.object({ account: AccountId, files: Count, keys: Count, shares: v.optional(Count) });
export type AccountReceipt = v.InferOutput<typeof AccountReceipt>;

/**
 * `privateKey`: the text of the account's opened recovery file, with its line `# recovery: …` and
 * its PEM block.
 */
export const Recover = v.strictObject({ privateKey: v.pipe(v.string(), v.maxLength(4096)), label: v.optional(Label) });
export type Recover = v.InferOutput<typeof Recover>;

/** `apiKey` appears in this response only. */
export const NewAccountResponse = v.object({ account: AccountRecord, key: ApiKeyRecord, apiKey: ApiKeyText });
export type NewAccountResponse = v.InferOutput<typeof NewAccountResponse>;
