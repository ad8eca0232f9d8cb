/** The wire shapes of events, which are also the audit log of an account. */
import * as v from 'valibot';
import { cursorParameter, FileId, KeyId, PageQuery, ShareId, Timestamp } from './fields.ts';

/** Number of days for which an event is kept. */
export const eventDays = 90;

/**
 * Actions in an account. `share.revoked`: also with its file or its key. An object keeps these
 * names in rows, so they never change.
 */
export const EventAction = v.picklist([
  'account.recovered',
  'account.rotated',
  'file.changed',
  'file.deleted',
  'file.expired',
  'file.stored',
  'key.created',
  'key.revoked',
  'share.changed',
  'share.created',
  'share.opened',
  'share.revoked',
]);
export type EventAction = v.InferOutput<typeof EventAction>;

/** A position in the log: the ID of an event. */
const EventId = v.pipe(v.string(), v.regex(/^[1-9a-z][0-9a-z]{0,10}$/), v.examples(['2s']));

/**
 * One event. `by`: the ID of the API key that did it; without it the operator or the holder of a
 * link or of a recovery file. One of `fileId`, `keyId` and `shareId` says what it happened to,
 * unless that is the account.
 */
export const AccountEvent = v.object({
  id: EventId,
  time: Timestamp,
  action: EventAction,
  by: v.optional(KeyId),
  fileId: v.optional(FileId),
  keyId: v.optional(KeyId),
  shareId: v.optional(ShareId),
});
export type AccountEvent = v.InferOutput<typeof AccountEvent>;

/**
 * `cursor`: where the next page begins, also when nothing has happened yet; `more`: whether there
 * is one already.
 */
export const EventList = v.object({ events: v.array(AccountEvent), cursor: v.optional(EventId), more: v.boolean() });
export type EventList = v.InferOutput<typeof EventList>;

export const EventQuery = v.object({
  after: cursorParameter(
    /^[1-9a-z][0-9a-z]{0,10}$/,
    'the `cursor` of the page before, or the `id` of an event; the oldest event first without it',
    'after',
  ),
  limit: PageQuery.entries.limit,
});
