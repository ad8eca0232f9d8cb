/** The members that the wire shapes of the HTTP API have in common, as validators. */
import * as v from 'valibot';
import { filenamePattern, isSeen } from '../filename.ts';
import { isTime } from '../time.ts';

/** Recognizes base64 (RFC 4648 section 4). */
export function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}
export const Base64 = v.pipe(v.string(), v.check(isBase64, 'this is not base64'));

/** Scopes that API keys may have together. */
export const fullScopes = ['read', 'write', 'delete', 'keys', 'share'] as const;
/**
 * Everything an API key may be allowed to do. A key with `send`, that of an invitation, has no
 * other scope: it stores files for a while, and shares what it stored.
 */
export const scopes = [...fullScopes, 'send'] as const;
export const Scope = v.picklist(scopes);
export type Scope = v.InferOutput<typeof Scope>;

export const FileId = v.pipe(v.string(), v.uuid());
const cidExample = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku';
export const Cid = v.pipe(v.string(), v.regex(/^b[a-z2-7]+$/), v.examples([cidExample]));
export const Timestamp = v.pipe(v.string(), v.isoTimestamp());

/**
 * Until when what was destroyed could be restored: by the platform, or from a backup of the
 * operator's. `backups`: there are some, and how long they are kept is not known.
 */
export const Recoverable = v.object({
  recoverableUntil: v.optional(Timestamp),
  backups: v.optional(v.literal('unknown')),
});
export type Recoverable = v.InferOutput<typeof Recoverable>;

// Without the format, generated clients take integers of 32 bits.
export const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.metadata({ format: 'int64', examples: [5] }));
export const Bytes = v.pipe(Count, v.description('a number of bytes'));
export const ContentType = v.pipe(v.string(), v.examples(['application/pdf']));

export const Filename = v.pipe(v.string(), v.examples(['report.pdf']));
// Its limit is 255 bytes, which a schema cannot say.
export const UploadFilename = v.pipe(Filename, v.regex(filenamePattern), v.maxLength(255));

// Clients print these, so they accept no other characters from a service.
export const ServiceId = v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9-]{0,31}$/), v.examples(['kubo']));
export const KeyId = v.pipe(v.string(), v.regex(/^[0-9a-f]{16}$/), v.examples(['5f0c9e2ab71d3846']));
export const AccountId = v.pipe(v.string(), v.regex(/^[0-9A-Za-z]{22}$/), v.examples(['7Xy0bQm2nVtR4sKdPzW1aC']));
export const ApiKeyText = v.pipe(v.string(), v.regex(/^sp_[0-9A-Za-z]{71}$/), v.examples([`sp_${'0'.repeat(71)}`]));

/** A random ID of 128 bits. */
export const ShareId = v.pipe(v.string(), v.regex(/^[0-9A-Za-z]{22}$/), v.examples(['3yQn7hXc2LrV0aTfK9dWbe']));

const shortTextRule = 'has 1 to 100 characters, without control characters and invisible ones';

/**
 * Text that terminals and pages show: 1 to 100 code points, none of them a control.
 * @param what it is, for the error
 */
export function shortText(what: string, example: string) {
  return v.pipe(
    v.string(),
    v.regex(
      // oxlint-disable-next-line no-control-regex -- control characters are what is refused
      /^[^\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]{1,100}$/u,
      `${what} ${shortTextRule}`,
    ),
    v.metadata({ minLength: 1, maxLength: 100, examples: [example] }),
  );
}

/**
 * The same for text that is new: none of its characters is invisible, as in names of files. Older
 * versions took some.
 */
export function newShortText(what: string, example: string) {
  return v.pipe(shortText(what, example), v.check(isSeen, `${what} ${shortTextRule}`));
}

/** The name of an account or a key. */
export const Label = newShortText('label', 'backup');

/** The type and subtype of a media type (RFC 9110 section 8.3.1). */
const typePattern = "[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const contentTypePattern = new RegExp(`^${typePattern}[\\t ]*(;[\\t -~]*)?$`);
const maxTypeChars = 255;

/** A media type without parameters. */
export const MediaType = v.pipe(
  v.string(),
  v.regex(new RegExp(`^${typePattern}$`), 'contentType is a type such as image/png'),
  v.maxLength(maxTypeChars),
);

/** The same, perhaps with parameters: the type that a file gets. */
export const NewContentType = v.pipe(
  v.string(),
  v.regex(contentTypePattern, `contentType is a type such as application/pdf, of at most ${maxTypeChars} characters`),
  v.maxLength(maxTypeChars),
  v.examples(['application/pdf']),
);

/** Checks that a file may get this type. */
export function isContentType(text: string): boolean {
  return v.is(NewContentType, text);
}

/** A time in a query. */
export const Time = v.pipe(v.string(), v.check(isTime, 'a time is written such as 2030-01-31T00:00:00Z'));

/** A number of bytes in a query. @param description of the parameter */
export function bytesParameter(description: string) {
  return v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[0-9]{1,15}$/, 'a size is a number of bytes, of at most 15 digits'),
      v.transform(Number),
      v.number(),
      v.safeInteger(),
      v.minValue(0),
      v.metadata({ description, format: 'int64' }),
    ),
  );
}

/**
 * Time at which something ends, in a request. A time that does not exist is refused, where
 * `Date.parse` would take the next one.
 */
export const ExpiresAt = v.pipe(v.string(), v.check(isTime, 'expiresAt must be a time such as 2030-01-31T00:00:00Z'));

export const Positive = v.pipe(
  v.number(),
  v.safeInteger(),
  v.minValue(1),
  v.metadata({ format: 'int64', examples: [1000] }),
);

/** A flag of a query: the text `true` or `false`. @param description what `true` does */
export function flag(description: string) {
  return v.optional(
    v.pipe(
      v.picklist(['true', 'false']),
      v.transform((text) => text === 'true'),
      v.boolean(),
      v.description(description),
    ),
  );
}

/**
 * A CID in a request. A wrong one has a code of its own, so the pattern only describes it.
 * @param description of the parameter
 */
export function cidParameter(description: string, pattern = '^baf(kr|yb)ei[a-h][a-z2-7]{50}[aeimquy4]$') {
  return v.pipe(v.string(), v.metadata({ description, pattern, examples: [cidExample] }));
}

/** Start of the next page of a list. @param description of the parameter `name` */
export function cursorParameter(pattern: RegExp, description: string, name = 'cursor') {
  const message = `${name} is not one that this service gave out`;
  return v.optional(v.pipe(v.string(), v.regex(pattern, message), v.description(description)));
}

/** A page of a list. */
export const PageQuery = v.object({
  limit: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^([1-9][0-9]?|100)$/, 'limit is a number from 1 to 100'),
      v.transform(Number),
      v.number(),
      v.integer(),
      v.minValue(1),
      v.maxValue(100),
      v.description('items on a page'),
    ),
    '50',
  ),
  cursor: cursorParameter(/^[1-9a-z][0-9a-z]{0,10}$/, 'from the previous page'),
});
