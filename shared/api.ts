/**
 * The wire shapes of the HTTP API, as validators and the types inferred from them. The Worker validates requests with them and
 * describes itself by them; the command line validates responses with them.
 */
import * as v from 'valibot';
import { SealpinError } from './errors.ts';

/** Everything an API key may be allowed to do. */
export const scopes = ['read', 'write', 'delete', 'keys', 'share'] as const;
export const Scope = v.picklist(scopes);
export type Scope = v.InferOutput<typeof Scope>;

export const FileId = v.pipe(v.string(), v.uuid());
const Cid = v.pipe(v.string(), v.regex(/^b[a-z2-7]+$/));
const Timestamp = v.pipe(v.string(), v.isoTimestamp());
const Whole = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const Bytes = Whole;

// Clients print these, so they accept no other characters from a service.
const ServiceId = v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9-]{0,31}$/));
const KeyId = v.pipe(v.string(), v.regex(/^[0-9a-f]{16}$/));
const AccountId = v.pipe(v.string(), v.regex(/^[0-9A-Za-z]{22}$/));
const ApiKeyText = v.pipe(v.string(), v.regex(/^sp_[0-9A-Za-z]{71}$/));

/** `filename` is omitted for a key without `read`, and null for a file without one. */
export const StoredFile = v.object({
  fileId: FileId,
  filename: v.optional(v.nullable(v.string())),
  mode: v.picklist(['encrypted', 'plain']),
  size: Bytes,
  contentType: v.string(),
  cid: Cid,
  createdAt: Timestamp,
  pins: v.array(v.object({ service: ServiceId, status: v.picklist(['pinned', 'pinning']) })),
});
export type StoredFile = v.InferOutput<typeof StoredFile>;

export const FileList = v.object({ files: v.array(StoredFile), cursor: v.optional(v.string()) });
export type FileList = v.InferOutput<typeof FileList>;

/**
 * An upload that can be continued. `length` is null until it is known. `finishing`: every byte has arrived, and the file is not
 * stored yet; `failed`: `code` says why. `file` is known once every byte has arrived.
 */
export const ResumableUpload = v.object({
  uploadId: FileId,
  mode: v.picklist(['encrypted', 'plain']),
  offset: Bytes,
  length: v.nullable(Bytes),
  state: v.picklist(['open', 'finishing', 'done', 'failed']),
  code: v.optional(v.string()),
  expiresAt: Timestamp,
  file: v.optional(v.object({ fileId: FileId, cid: Cid })),
});
export type ResumableUpload = v.InferOutput<typeof ResumableUpload>;

export const ResumableUploadList = v.object({ uploads: v.array(ResumableUpload) });
export type ResumableUploadList = v.InferOutput<typeof ResumableUploadList>;

const Flag = v.picklist(['true', 'false']);

/** `cursor` comes from the previous page; `limit` is 50 by default; `cid` selects the files with that CID. */
export const ListQuery = v.object({
  limit: v.optional(v.pipe(v.string(), v.regex(/^([1-9][0-9]?|100)$/, 'limit is a number from 1 to 100'))),
  cursor: v.optional(
    v.pipe(v.string(), v.regex(/^[1-9a-z][0-9a-z]{0,10}$/, 'cursor is not one that this service gave out')),
  ),
  cid: v.optional(v.string()),
});

/** The same without `cid`. */
export const PageQuery = v.omit(ListQuery, ['cid']);

/** `data=false` omits the data. */
export const ReadQuery = v.object({ data: v.optional(Flag) });

/** `cid`: the CID that the bytes must have; plain mode only. */
export const UploadQuery = v.object({ cid: v.optional(v.string()) });

/**
 * `cascade`: also the keys that descend from it. `destroy`: even if no remaining key has `read`, or `keys`, for as long. `self`: even
 * if the key of the request is among them.
 */
export const RevokeQuery = v.object({
  cascade: v.optional(Flag),
  destroy: v.optional(Flag),
  self: v.optional(Flag),
});

/** A file in JSON with its bytes in base64, which `?data=false` omits. */
export const FileWithData = v.object({ ...StoredFile.entries, data: v.optional(v.pipe(v.string(), v.base64())) });

/**
 * The body of an upload in JSON; `filename` is optional in plain mode. It is parsed as a stream, so this only
 * describes it.
 */
export const JsonUpload = v.strictObject({ filename: v.optional(v.string()), data: v.pipe(v.string(), v.base64()) });

/** A random ID of 128 bits. */
const ShareId = v.pipe(v.string(), v.regex(/^[0-9A-Za-z]{22}$/));

/**
 * What became of the record of a share that was ended. `scheduled`: its object did not respond, and the service tries again until it
 * does.
 */
const EndedShare = v.object({ id: ShareId, record: v.picklist(['destroyed', 'scheduled']) });

/**
 * `destroyed`: the service destroyed the key. `in-container`: the header was part of the bytes. `elsewhere`: the bytes are a payload
 * without a header, and its key is with those who were given it. `none`: they are neither. `shares`: those of the file, which end with it.
 */
export const Receipt = v.object({
  fileId: FileId,
  key: v.picklist(['destroyed', 'in-container', 'elsewhere', 'none']),
  recoverableUntil: v.optional(Timestamp),
  pins: v.array(v.object({ service: ServiceId, status: v.picklist(['unpinned', 'kept', 'scheduled']) })),
  shares: v.optional(v.array(EndedShare)),
});
export type Receipt = v.InferOutput<typeof Receipt>;

export const Problem = v.object({
  type: v.string(),
  title: v.string(),
  status: v.number(),
  detail: v.optional(v.string()),
  code: v.string(),
  hint: v.optional(v.string()),
  requestId: v.optional(v.string()),
});
export type Problem = v.InferOutput<typeof Problem>;

/** `live`: whether the Worker runs, without a check of what it depends on. */
export const HealthQuery = v.object({ live: v.optional(v.picklist(['', 'true'])) });

/**
 * `degraded`, with status 503: the service runs, and cannot store or read. `maxUploadBytes`: the largest request body; null: no limit.
 * `storage` and `services`, for the operator only: whether the objects and each pinning service respond.
 */
export const Health = v.object({
  status: v.picklist(['ok', 'degraded']),
  version: v.string(),
  maxUploadBytes: v.nullable(Bytes),
  storage: v.optional(v.picklist(['ok', 'failing'])),
  services: v.optional(
    v.array(
      v.object({
        id: ServiceId,
        status: v.picklist(['ok', 'failing']),
        version: v.optional(v.string()),
        code: v.optional(v.string()),
      }),
    ),
  ),
});
export type Health = v.InferOutput<typeof Health>;

const Label = v.pipe(v.string(), v.minLength(1), v.maxLength(100));

/** `recovery`: the public key (`age1…`, `age1tag1…` or an SPKI PEM) of the recovery file. */
export const NewAccount = v.strictObject({ label: Label, recovery: v.optional(v.pipe(v.string(), v.maxLength(4096))) });
export type NewAccount = v.InferOutput<typeof NewAccount>;

const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(1));

/** What a key may store: files, bytes on IPFS altogether, and bytes of one file. */
const Limits = { files: v.optional(Count), bytes: v.optional(Count), fileBytes: v.optional(Count) };

export const ApiKeyRecord = v.object({
  id: KeyId,
  account: AccountId,
  label: v.string(),
  scopes: v.array(Scope),
  createdAt: Timestamp,
  expiresAt: v.optional(Timestamp),
  createdBy: v.nullable(v.string()),
  limits: v.optional(v.object(Limits)),
});
export type ApiKeyRecord = v.InferOutput<typeof ApiKeyRecord>;

/**
 * `usage` and `sealed` are for keys with `read` only. `sealed`: the account's private key, sealed to this API key (base64).
 */
export const AccountResponse = v.object({
  account: v.object({
    id: AccountId,
    label: v.string(),
    publicKey: v.string(),
    createdAt: Timestamp,
    recovery: v.optional(v.string()),
  }),
  usage: v.optional(v.object({ files: Whole, bytes: Bytes })),
  key: v.object({ ...ApiKeyRecord.entries, sealed: v.optional(v.string()) }),
});
export type AccountResponse = v.InferOutput<typeof AccountResponse>;

/** Scopes, expiry and limits of a new key lie within its issuer's; expiry and limits default to the issuer's. */
export const NewApiKey = v.strictObject({
  label: Label,
  scopes: v.pipe(
    v.array(Scope),
    v.nonEmpty(),
    // A list longer than that of all scopes has one twice; looking up each of its items would be quadratic.
    v.checkItems(
      (scope, index, all) => all.length <= scopes.length && all.indexOf(scope) === index,
      'a scope appears twice',
    ),
  ),
  expiresAt: v.optional(Timestamp),
  limits: v.optional(v.strictObject(Limits)),
});
export type NewApiKey = v.InferOutput<typeof NewApiKey>;

/** `apiKey` appears in this response only. */
export const NewApiKeyResponse = v.object({ key: ApiKeyRecord, apiKey: ApiKeyText });
export type NewApiKeyResponse = v.InferOutput<typeof NewApiKeyResponse>;

/** `current`: the key of the request itself. */
export const ApiKeyList = v.object({
  keys: v.array(v.object({ ...ApiKeyRecord.entries, current: v.optional(v.boolean()) })),
});
export type ApiKeyList = v.InferOutput<typeof ApiKeyList>;

/** The ids of the keys that the request revoked, and the shares that ended with them. */
export const Revoked = v.object({ revoked: v.array(KeyId), shares: v.optional(v.array(EndedShare)) });
export type Revoked = v.InferOutput<typeof Revoked>;

/** How many files, keys and shares ended with an account. */
export const AccountReceipt = v.object({
  account: AccountId,
  files: v.number(),
  keys: v.number(),
  shares: v.optional(v.number()),
});
export type AccountReceipt = v.InferOutput<typeof AccountReceipt>;

/** `privateKey`: the text of the account's opened recovery file, with its line `# recovery: …` and its PEM block. */
export const Recover = v.strictObject({ privateKey: v.pipe(v.string(), v.maxLength(4096)), label: v.optional(Label) });
export type Recover = v.InferOutput<typeof Recover>;

/** `apiKey` appears in this response only. */
export const NewAccountResponse = v.object({
  account: v.object({ id: AccountId, label: v.string(), publicKey: v.string(), createdAt: Timestamp }),
  key: ApiKeyRecord,
  apiKey: ApiKeyText,
});
export type NewAccountResponse = v.InferOutput<typeof NewAccountResponse>;

/** The most files that a share names. */
const maxSharedFiles = 500;

/**
 * A share to be made. `record`: opaque to the service (docs/links.md). `files`: those whose deletion ends the share. `password`: whether
 * the record needs one.
 */
export const NewShare = v.strictObject({
  record: v.pipe(v.string(), v.base64()),
  files: v.pipe(v.array(FileId), v.maxLength(maxSharedFiles)),
  label: v.optional(Label),
  expiresAt: v.optional(Timestamp),
  opens: v.optional(Count),
  password: v.boolean(),
});
export type NewShare = v.InferOutput<typeof NewShare>;

/** What anybody may know of a share who knows its ID. In every state but `active` its record is destroyed. */
export const ShareStatus = v.object({
  id: ShareId,
  state: v.picklist(['active', 'used_up', 'expired', 'revoked']),
  password: v.boolean(),
  expiresAt: Timestamp,
  opensLeft: Whole,
});
export type ShareStatus = v.InferOutput<typeof ShareStatus>;

/** A share of the account. `createdBy`: the ID of the API key that made it, with which it ends. */
export const Share = v.object({
  ...ShareStatus.entries,
  label: v.optional(v.string()),
  files: v.array(FileId),
  opens: Count,
  createdAt: Timestamp,
  createdBy: KeyId,
});
export type Share = v.InferOutput<typeof Share>;

export const ShareList = v.object({ shares: v.array(Share), cursor: v.optional(v.string()) });
export type ShareList = v.InferOutput<typeof ShareList>;

/** `record` in base64. */
export const OpenedShare = v.object({ record: v.pipe(v.string(), v.base64()), opensLeft: Whole });
export type OpenedShare = v.InferOutput<typeof OpenedShare>;

/** `opened`: how often the record was handed out before, which nothing takes back; known once it is destroyed. */
export const ShareReceipt = v.object({
  ...EndedShare.entries,
  opened: v.optional(Whole),
  recoverableUntil: v.optional(Timestamp),
});
export type ShareReceipt = v.InferOutput<typeof ShareReceipt>;

/**
 * Validates a response of a service.
 * @param shape what the response has to be
 * @param value its parsed JSON
 * @throws service_answer when it has another shape
 */
export function parseResponse<S extends v.GenericSchema>(shape: S, value: unknown): v.InferOutput<S> {
  const result = v.safeParse(shape, value);
  if (!result.success)
    throw new SealpinError('service_answer', `the response has an unexpected shape: ${result.issues[0].message}`);
  return result.output;
}
