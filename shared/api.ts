/**
 * The wire shapes of the HTTP API, as validators and the types inferred from them. The Worker validates requests with them and
 * describes itself by them; the command line validates responses with them.
 */
import * as v from 'valibot';
import {
  ApiKeyText,
  AccountId,
  Bytes,
  Cid,
  cidParameter,
  ContentType,
  Count,
  ExpiresAt,
  FileId,
  Filename,
  flag,
  KeyId,
  Label,
  Positive,
  Scope,
  scopes,
  ServiceId,
  ShareId,
  Timestamp,
  UploadFilename,
} from './api-fields.ts';
import { SealpinError } from './errors.ts';

export { AccountId, FileId, KeyId, Scope, scopes, ShareId } from './api-fields.ts';

/** Whether the service encrypts a file, or stores it unchanged. */
export const Mode = v.picklist(['encrypted', 'plain']);

/** Where a file is pinned, as the pinning service acknowledged it. */
export const StoredPin = v.object({ service: ServiceId, status: v.picklist(['pinned', 'pinning']) });

/** `filename` is omitted for a key without `read`, and null for a file without one. */
export const StoredFile = v.object({
  fileId: FileId,
  filename: v.optional(v.nullable(Filename)),
  mode: Mode,
  size: Bytes,
  contentType: ContentType,
  cid: Cid,
  createdAt: Timestamp,
  pins: v.array(StoredPin),
});
export type StoredFile = v.InferOutput<typeof StoredFile>;

/** `digest`: of the bytes of the file as they arrived, where the request wants it (RFC 9530). */
export const NewlyStoredFile = v.object({
  ...StoredFile.entries,
  digest: v.optional(v.pipe(v.string(), v.examples(['sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:']))),
});
export type NewlyStoredFile = v.InferOutput<typeof NewlyStoredFile>;

/** A page of files; `cursor` leads to the next one. */
export const FileList = v.object({
  files: v.array(StoredFile),
  cursor: v.optional(v.pipe(v.string(), v.examples(['1z']))),
});
export type FileList = v.InferOutput<typeof FileList>;

/** The file that an upload becomes. */
export const UploadedFile = v.object({ fileId: FileId, cid: Cid });

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
  file: v.optional(UploadedFile),
});
export type ResumableUpload = v.InferOutput<typeof ResumableUpload>;

/** The uploads of an API key. */
export const ResumableUploadList = v.object({ uploads: v.array(ResumableUpload) });
export type ResumableUploadList = v.InferOutput<typeof ResumableUploadList>;

/** The CID in the path of the gateway. */
export const CidParameter = cidParameter('CIDv1 in lower-case base32, of sha2-256, raw or dag-pb');

/** A page of the list of files. */
export const ListQuery = v.object({
  limit: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^([1-9][0-9]?|100)$/, 'limit is a number from 1 to 100'),
      v.transform(Number),
      v.number(),
      v.integer(),
      v.minValue(1),
      v.maxValue(100),
      v.description('files on a page'),
    ),
    '50',
  ),
  cursor: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[1-9a-z][0-9a-z]{0,10}$/, 'cursor is not one that this service gave out'),
      v.description('from the previous page'),
    ),
  ),
  cid: v.optional(cidParameter('only the files with this CID')),
});

/** The same without `cid`. */
export const PageQuery = v.omit(ListQuery, ['cid']);

export const ReadQuery = v.object({ data: flag('whether JSON has the bytes of the file; true by default') });

export const UploadQuery = v.object({ cid: v.optional(cidParameter('the CID that the bytes must have')) });

export const RevokeQuery = v.object({
  cascade: flag('revokes the keys that descend from it, too'),
  destroy: flag('even if no remaining key has `read`, or `keys`, for as long'),
  self: flag('even if the key of the request is among them'),
});

/** The query of the gateway, whose handler parses it: its errors have codes of their own. */
export const GatewayQuery = v.object({
  format: v.optional(v.pipe(v.picklist(['car', 'raw']), v.description('takes precedence over `Accept`'))),
  'dag-scope': v.optional(v.pipe(v.picklist(['block', 'entity', 'all']), v.description('which blocks a CAR has'))),
  'entity-bytes': v.optional(
    v.pipe(
      v.string(),
      v.regex(/^-?[0-9]{1,15}:(-?[0-9]{1,15}|\*)$/),
      v.description('of a CAR: `from:to`, inclusive, where negative numbers count from the end and `*` is the end'),
    ),
  ),
  'car-version': v.optional(v.picklist(['1'])),
  'car-order': v.optional(v.picklist(['dfs', 'unk'])),
  'car-dups': v.optional(v.pipe(v.picklist(['y', 'n']), v.description('whether a CAR may have a block twice'))),
  filename: v.optional(v.pipe(UploadFilename, v.description('the name of the attachment'))),
});

/** A file in JSON with its bytes in base64, which `?data=false` omits. */
export const FileWithData = v.object({
  ...StoredFile.entries,
  data: v.optional(v.pipe(v.string(), v.base64(), v.examples(['aGVsbG8=']))),
});

/** The body of an upload in JSON. It is parsed as a stream, so this only describes it: base64 without unused bits that are set. */
export const JsonUpload = v.strictObject({
  filename: v.optional(UploadFilename),
  data: v.pipe(
    v.string(),
    v.base64(),
    v.regex(/^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$/),
    v.examples(['aGVsbG8=']),
  ),
});

/** The same in encrypted mode, which requires a filename. */
export const EncryptedJsonUpload = v.strictObject({ ...JsonUpload.entries, filename: UploadFilename });

/** What became of a pin of a deleted file. */
export const RemovedPin = v.object({ service: ServiceId, status: v.picklist(['unpinned', 'kept', 'scheduled']) });

/**
 * What became of the record of a share that was ended. `scheduled`: its object did not respond, and the service tries again until it
 * does.
 */
export const EndedShare = v.object({ id: ShareId, record: v.picklist(['destroyed', 'scheduled']) });

/**
 * `destroyed`: the service destroyed the key. `in-container`: the header was part of the bytes. `elsewhere`: the bytes are a payload
 * without a header, and its key is with those who were given it. `none`: they are neither. `shares`: those of the file, which end with it.
 */
export const Receipt = v.object({
  fileId: FileId,
  key: v.picklist(['destroyed', 'in-container', 'elsewhere', 'none']),
  recoverableUntil: v.optional(Timestamp),
  pins: v.array(RemovedPin),
  shares: v.optional(v.array(EndedShare)),
});
export type Receipt = v.InferOutput<typeof Receipt>;

/** One fault of a request: `pointer` into the body (RFC 6901, as a URI fragment), or the `parameter` of the query. */
export const Fault = v.object({
  pointer: v.optional(v.string()),
  parameter: v.optional(v.string()),
  detail: v.string(),
});

/** An error (RFC 9457); `code` is one of `codes` in errors.ts. */
export const Problem = v.object({
  type: v.string(),
  title: v.string(),
  status: v.pipe(v.number(), v.integer(), v.metadata({ format: 'int32' })),
  detail: v.optional(v.string()),
  code: v.string(),
  hint: v.optional(v.string()),
  requestId: v.optional(v.string()),
  errors: v.optional(v.array(Fault)),
});
export type Problem = v.InferOutput<typeof Problem>;

export const HealthQuery = v.object({
  live: v.optional(
    v.pipe(v.picklist(['', 'true']), v.description('only whether the service runs, which is always 200')),
  ),
});

export const ServiceHealth = v.object({
  id: ServiceId,
  status: v.picklist(['ok', 'failing']),
  version: v.optional(v.string()),
  code: v.optional(v.string()),
});

/**
 * `degraded`, with status 503: the service runs, and cannot store or read. `maxUploadBytes`: the largest request body; null: no limit.
 * `maxFileBytes`: the largest file, in a resumable upload; a service without it takes no such uploads.
 * `storage` and `services`, for the operator only: whether the objects and each pinning service respond.
 */
export const Health = v.object({
  status: v.picklist(['ok', 'degraded']),
  version: v.pipe(v.string(), v.examples(['1.0.0'])),
  maxUploadBytes: v.nullable(Bytes),
  maxFileBytes: v.optional(Bytes),
  storage: v.optional(v.picklist(['ok', 'failing'])),
  services: v.optional(v.array(ServiceHealth)),
});
export type Health = v.InferOutput<typeof Health>;

/** `recovery`: the public key (`age1…`, `age1tag1…` or an SPKI PEM) of the recovery file. */
export const NewAccount = v.strictObject({ label: Label, recovery: v.optional(v.pipe(v.string(), v.maxLength(4096))) });
export type NewAccount = v.InferOutput<typeof NewAccount>;

/** What a key may store: files, bytes on IPFS altogether, and bytes of one file. */
const limits = { files: v.optional(Positive), bytes: v.optional(Positive), fileBytes: v.optional(Positive) };
export const KeyLimits = v.object(limits);

/** What is known of an API key, without the key. */
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

/** `sealed`: the account's private key, sealed to this API key (base64); for keys with `read` only. */
export const OwnApiKey = v.object({
  ...ApiKeyRecord.entries,
  sealed: v.optional(v.pipe(v.string(), v.examples(['c2VhbGVk']))),
});

export const Usage = v.object({ files: Count, bytes: Bytes });

/** `usage` is for keys with `read` only. */
export const AccountDetails = v.object({ account: AccountWithRecovery, usage: v.optional(Usage), key: OwnApiKey });
export type AccountDetails = v.InferOutput<typeof AccountDetails>;

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

/** How many files, keys and shares ended with an account. */
export const AccountReceipt = v.object({
  account: AccountId,
  files: Count,
  keys: Count,
  shares: v.optional(Count),
});
export type AccountReceipt = v.InferOutput<typeof AccountReceipt>;

/** `privateKey`: the text of the account's opened recovery file, with its line `# recovery: …` and its PEM block. */
export const Recover = v.strictObject({ privateKey: v.pipe(v.string(), v.maxLength(4096)), label: v.optional(Label) });
export type Recover = v.InferOutput<typeof Recover>;

/** `apiKey` appears in this response only. */
export const NewAccountResponse = v.object({
  account: AccountRecord,
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
export const ShareRequest = v.strictObject({
  record: v.pipe(v.string(), v.base64(), v.examples(['c2VhbGVk'])),
  files: v.pipe(v.array(FileId), v.maxLength(maxSharedFiles)),
  label: v.optional(Label),
  expiresAt: v.optional(ExpiresAt),
  opens: v.optional(Positive),
  password: v.boolean(),
});
export type ShareRequest = v.InferOutput<typeof ShareRequest>;

/** What anybody may know of a share who knows its ID. In every state but `active` its record is destroyed. */
export const ShareStatus = v.object({
  id: ShareId,
  state: v.picklist(['active', 'used_up', 'expired', 'revoked']),
  password: v.boolean(),
  expiresAt: Timestamp,
  opensLeft: Count,
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
export const OpenedShare = v.object({
  record: v.pipe(v.string(), v.base64(), v.examples(['c2VhbGVk'])),
  opensLeft: Count,
});
export type OpenedShare = v.InferOutput<typeof OpenedShare>;

/** `opened`: how often the record was handed out before, which nothing takes back; known once it is destroyed. */
export const ShareReceipt = v.object({
  ...EndedShare.entries,
  opened: v.optional(Count),
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
