/** The wire shapes of the operator's routes: accounts as a whole, and the denylist. */
import * as v from 'valibot';
import { Usage } from './accounts-shapes.ts';
import { AccountId, Bytes, Cid, Count, cursorParameter, Label, PageQuery, Timestamp } from './fields.ts';

const Origin = v.pipe(
  v.string(),
  v.regex(/^https?:\/\/([0-9a-z.-]{1,253}|\[[0-9a-f:]{2,39}\])(:[0-9]{1,5})?$/),
  v.examples(['https://app.example.com']),
);

/**
 * An account as the operator sees it. `quotaBytes`: the bytes on IPFS that it may store; absent: as
 * many as it likes. `origins`: those whose pages may use its keys; absent: all that the service
 * allows.
 */
export const AccountSummary = v.object({
  id: AccountId,
  label: v.pipe(v.string(), v.examples(['team'])),
  createdAt: Timestamp,
  usage: Usage,
  quotaBytes: v.optional(Bytes),
  disabled: v.boolean(),
  origins: v.optional(v.array(Origin)),
});
export type AccountSummary = v.InferOutput<typeof AccountSummary>;

export const AccountList = v.object({ accounts: v.array(AccountSummary), cursor: v.optional(v.string()) });
export type AccountList = v.InferOutput<typeof AccountList>;

/** A page of accounts. Its cursor is one of KV's. */
export const AccountQuery = v.object({
  limit: PageQuery.entries.limit,
  cursor: cursorParameter(/^[0-9A-Za-z+/_=-]{1,1024}$/, 'from the previous page'),
});

/**
 * Changes that the operator makes to an account; what is left out stays. `null`: no quota, no
 * origins of its own.
 */
export const AccountChanges = v.strictObject({
  label: v.optional(Label),
  quotaBytes: v.optional(v.nullable(Bytes)),
  disabled: v.optional(v.boolean()),
  origins: v.optional(v.nullable(v.pipe(v.array(Origin), v.maxLength(20)))),
});
export type AccountChanges = v.InferOutput<typeof AccountChanges>;

export const DeniedCid = v.object({ cid: Cid, createdAt: Timestamp });
export type DeniedCid = v.InferOutput<typeof DeniedCid>;

/** A page of the accounts that hold a file with a CID. */
export const DenylistQuery = v.object({
  cursor: v.optional(v.pipe(AccountId, v.description('from the previous response'))),
});

/**
 * `accounts`: how many hold a file with the CID, of those that this request told. With a `cursor`
 * there are more to be told.
 */
export const DenylistReceipt = v.object({ cid: Cid, accounts: Count, cursor: v.optional(AccountId) });
export type DenylistReceipt = v.InferOutput<typeof DenylistReceipt>;
