/** Restoring a backup into an account, at the service that it is from or another one. */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { accessTo } from '../../client/blobs.ts';
import type { StoredFile } from '../../shared/api.ts';
import { type FileInfo, type Identity, openAtWithFileKey } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { openFile } from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { writeFailure } from '../errno.ts';
import { openCar } from '../io/car-file.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { authorizedService, requireScopes } from '../remote/client.ts';
import { everyFile } from '../remote/pages.ts';
import { optionsOf } from '../fetch/fetch-blob.ts';
import { type Copied, storeCopy, storeEncrypted, type Target, targetAt } from '../store/store-copy.ts';
import { countText } from '../terminal/size.ts';
import { filesIn, isOfOneFile, requireAbout, requireEntry } from './check.ts';
import {
  carPath,
  type Details,
  type BackupEntry,
  type Layout,
  makeBackupFolder,
  readRecord,
  Restored,
  writeRecord,
} from './layout.ts';
import { openDetails, openSealedHeader } from './sealed-details.ts';
import { keepInHistory } from '../files/history.ts';

/**
 * Stores the files of a backup in the account of the API key. What it has already is left alone, so
 * that the next call resumes after an interruption, and a second one changes nothing.
 *
 * Plain files keep their blob IDs. Those that the service encrypted are opened here and encrypted
 * again, to the key of the new account.
 * @param o.identities open `account.key`; `onBytes` gets the length of what is on its way
 * @returns counts: of files stored, of those that the account had already, and of those whose time
 * had come; `failures`: what ended the run, then those of files that are damaged or refused
 * @throws file_not_found, config_invalid, file_unwritable; insufficient_scope
 */
export async function restoreBackup(
  layout: Layout,
  o: { readonly identities: () => Promise<readonly Identity[]>; readonly onBytes: (bytes: number) => void },
  context: Context,
) {
  const { output } = context;
  const about = await requireAbout(layout, context);
  if (about.completedAt === undefined)
    output.warn('the folder holds only an unfinished backup: restoring what is there');
  const service = await authorizedService(context);
  const target = await targetAt(service, context);
  const { account, key } = await target.routes.account();
  requireScopes(key.scopes, ['read', 'write']);
  const folder = join(layout.restored, account.id);
  await makeWritable(layout, folder);
  const here = new Map<string, StoredFile>();
  for await (const file of everyFile(service, context)) here.set(file.fileId, file);
  const ids = await filesIn(layout, about);
  const isOwn = about.account === account.id;
  const run: Restoring = {
    layout,
    target,
    context,
    here,
    folder,
    account: account.id,
    claimed: new Set(),
    canEnd: key.scopes.includes('delete'),
    identities: await o.identities(),
    onBytes: o.onBytes,
  };
  const missing: string[] = [];
  for (const fileId of ids) {
    const as = (await readRecord(markPath(run, fileId), Restored, context))?.fileId;
    if (as !== undefined && here.has(as)) run.claimed.add(as);
    else if (isOwn && here.has(fileId)) run.claimed.add(fileId);
    else missing.push(fileId);
  }
  return { account: account.id, present: ids.length - missing.length, ...(await restoreAll(missing, run)) };
}

/**
 * Makes the folder for the record of what was restored, before anything is.
 * @throws file_unwritable, disk_full
 */
async function makeWritable(layout: Layout, folder: string): Promise<void> {
  const { restored: shown } = layout;
  try {
    await makeBackupFolder({ ...layout, shown }, folder);
    await access(folder, constants.W_OK);
  } catch (error) {
    const { code, message } = writeFailure(shown, error);
    throw new SealpinError(code, message, {
      hint: 'the backup keeps the record of what was restored: copy it to a disk that can be written',
      cause: error,
    });
  }
}

type Restoring = {
  readonly layout: Layout;
  readonly target: Target;
  readonly context: Context;
  readonly account: string;
  /** The files of the account when the run began. */
  readonly here: ReadonlyMap<string, StoredFile>;
  /** Those among them that files of the backup have become. */
  readonly claimed: Set<string>;
  /** Folder that records the result for each file. */
  readonly folder: string;
  /** Permits the API key to set when files expire. */
  readonly canEnd: boolean;
  readonly identities: readonly Identity[];
  readonly onBytes: (bytes: number) => void;
};

function markPath({ folder }: Pick<Restoring, 'folder'>, fileId: string): string {
  return join(folder, `${fileId}.json`);
}

/** @returns `failures`: what ended the run, then those of files */
async function restoreAll(ids: readonly string[], run: Restoring) {
  const { context, canEnd } = run;
  const failures: unknown[] = [];
  let restored = 0;
  let expired = 0;
  let endless = 0;
  for (const fileId of ids) {
    try {
      const entry = await requireEntry(run.layout, fileId, context);
      if (entry.expiresAt !== undefined && Date.parse(entry.expiresAt) <= context.now()) {
        expired += 1;
        continue;
      }
      await restoreFile(entry, run);
      if (entry.expiresAt !== undefined && !canEnd) endless += 1;
      restored += 1;
    } catch (error) {
      if (!isOfOneFile(error, context)) {
        failures.unshift(error);
        break;
      }
      failures.push(error);
      context.output.warn(`${fileId} was not restored: ${error.message}`);
    }
  }
  if (endless > 0)
    context.output.warn(`${countText(endless, 'file')} will not expire: that takes an API key with the scope delete`);
  return { restored, expired, failures };
}

async function restoreFile(entry: BackupEntry, run: Restoring): Promise<void> {
  const { context, target } = run;
  const car = await openCar(carPath(run.layout, entry.cid), context);
  try {
    const sources = [car.source];
    const sending = { idempotencyKey: `restore ${run.account} ${entry.fileId}`, onBytes: run.onBytes };
    if (entry.mode === 'plain') {
      const details = await openDetails(entry, run.identities);
      const stored = storedBefore(entry, details, run) ?? (await storeCopy(entry.cid, sources, target, sending));
      run.claimed.add(stored.fileId);
      await finishFile(entry, stored, details, run);
      return;
    }
    const { fileKey, file } = await openSealedHeader(entry, run.identities);
    const blob = await openFile(entry.cid, sources, optionsOf(context));
    const opened = await openAtWithFileKey(accessTo(blob), { fileKey, provider: nodeProvider });
    await finishFile(entry, await storeEncrypted(opened, file.filename ?? entry.fileId, target, sending), file, run);
  } finally {
    await car.close();
  }
}

/** A file with this blob that an interrupted run stored, and did not write down. */
function storedBefore({ cid, bytes }: BackupEntry, { filename }: Details, { here, claimed }: Restoring) {
  for (const file of here.values())
    if (file.cid === cid && file.mode === 'plain' && !claimed.has(file.fileId))
      if (file.filename === null || file.filename === filename) return { fileId: file.fileId, cid, bytes };
  return undefined;
}

/** Gives the stored file what else was known of it, and writes down what it has become. */
async function finishFile(
  { fileId, expiresAt, details: sealedName }: BackupEntry,
  stored: Copied,
  details: Details | FileInfo,
  run: Restoring,
): Promise<void> {
  const { context, target } = run;
  const { service } = target;
  const ends = expiresAt === undefined || !run.canEnd ? {} : { expiresAt };
  await target.routes.describe(stored.fileId, { ...details, ...ends });
  if (sealedName !== undefined) await target.routes.setDetails(stored.fileId, sealedName);
  const name = 'name' in details ? details.name : undefined;
  const { cid, bytes } = stored;
  if (name !== undefined)
    await keepInHistory({ cid, fileId: stored.fileId, service: service.url.href, bytes, name }, context);
  await writeRecord(markPath(run, fileId), Restored, { v: 1, fileId: stored.fileId }, context);
}
