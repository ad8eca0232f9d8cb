/** The wire shapes of shares. */
import * as v from 'valibot';
import { Base64, Count, ExpiresAt, FileId, KeyId, Label, Positive, Recoverable, ShareId, Timestamp } from './fields.ts';

/**
 * Fate of the record of a share that was ended. `scheduled`: its object did not respond, and the
 * service tries again until it does.
 */
export const EndedShare = v.object({ id: ShareId, record: v.picklist(['destroyed', 'scheduled']) });
export type EndedShare = v.InferOutput<typeof EndedShare>;

/** The most files that a share names. */
const maxSharedFiles = 500;

/**
 * Terms that its maker gives a share. `label`: in lists; the receiver does not see it. `opens`: 5
 * when undefined.
 */
export const ShareTerms = v.object({ label: v.optional(Label), opens: v.optional(Positive) });
export type ShareTerms = v.InferOutput<typeof ShareTerms>;

/**
 * A share to be made. `record`: opaque to the service (docs/links.md). `files`: those whose
 * deletion ends the share. `password`: whether the record needs one. `id`: drawn by the client,
 * where the record is signed for it; by the service otherwise.
 */
export const ShareRequest = v.strictObject({
  id: v.optional(ShareId),
  record: v.pipe(Base64, v.examples(['c2VhbGVk'])),
  files: v.pipe(v.array(FileId), v.maxLength(maxSharedFiles)),
  expiresAt: v.optional(ExpiresAt),
  ...ShareTerms.entries,
  password: v.boolean(),
});
export type ShareRequest = v.InferOutput<typeof ShareRequest>;

/**
 * Changes to a share that is active. `opens`: how often it opens in all, those times included that
 * it was opened already.
 */
export const ShareChange = v.pipe(
  v.strictObject({ expiresAt: v.optional(ExpiresAt), opens: v.optional(Positive) }),
  v.minEntries(1),
);
export type ShareChange = v.InferOutput<typeof ShareChange>;

/**
 * Public status of a share, for anyone who knows its ID. `used_up`: its record is destroyed as soon
 * as no opening can be repeated; `expired`, `revoked`: it is destroyed.
 */
export const ShareStatus = v.object({
  id: ShareId,
  state: v.picklist(['active', 'used_up', 'expired', 'revoked']),
  password: v.boolean(),
  expiresAt: Timestamp,
  opensLeft: Count,
});
export type ShareStatus = v.InferOutput<typeof ShareStatus>;

/**
 * A share of the account. `createdBy`: the ID of the API key that made it, with which it ends.
 * `changedAt`: when its terms were last changed.
 */
export const Share = v.object({
  ...ShareStatus.entries,
  label: v.optional(v.string()),
  files: v.array(FileId),
  opens: Count,
  createdAt: Timestamp,
  createdBy: KeyId,
  changedAt: v.optional(Timestamp),
});
export type Share = v.InferOutput<typeof Share>;

export const ShareList = v.object({ shares: v.array(Share), cursor: v.optional(v.string()) });
export type ShareList = v.InferOutput<typeof ShareList>;

/** `record` in base64. */
export const OpenedShare = v.object({ record: v.pipe(Base64, v.examples(['c2VhbGVk'])), opensLeft: Count });
export type OpenedShare = v.InferOutput<typeof OpenedShare>;

/**
 * `opened`: how often the record was handed out before, which nothing takes back; known once it is
 * destroyed. `files`: the IDs of those that were deleted with it, of which there are receipts.
 */
export const ShareReceipt = v.object({
  ...EndedShare.entries,
  opened: v.optional(Count),
  files: v.optional(v.array(FileId)),
  ...Recoverable.entries,
});
export type ShareReceipt = v.InferOutput<typeof ShareReceipt>;
