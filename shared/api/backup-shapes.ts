/**
 * The backup of an account, as its operator keeps it: pages of what the account's object holds.
 * Nothing in it opens a file: keys are hashes, the account's private key is sealed under API keys,
 * headers are sealed to the account, records of shares under their links.
 */
import * as v from 'valibot';
import { ApiKeyRecord } from './accounts-shapes.ts';
import { EventAction } from './events-shapes.ts';
import { AccountId, Base64, Bytes, Count, FileId, KeyId, PageQuery, ServiceId, ShareId, Time } from './fields.ts';
import { ContentKind, DeletionReason, KeyFate, RemovedPin, StoredFile } from './files-shapes.ts';
import { Share } from './shares-shapes.ts';

/** The name of the format of a page. One that older services could not restore gets another. */
export const backupFormat = 'sealpin-account-backup/v1';

/** The header in which a restoration shows the `RESTORE_TOKEN`. */
export const restoreHeader = 'Sealpin-Restore';

const Bytes64 = v.pipe(Base64, v.metadata({ format: 'byte', examples: ['MFkw'] }));
const Hash = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/), v.examples(['00'.repeat(32)]));

/**
 * Members of a shape as a backup has them: null for nothing, and missing where the backup is older
 * than the member.
 */
type BackedUp<E extends v.ObjectEntries> = {
  [K in keyof E]: E[K] extends v.OptionalSchema<infer S, undefined>
    ? v.OptionalSchema<
        S extends v.NullableSchema<v.GenericSchema, undefined> ? S : v.NullableSchema<S, undefined>,
        undefined
      >
    : E[K];
};

function backedUp<E extends v.ObjectEntries>({ entries }: { readonly entries: E }): BackedUp<E> {
  const members = Object.entries(entries).map(([name, member]) => {
    if (!v.isOfType('optional', member)) return [name, member];
    const { wrapped } = member as v.OptionalSchema<v.GenericSchema, undefined>;
    return [name, v.optional(v.isOfType('nullable', wrapped) ? wrapped : v.nullable(wrapped))];
  });
  return Object.fromEntries(members) as BackedUp<E>;
}

/**
 * Position at which a page begins: behind a key (`k`), file (`f`), share (`s`) or event (`e`) by
 * its number, a receipt (`r`) by its file ID, or a used URL (`u`) by key ID and name; without one,
 * at the first of them.
 */
const cursorPattern = /^([kfse]([1-9][0-9]{0,14})?|r([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?|u([0-9a-f]{80})?)$/;
const Cursor = v.pipe(v.string(), v.regex(cursorPattern, 'cursor is not one that this service gave out'));

export const BackupQuery = v.object({
  limit: PageQuery.entries.limit,
  cursor: v.optional(v.pipe(Cursor, v.description('`next` of the previous page'))),
});

/**
 * The account itself, on the first page. `recovery`: its recovery file, `recoveryHash`: of the
 * secret in that file, `lastEvent`: the number of its last event, also where that is no longer
 * kept. `replaced`: the public key before the last rotation; `previous`: its private key, sealed to
 * the new pair, where headers are still sealed to it.
 */
export const BackupAccount = v.strictObject({
  label: v.string(),
  publicKey: Bytes64,
  createdAt: Time,
  recoveryKey: v.nullable(v.string()),
  recovery: v.nullable(Bytes64),
  recoveryHash: v.nullable(v.string()),
  replaced: v.optional(Bytes64),
  previous: v.optional(Bytes64),
  lastEvent: Count,
  quotaBytes: v.nullable(Bytes),
  disabled: v.boolean(),
  origins: v.nullable(v.array(v.string())),
});
export type BackupAccount = v.InferOutput<typeof BackupAccount>;

const Limits = v.strictObject({
  files: v.nullable(Count),
  bytes: v.nullable(Bytes),
  fileBytes: v.nullable(Bytes),
  storedFiles: Count,
  storedBytes: Bytes,
});

/**
 * An API key, also a revoked one. `sealed`: the account's private key, sealed under this API key.
 * `signer`: the public half of what it signs URLs with, where the service knows it.
 */
export const BackupKey = v.strictObject({
  ...backedUp(v.omit(ApiKeyRecord, ['account', 'limits'])),
  createdAt: Time,
  expiresAt: v.nullable(Time),
  hash: Hash,
  revokedAt: v.nullable(Time),
  sealed: v.nullable(Bytes64),
  signer: v.optional(v.nullable(Bytes64)),
  limits: v.nullable(Limits),
});
export type BackupKey = v.InferOutput<typeof BackupKey>;

/**
 * A file. `tags`: HMACs of its tags, `denied`: its CID is on the denylist. `rewrapped`: how often
 * its header was sealed to another pair; `isBehind`: it still is sealed to the pair before.
 * `isProvisional`: it stays only if another upload of its key names it. `names`: the IDs of those
 * that go with it.
 */
export const BackupFile = v.strictObject({
  ...backedUp(v.omit(StoredFile, ['size', 'metadata', 'pins'])),
  number: Count,
  contentType: v.nullable(v.string()),
  bytes: Bytes,
  beginning: ContentKind,
  service: ServiceId,
  header: v.nullable(Bytes64),
  createdAt: Time,
  createdBy: v.string(),
  expiresAt: v.nullable(Time),
  version: Count,
  changedAt: v.nullable(Time),
  description: v.nullable(v.string()),
  tags: v.array(v.string()),
  denied: v.boolean(),
  rewrapped: v.optional(Count),
  isBehind: v.optional(v.literal(true)),
  isProvisional: v.optional(v.literal(true)),
  names: v.optional(v.array(FileId)),
});
export type BackupFile = v.InferOutput<typeof BackupFile>;

/**
 * A share. `record` is sealed under the secret in its link, and null once the share has ended.
 * `opened`: how often the record was handed out.
 */
export const BackupShare = v.strictObject({
  ...backedUp(v.omit(Share, ['opensLeft'])),
  number: Count,
  createdAt: Time,
  expiresAt: Time,
  opened: Count,
  record: v.nullable(Bytes64),
});
export type BackupShare = v.InferOutput<typeof BackupShare>;

/** The receipt of a deleted file. `shares`: the IDs of those that ended with it. */
export const BackupReceipt = v.strictObject({
  fileId: FileId,
  reason: DeletionReason,
  key: KeyFate,
  pins: v.array(RemovedPin),
  shares: v.array(ShareId),
  deletedAt: Time,
});
export type BackupReceipt = v.InferOutput<typeof BackupReceipt>;

/**
 * An event. `subject`: the ID of what it happened to, `source`: its name where another object
 * reported it.
 */
export const BackupEvent = v.strictObject({
  number: Count,
  time: Time,
  action: EventAction,
  by: v.nullable(KeyId),
  subject: v.string(),
  source: v.nullable(v.string()),
});
export type BackupEvent = v.InferOutput<typeof BackupEvent>;

/** A signed URL that may be used once, and was. `name`: the SHA-256 of its own. */
export const BackupSignedUse = v.strictObject({ apiKey: KeyId, name: Hash, expiresAt: Time });
export type BackupSignedUse = v.InferOutput<typeof BackupSignedUse>;

/**
 * A page of a backup. `pinsOf`: the `SERVICE_ID` whose name the pins have. `after`: where it
 * begins, null for the first page; `next`: where the page after it begins, null for the last one.
 * `pair`: the public key of the account when the page was read, where it has ever been replaced.
 */
export const BackupPage = v.strictObject({
  format: v.pipe(v.literal(backupFormat), v.examples([backupFormat])),
  accountId: AccountId,
  pinsOf: v.string(),
  after: v.nullable(Cursor),
  next: v.nullable(Cursor),
  pair: v.optional(Bytes64),
  account: v.nullable(BackupAccount),
  keys: v.array(BackupKey),
  files: v.array(BackupFile),
  shares: v.array(BackupShare),
  receipts: v.array(BackupReceipt),
  events: v.array(BackupEvent),
  signedUses: v.optional(v.array(BackupSignedUse)),
});
export type BackupPage = v.InferOutput<typeof BackupPage>;

/**
 * Progress of restoring an account. `unpinned`: files of this page of which the pinning service
 * holds no pin.
 */
export const RestoredPage = v.object({
  accountId: AccountId,
  next: v.nullable(Cursor),
  keys: Count,
  files: Count,
  unpinned: v.array(FileId),
});
export type RestoredPage = v.InferOutput<typeof RestoredPage>;
