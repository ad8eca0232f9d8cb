/** The wire shapes of pins: where files are, for their owners and for the operator. */
import * as v from 'valibot';
import { AccountId, Cid, Count, cursorParameter, FileId, PageQuery, ServiceId, Timestamp } from './fields.ts';
import { StoredPin } from './files-shapes.ts';

/** The pins of a file after a verification. `done: false`: reading a large one continues. */
export const Verification = v.object({ fileId: FileId, done: v.boolean(), pins: v.array(StoredPin) });
export type Verification = v.InferOutput<typeof Verification>;

/** State of a pin when it was last seen; `damaged`: lost, and no other service has it. */
export const pinStates = ['wanted', 'copying', 'live', 'lost', 'failed', 'unpinning', 'damaged'] as const;
export type SurveyState = (typeof pinStates)[number];

/** A page of the pins of all accounts. */
export const PinsQuery = v.object({
  state: v.optional(v.pipe(v.picklist(pinStates), v.description('only pins in this state'))),
  limit: PageQuery.entries.limit,
  cursor: cursorParameter(/^[0-9a-f]{2}(\.b[a-z2-7]{1,100}\.[a-z0-9][a-z0-9-]{0,31})?$/, 'from the previous page'),
});

/**
 * A pin as the operator sees it. `files` has the first 100 that need it; `reason` is the code of
 * the last error, or `underreplicated`; `detail` says it in words, possibly of the service, in
 * printable characters.
 */
export const SurveyedPin = v.object({
  cid: Cid,
  service: ServiceId,
  state: v.picklist(pinStates.slice(0, -1)),
  reason: v.optional(v.string()),
  detail: v.optional(v.string()),
  attempts: Count,
  dueAt: v.optional(Timestamp),
  checkedAt: v.optional(Timestamp),
  verifiedAt: v.optional(Timestamp),
  files: v.array(v.object({ account: AccountId, fileId: FileId })),
});
export type SurveyedPin = v.InferOutput<typeof SurveyedPin>;

export const PinPage = v.object({ pins: v.array(SurveyedPin), cursor: v.optional(v.string()) });
export type PinPage = v.InferOutput<typeof PinPage>;

/** Counts of pins by the state in which they were last seen, of all that are looked at now. */
export const Repair = v.object({ pins: v.partial(v.object(v.entriesFromList(pinStates, Count))) });
export type Repair = v.InferOutput<typeof Repair>;

/** Objects in stores that belong to nothing, and wait for the operator as they are many. */
export const StrayList = v.object({ stores: v.array(v.object({ service: ServiceId, objects: Count })) });
export type StrayList = v.InferOutput<typeof StrayList>;

export const MigrationRequest = v.strictObject({ from: ServiceId, to: ServiceId });

/**
 * Progress of a migration. `total`: the CIDs that `from` held when it began, or holds now, if those
 * are more; `left`: those that it still holds, or held when it was cancelled; `failed`: those that
 * could not be copied so far. `done`: it holds nothing of ours.
 */
export const Migration = v.object({
  from: ServiceId,
  to: ServiceId,
  state: v.picklist(['running', 'done', 'cancelled']),
  startedAt: Timestamp,
  total: Count,
  left: Count,
  failed: Count,
});
export type Migration = v.InferOutput<typeof Migration>;

export const MigrationList = v.object({ migrations: v.array(Migration) });
export type MigrationList = v.InferOutput<typeof MigrationList>;
