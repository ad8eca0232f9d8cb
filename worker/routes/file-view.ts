/** Files as the API tells them. */
import type { StoredFile } from '../../shared/api.ts';
import { openDetached, plaintextBytes, type Identity } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { FileRecord } from '../objects/file-rows.ts';

/** What stands in a file's row or, in encrypted mode, inside its header. */
export type About = { filename: string | null; contentType: string; size: number };
export type Opened = Awaited<ReturnType<typeof openDetached>>;

/** What a file without a content type is. */
export const anyBytes = 'application/octet-stream';

/** A file in the shape of the API. `filename: undefined` leaves the name out, for a caller who may not know it. */
export function storedFile(
  record: FileRecord,
  about: Omit<About, 'filename'> & { filename: string | null | undefined },
): StoredFile {
  return {
    fileId: record.fileId,
    ...(about.filename === undefined ? {} : { filename: about.filename }),
    mode: record.mode,
    size: about.size,
    contentType: about.contentType,
    cid: record.cid,
    createdAt: new Date(record.createdAt).toISOString(),
    pins: [{ service: record.service, status: 'pinned' }],
  };
}

/** What a plain file's row says of it. */
export function aboutPlain(record: FileRecord): About {
  return { filename: record.filename, contentType: record.contentType ?? anyBytes, size: record.bytes };
}

/**
 * Opens the header of a file in encrypted mode.
 * @throws decrypt_failed when the header is not that of this file, or does not fit its bytes
 */
export async function openRecord(record: FileRecord, identity: Identity): Promise<Opened> {
  if (record.header === null) throw new SealpinError('internal', 'an encrypted file has no header');
  const opened = await openDetached(record.header, { fileId: record.fileId, identities: [identity] });
  if (plaintextBytes(record.bytes) !== opened.file.size) throw new SealpinError('decrypt_failed');
  return opened;
}
