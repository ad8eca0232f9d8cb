/** Checking a backup where it lies: no service is asked, and nothing is changed. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { openFile } from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { errnoOf } from '../errno.ts';
import { openCar } from '../io/car-file.ts';
import { optionsOf } from '../fetch/fetch-blob.ts';
import { countText } from '../terminal/size.ts';
import { checkKey } from './backup-key.ts';
import { type About, carPath, type BackupEntry, type Layout, readAbout, readEntry, recordedIn } from './layout.ts';

/** Failures that end a run: the next file would fail alike, or the service asks to wait. */
const endings = [
  'interrupted',
  'unauthorized',
  'insufficient_scope',
  'forbidden',
  'account_disabled',
  'rate_limited',
  'overloaded',
  'service_unreachable',
  'not_running',
  'disk_full',
  'file_unwritable',
] as const;

/**
 * Recognizes the failure of one file, which must not keep the others from being backed up or
 * restored. A file that is too long for a disk, such as one of FAT, is one.
 */
export function isOfOneFile(error: unknown, { signal }: Context): error is SealpinError {
  if (signal.aborted || !isSealpinError(error)) return false;
  return errnoOf(error.cause) === 'EFBIG' || !isSealpinError(error, ...endings);
}

/** Reads what a backup is of. @throws file_not_found when the folder is none, config_invalid */
export async function requireAbout(layout: Layout, context: Context): Promise<About> {
  const about = await readAbout(layout, context);
  if (about !== undefined) return about;
  throw new SealpinError('file_not_found', `${layout.shown} is not a backup: it has no backup.json`, {
    hint: 'name the folder that sealpin backup wrote',
  });
}

/**
 * The IDs of the files that the account had at the end of the last run, without those that no run
 * could read; of all that are there, while none has come to its end.
 */
export async function filesIn(layout: Layout, { files }: About): Promise<readonly string[]> {
  return files ?? (await recordedIn(layout));
}

/** The record of a file. @throws not_found where it is missing, config_invalid */
export async function requireEntry(layout: Layout, fileId: string, context: Context): Promise<BackupEntry> {
  const entry = await readEntry(layout, fileId, context);
  if (entry === undefined) throw new SealpinError('not_found', `${fileId} is missing from the backup`);
  return entry;
}

/**
 * Reads every block in a backup and compares it with its CID, and looks whether its key can open
 * it.
 * @param o.password of the key, if it is known; `onBytes` gets the length of what was found right
 * @returns `bytes`: of intact blobs; `bad`: damaged or missing files, with the reason; `keyFault`:
 * what keeps the key from opening them
 * @throws as `requireAbout`; file_unreadable
 */
export async function checkBackup(
  layout: Layout,
  o: { readonly password: string | undefined; readonly onBytes: (bytes: number) => void },
  context: Context,
) {
  const about = await requireAbout(layout, context);
  const ids = await filesIn(layout, about);
  const keyFault = await faultOfKey(layout, about, o.password, context);
  const sizes = new Map<string, number>();
  const bad: { fileId: string; why: string }[] = [];
  for (const fileId of ids) {
    try {
      const entry = await requireEntry(layout, fileId, context);
      const size = sizes.get(entry.cid) ?? (await checkBlob(layout, entry.cid, o.onBytes, context));
      sizes.set(entry.cid, size);
      if (size !== entry.bytes)
        throw new SealpinError('config_invalid', `its record says ${countText(entry.bytes, 'byte')}`);
      if ((entry.mode === 'encrypted' ? entry.header : entry.sealed) === undefined)
        throw new SealpinError('config_invalid', 'its record does not say what it is called');
    } catch (error) {
      context.signal.throwIfAborted();
      if (!isSealpinError(error)) throw error;
      bad.push({ fileId, why: error.message });
    }
  }
  return { files: ids.length, bytes: [...sizes.values()].reduce((sum, each) => sum + each, 0), bad, keyFault };
}

async function faultOfKey(layout: Layout, about: About, password: string | undefined, context: Context) {
  try {
    if ((await checkKey(layout, about, async () => password, context)) !== undefined) return undefined;
    return new SealpinError('config_invalid', 'account.key is missing', {
      hint: 'the next sealpin backup writes it again',
    });
  } catch (error) {
    context.signal.throwIfAborted();
    if (!isSealpinError(error)) throw error;
    return error;
  }
}

/**
 * @returns the bytes of the blob
 * @throws file_not_found, wrong_kind, content_mismatch, not_found for a missing block
 */
async function checkBlob(layout: Layout, cid: string, onBytes: (bytes: number) => void, context: Context) {
  const car = await openCar(carPath(layout, cid), context);
  try {
    const file = await openFile(cid, [car.source], optionsOf(context));
    for await (const chunk of file.read()) onBytes(chunk.length);
    return file.size;
  } finally {
    await car.close();
  }
}
