/** The wire shapes of files and uploads. */
import * as v from 'valibot';
import {
  Base64,
  Bytes,
  bytesParameter,
  Cid,
  cidParameter,
  ContentType,
  cursorParameter,
  ExpiresAt,
  FileId,
  Filename,
  flag,
  KeyId,
  MediaType,
  NewContentType,
  PageQuery,
  Recoverable,
  ServiceId,
  newShortText,
  shortText,
  Time,
  Timestamp,
  UploadFilename,
} from './fields.ts';
import { namedRecord } from './named-record.ts';
import { EndedShare } from './shares-shapes.ts';

/** Mode of storage: the service encrypts a file, or stores it unchanged. */
export const Mode = v.picklist(['encrypted', 'plain']);

/**
 * Kind of content of a plain file, by its first bytes: a `container`, which carries its own header;
 * a `payload`, whose header or file key is elsewhere. Rows store the index of each.
 */
export const ContentKind = v.picklist(['other', 'container', 'payload']);
export type ContentKind = v.InferOutput<typeof ContentKind>;

/** The most pairs of metadata, and the most tags, of a file. */
const maxEntries = 16;

/** A tag: 1 to 100 characters, as labels have them. */
const Tag = shortText('a tag', 'invoice');
const NewTag = newShortText('a tag', 'invoice');

/** Pairs of the owner's. */
const Metadata = v.pipe(
  namedRecord(
    v.pipe(v.string(), v.regex(/^[0-9A-Za-z._-]{1,64}$/, 'names in metadata have 1 to 64 letters, digits, ., _ and -')),
    v.pipe(v.string(), v.maxLength(512)),
  ),
  v.examples([{ project: 'audit' }]),
);

/**
 * Pin of a file at one backend, with what was last seen there. `pinning`: it is being copied there;
 * `lost`: what was there is missing or damaged; `failed`: copying failed, and is tried again;
 * `unpinning`: it is being removed. `checkedAt`: when that was last seen, after the upload;
 * `verifiedAt`: when every byte was last read there and found right.
 */
export const StoredPin = v.object({
  service: ServiceId,
  status: v.picklist(['pinned', 'pinning', 'lost', 'failed', 'unpinning']),
  checkedAt: v.optional(Timestamp),
  verifiedAt: v.optional(Timestamp),
});
export type StoredPin = v.InferOutput<typeof StoredPin>;

/**
 * `filename` is omitted for a key without `read`, and null for a file without one. `createdBy`: the
 * ID of the API key that stored it. `expiresAt`: when it is deleted. `changedAt`: when its name, or
 * what else is known of it, was changed. `metadata`, `tags` and `details` are for keys with `read`;
 * `details`: its name, sealed to its owner (docs/details.md).
 */
export const StoredFile = v.object({
  fileId: FileId,
  filename: v.optional(v.nullable(Filename)),
  mode: Mode,
  size: Bytes,
  contentType: ContentType,
  cid: Cid,
  createdAt: Timestamp,
  createdBy: v.optional(KeyId),
  expiresAt: v.optional(Timestamp),
  changedAt: v.optional(Timestamp),
  metadata: v.optional(Metadata),
  tags: v.optional(v.array(Tag)),
  details: v.optional(Base64),
  pins: v.array(StoredPin),
});
export type StoredFile = v.InferOutput<typeof StoredFile>;

/** `digest`: of the bytes of the file as they arrived, where the request wants it (RFC 9530). */
export const NewlyStoredFile = v.intersect([
  StoredFile,
  v.object({
    digest: v.optional(v.pipe(v.string(), v.examples(['sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:']))),
  }),
]);
export type NewlyStoredFile = v.InferOutput<typeof NewlyStoredFile>;

/** A page of files; `cursor` leads to the next one. */
export const FileList = v.object({
  files: v.array(StoredFile),
  cursor: v.optional(v.pipe(v.string(), v.examples(['1z']))),
});
export type FileList = v.InferOutput<typeof FileList>;

/** Changes to a file; null, and an empty list, remove a value. */
export const FileChange = v.pipe(
  v.strictObject({
    filename: v.optional(v.nullable(UploadFilename)),
    contentType: v.optional(NewContentType),
    metadata: v.optional(v.nullable(v.pipe(Metadata, v.maxEntries(maxEntries)))),
    tags: v.optional(v.pipe(v.array(NewTag), v.maxLength(maxEntries))),
    expiresAt: v.optional(v.nullable(ExpiresAt)),
    details: v.optional(v.nullable(Base64)),
  }),
  v.minEntries(1),
);
export type FileChange = v.InferOutput<typeof FileChange>;

/** The file that an upload becomes. */
export const UploadedFile = v.object({ fileId: FileId, cid: Cid });

/**
 * An upload that can be continued. `length` is null until it is known. `finishing`: every byte has
 * arrived, and the file is not stored yet; `failed`: `code` says why. `file` is known once every
 * byte has arrived. `createdBy`: the ID of the API key that continues it.
 */
export const ResumableUpload = v.object({
  uploadId: FileId,
  createdBy: v.optional(KeyId),
  mode: v.picklist(['encrypted', 'plain']),
  offset: Bytes,
  length: v.nullable(Bytes),
  state: v.picklist(['open', 'finishing', 'done', 'failed']),
  code: v.optional(v.string()),
  expiresAt: Timestamp,
  file: v.optional(UploadedFile),
});
export type ResumableUpload = v.InferOutput<typeof ResumableUpload>;

/** The uploads of an API key, or of an account. */
export const ResumableUploadList = v.object({ uploads: v.array(ResumableUpload) });
export type ResumableUploadList = v.InferOutput<typeof ResumableUploadList>;

/** The CID in the path of the denylist, and, in any spelling, of the gateway. */
export const CidParameter = cidParameter('CIDv1 in lower-case base32, of sha2-256, raw or dag-pb');
export const AnyCidParameter = cidParameter(
  'of sha2-256, raw or dag-pb: CIDv0, or CIDv1 in base16, base32, base36 or base58btc',
  '^(Qm[1-9A-HJ-NP-Za-km-z]{44}|[bBfkz][0-9A-Za-z]{48,72})$',
);

/** A page of the list of files, with filters, all of which a file has to match. */
export const ListQuery = v.object({
  ...PageQuery.entries,
  cursor: cursorParameter(
    /^[1-9a-z][0-9a-z]{0,10}(-[0-9a-f]{8})?$/,
    'from the previous page, with the other parameters as they were',
  ),
  order: v.optional(v.pipe(v.picklist(['asc', 'desc']), v.description('`asc`: the oldest first'))),
  cid: v.optional(cidParameter('only the files with this CID')),
  mode: v.optional(v.pipe(Mode, v.description('only the files of this mode'))),
  createdAfter: v.optional(v.pipe(Time, v.description('only files that were stored after this time'))),
  createdBefore: v.optional(v.pipe(Time, v.description('only files that were stored before this time'))),
  minSize: bytesParameter('only files of at least so many bytes'),
  maxSize: bytesParameter('only files of at most so many bytes'),
  contentType: v.optional(
    v.pipe(
      MediaType,
      NewContentType,
      v.description('only files of this media type, whatever its parameters; needs `mode=plain`'),
    ),
  ),
  name: v.optional(
    v.pipe(v.string(), v.minLength(1), v.maxLength(255), v.description('what names begin with; needs `mode=plain`')),
  ),
  tag: v.optional(v.pipe(Tag, v.description('only files with this tag'))),
  createdBy: v.optional(v.pipe(KeyId, v.description('only files that the API key with this ID stored'))),
});

export const ReadQuery = v.object({ data: flag('whether JSON has the bytes of the file; true by default') });

/** Details of a file that come with its upload: in the query, or in `Upload-Metadata`. */
export const UploadDetails = v.object({
  expiresAt: v.optional(v.pipe(ExpiresAt, v.description('when the file is deleted, and its key destroyed'))),
});
export type UploadDetails = v.InferOutput<typeof UploadDetails>;

/** The most files that an upload names: more than a parcel has room for. */
const maxNamed = 300;

/** The query of an upload in plain mode. */
export const UploadQuery = v.object({
  cid: v.optional(cidParameter('the CID that the bytes must have')),
  ...UploadDetails.entries,
  provisional: flag(
    'whether the file is removed 24 hours after the last request of its API key, after 7 days ' +
      'at the latest, unless another upload names it',
  ),
  names: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[0-9A-Fa-f-]{36}(,[0-9A-Fa-f-]{36})*$/, 'names is a list of file IDs, with commas between them'),
      v.maxLength(maxNamed * 37 - 1, `names is a list of at most ${maxNamed} file IDs`),
      v.metadata({
        description:
          'IDs of provisional files of the same API key, with commas between them: they stay as ' +
          'long as this one, and without one of them nothing is stored',
        examples: ['0b6f7c1e-9a56-4d0e-8f43-6c1a2d9be7a5'],
      }),
    ),
  ),
});

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
export const FileWithData = v.intersect([
  StoredFile,
  v.object({ data: v.optional(v.pipe(Base64, v.examples(['aGVsbG8=']))) }),
]);

/**
 * The body of an upload in JSON. It is parsed as a stream, so this only describes it: base64
 * without unused bits that are set.
 */
export const JsonUpload = v.strictObject({
  filename: v.optional(UploadFilename),
  data: v.pipe(
    Base64,
    v.regex(/^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$/),
    v.examples(['aGVsbG8=']),
  ),
});

/** The same in encrypted mode, which requires a filename. */
export const EncryptedJsonUpload = v.strictObject({ ...JsonUpload.entries, filename: UploadFilename });

/** Result of removing a pin of a deleted file. */
export const RemovedPin = v.object({ service: ServiceId, status: v.picklist(['unpinned', 'kept', 'scheduled']) });
export type RemovedPin = v.InferOutput<typeof RemovedPin>;

/** Reason of a deletion: a request, or a time that had come. */
export const DeletionReason = v.picklist(['deleted', 'expired']);
export type DeletionReason = v.InferOutput<typeof DeletionReason>;

/** Fate of the key that opens a deleted file. */
export const KeyFate = v.picklist(['destroyed', 'in-container', 'elsewhere', 'none']);
export type KeyFate = v.InferOutput<typeof KeyFate>;

/** Number of days for which the receipt of a deleted file is kept. */
export const receiptDays = 90;

/**
 * `destroyed`: the service destroyed the key. `in-container`: the header was part of the bytes.
 * `elsewhere`: the bytes are a payload without a header, and its key is with those who were given
 * it. `none`: they are neither. `shares`: those of the file, which end with it. `reason`: whether a
 * request deleted the file, or its time had come.
 */
export const Receipt = v.object({
  fileId: FileId,
  reason: v.optional(DeletionReason),
  deletedAt: v.optional(Timestamp),
  key: KeyFate,
  ...Recoverable.entries,
  pins: v.array(RemovedPin),
  shares: v.optional(v.array(EndedShare)),
});
export type Receipt = v.InferOutput<typeof Receipt>;

/** The most files that one request deletes. */
const maxDeletedFiles = 1000;

export const FilesToDelete = v.strictObject({
  files: v.pipe(v.array(FileId), v.nonEmpty(), v.maxLength(maxDeletedFiles)),
});

/** `notFound`: the files that were not there. */
export const DeletedFiles = v.object({ receipts: v.array(Receipt), notFound: v.array(FileId) });
export type DeletedFiles = v.InferOutput<typeof DeletedFiles>;
