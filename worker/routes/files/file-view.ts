/** Files in the shape of the API. */
import { StoredFile, type StoredPin } from '../../../shared/api.ts';
import { openDetached, plaintextBytes, type FileInfo, type Identity } from '../../../shared/crypto/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import type { Ctx } from '../../http/app.ts';
import { checkConditions } from '../../http/conditions.ts';
import { wholeFileColumns, type FileRecord } from '../../objects/account/files/file-rows.ts';
import { viewed } from '../../objects/columns.ts';

/** Facts of a file from its row or, in encrypted mode, from its header. `size` in bytes. */
export type About = Pick<FileInfo, 'filename' | 'contentType' | 'size' | 'metadata' | 'tags'>;
/** A file whose header was opened. */
export type Opened = Awaited<ReturnType<typeof openDetached>>;

/** The content type of a file without one (RFC 9110 section 8.3). */
export const anyBytes = 'application/octet-stream';

/** The forms of a file that responses have, each with an ETag of its own. */
const forms = ['json', 'file', 'raw', 'container'] as const;
export type Form = (typeof forms)[number];

/** The pins that are in a form of a file. */
export function pinsIn(form: Form, pins: readonly StoredPin[]): readonly StoredPin[] {
  return form === 'json' || form === 'file' ? pins : [];
}

/**
 * The ETag of a form of a file. Only its description, its pins and the header of its container ever
 * change, so the tag needs no hash.
 * @param pins of the file, of which forms without them ignore what is given
 */
export function etagOf({ fileId, version, rewrapped }: FileRecord, form: Form, pins: readonly StoredPin[]): string {
  const seen = pinsIn(form, pins).map(({ service, status, checkedAt = '', verifiedAt = '' }) =>
    [service, status, checkedAt, verifiedAt].join('.'),
  );
  const sealed = form === 'container' && rewrapped > 0 ? [`r${rewrapped}`] : [];
  return `"${[fileId, form, ...(version === 0 ? [] : [version]), ...sealed, ...seen].join('-')}"`;
}

/**
 * Checks the conditions of a request that changes a file, for its ETag in any form.
 * @throws precondition_failed; invalid_request for a condition that cannot be read
 */
export function checkFileConditions(c: Ctx, file: FileRecord, pins: readonly StoredPin[]): void {
  const etags = forms.map((form) => etagOf(file, form, pins));
  const lastModified = new Date(file.changedAt ?? file.createdAt).toUTCString();
  checkConditions(c.req.raw.headers, etags, lastModified);
}

/**
 * A file in the shape of the API. `filename: undefined` omits the name, for a key that may not read
 * it.
 */
export function storedFile(
  record: FileRecord,
  about: Omit<About, 'filename'> & { filename: string | null | undefined },
  pins: StoredPin[],
): StoredFile {
  const { fileId, filename: _, ...kept } = viewed(wholeFileColumns, StoredFile, record);
  const { filename, size, contentType } = about;
  return {
    fileId,
    filename,
    ...kept,
    size,
    contentType,
    metadata: about.metadata && { ...about.metadata },
    tags: about.tags && [...about.tags],
    pins,
  };
}

/** The facts of a plain file, from its row. */
export function aboutPlain(record: FileRecord): About {
  const { filename, contentType, bytes, description } = record;
  return { filename, contentType: contentType ?? anyBytes, size: bytes, ...description };
}

/**
 * Opens the header of a file in encrypted mode.
 * @throws decrypt_failed when the header belongs to another file, or to another number of bytes
 */
export async function openRecord(record: FileRecord, identities: readonly Identity[]): Promise<Opened> {
  if (record.header === null) throw new SealpinError('internal', 'an encrypted file has no header');
  const opened = await openDetached(record.header, { fileId: record.fileId, identities });
  if (plaintextBytes(record.bytes) !== opened.file.size) throw new SealpinError('decrypt_failed');
  return opened;
}
