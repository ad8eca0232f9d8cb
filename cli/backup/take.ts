/**
 * Taking a backup: what the account has and the folder has not is fetched, verified and written.
 */
import { statSync } from 'node:fs';
import { accountOf, privateKeyOf } from '../../client/account-key.ts';
import type { ServiceHttp } from '../../client/service-http.ts';
import type { AccountDetails, StoredFile } from '../../shared/api.ts';
import {
  decodePem,
  detachedPayloadBytes,
  encodePrivateKeyFile,
  identityFromPkcs8,
  recipientFromSpki,
  type Identity,
  type Recipient,
} from '../../shared/crypto/index.ts';
import { maxHeaderBytes } from '../../shared/crypto/header.ts';
import { isSealpinError, SealpinError, otherwise } from '../../shared/errors.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { byteReader } from '../../shared/streams/reader.ts';
import type { Context } from '../context.ts';
import { failWrite } from '../errno.ts';
import { writeSmall } from '../io/output-file.ts';
import { intoDirectory } from '../io/paths.ts';
import { protect } from '../keys/key-files.ts';
import { authorizedService, sdkHttp } from '../remote/client.ts';
import { ownFilesOf } from '../fetch/own-files.ts';
import { writeCar } from '../fetch/fetch-blob.ts';
import { everyFile } from '../remote/pages.ts';
import { checkKey, keyFileDigest } from './backup-key.ts';
import { isOfOneFile } from './check.ts';
import {
  type About,
  carPath,
  BackupEntry,
  entryPath,
  type Layout,
  makeBackupFolder,
  readAbout,
  readEntry,
  recordedIn,
  refuseForeign,
  removePart,
  writeAbout,
  writeRecord,
} from './layout.ts';
import { writeReaders } from './readers.ts';
import { openDetails, openSealedHeader, sealDetails } from './sealed-details.ts';
import { namesInHistory } from '../files/history.ts';
import { hinting } from '../terminal/hints.ts';

/**
 * Brings a backup up to date. After an interruption the next call resumes where it stopped.
 * @param o.newPassword for `account.key`, asked for when there is none yet; `password`: the one
 * that was given, which opens one that is there; `prune`: whether what the account no longer has is
 * removed
 * @returns how many `files` of the account are in the backup now; `written`: of these, those that
 * were written, or whose record changed; `gone`: those in it that the account no longer has
 * @throws conflict when the folder is the backup of another account or has other files,
 * config_invalid also for another `account.key`, disk_full, file_unwritable; not_found,
 * content_mismatch and the like where the service does not have what it lists, after all else; what
 * ends a run
 */
export async function takeBackup(
  layout: Layout,
  o: {
    readonly newPassword: () => Promise<string>;
    readonly password: () => Promise<string | undefined>;
    readonly prune: boolean;
  },
  context: Context,
) {
  const service = await authorizedService(context);
  const http = sdkHttp(service, context);
  const account = await accountOf(http, context.signal);
  const before = await beginAbout(layout, service.url.href, account, context);
  const pkcs8 = await privateKeyOf(account, service.apiKey);
  const present = await checkKey(layout, before, o.password, context);
  const keyFile =
    present === undefined ? await protect(encodePrivateKeyFile(pkcs8), await o.newPassword(), context) : undefined;
  const about = { ...before, key: keyFile === undefined ? present : keyFileDigest(keyFile) };
  await intoDirectory(layout.root, failWrite(layout.shown), () => writeAbout(layout, about, context));
  if (keyFile !== undefined)
    await writeSmall(layout.key, keyFile, { force: false, environment: context, fileOnly: true });
  for (const folder of [layout.files, layout.blobs]) await makeBackupFolder(layout, folder);
  const names = await namesInHistory(context);
  const run: Taking = {
    layout,
    http,
    context: { ...context, ownFile: ownFilesOf(service) },
    identities: [identityFromPkcs8(pkcs8)],
    recipient: recipientFromSpki(decodePem('PUBLIC KEY', account.account.publicKey) ?? new Uint8Array()),
    names,
    fetchedBytes: 0,
  };
  const { live, failures, written } = await keepFiles(everyFile(service, context), run);
  const gone: string[] = [];
  const listed = new Set(about.files);
  for (const fileId of await recordedIn(layout)) {
    // What an earlier run kept of a file stays, where this one cannot read it.
    if (failures.has(fileId)) live.set(fileId, (await soundEntry(fileId, layout, context))?.cid ?? '');
    else if (!live.has(fileId) && (listed.has(fileId) || (await isOurs(fileId, run)))) gone.push(fileId);
  }
  await writeReaders(layout, context);
  const completedAt = new Date(context.now()).toISOString();
  await writeAbout(layout, { ...about, completedAt, files: [...live.keys()] }, context);
  if (o.prune) await prune(layout, gone, new Set(live.values()), context);
  const [failure] = failures.values();
  if (failure !== undefined) throw failure;
  return { files: live.size, written, fetchedBytes: run.fetchedBytes, gone };
}

type Taking = {
  readonly layout: Layout;
  readonly http: ServiceHttp;
  readonly context: Context;
  /** The key of the account: what opens its headers. */
  readonly identities: readonly Identity[];
  /** To which details are sealed. */
  readonly recipient: Recipient;
  /** Names in the local history, by file ID. */
  readonly names: ReadonlyMap<string, string>;
  fetchedBytes: number;
};

/** Brings all files up to date. @returns the blobs in the backup, and what failed, by file ID */
async function keepFiles(files: AsyncIterable<StoredFile>, run: Taking) {
  const live = new Map<string, string>();
  const failures = new Map<string, SealpinError>();
  let written = 0;
  for await (const file of files) {
    try {
      if (await keepFile(file, run)) written += 1;
      live.set(file.fileId, file.cid);
    } catch (error) {
      if (!isOfOneFile(error, run.context)) throw error;
      // The key pair of the account may have been replaced meanwhile.
      if (isSealpinError(error, 'decrypt_failed'))
        await beginAbout(run.layout, run.http.url, await accountOf(run.http, run.context.signal), run.context);
      failures.set(file.fileId, error);
      run.context.output.warn(`${file.fileId} was not backed up: ${error.message}`);
    }
  }
  return { live, failures, written };
}

async function beginAbout(
  layout: Layout,
  service: string,
  { account, rotation }: AccountDetails,
  context: Context,
): Promise<About> {
  if (rotation !== undefined)
    throw new SealpinError('conflict', 'the key pair of the account is being replaced, and a backup has one', {
      hint: 'complete that first: sealpin account rotate',
    });
  const found = await readAbout(layout, context);
  if (found === undefined) {
    await refuseForeign(layout);
    return { v: 1, service, account: account.id, publicKey: account.publicKey };
  }
  if (found.account !== account.id || found.publicKey !== account.publicKey)
    throw new SealpinError(
      'conflict',
      `${layout.shown} is the backup of ` +
        (found.account === account.id ? 'this account under an older key pair' : 'another account'),
      { hint: 'name another folder' },
    );
  return { ...found, service };
}

/** Brings one file up to date. @returns whether anything was written */
async function keepFile(file: StoredFile, run: Taking): Promise<boolean> {
  const { layout, context } = run;
  const path = entryPath(layout, file.fileId);
  const before = await readEntry(layout, file.fileId, context);
  const bytes = file.mode === 'plain' ? file.size : detachedPayloadBytes(file.size);
  // No blob is longer than its CAR.
  const hasBlob = (statSync(carPath(layout, file.cid), { throwIfNoEntry: false })?.size ?? 0) > bytes;
  const isSame = before !== undefined && before.changedAt === file.changedAt && before.expiresAt === file.expiresAt;
  if (hasBlob && isSame) return false;
  if (!hasBlob) {
    const car = { force: true, label: `fetching ${file.cid}`, bytes };
    await writeCar(file.cid, carPath(layout, file.cid), car, context);
    run.fetchedBytes += bytes;
  }
  const { fileId, cid, mode, createdAt, changedAt, expiresAt, details } = file;
  const entry: BackupEntry = { v: 1, fileId, cid, mode, bytes, createdAt, changedAt, expiresAt, details };
  // The record comes last: where it is, the blob is.
  await writeRecord(path, BackupEntry, { ...entry, ...(await sealedOf(file, entry, run)) }, context);
  return true;
}

async function sealedOf(file: StoredFile, entry: BackupEntry, run: Taking) {
  if (file.mode === 'encrypted') {
    const header = Buffer.from(await containerHeader(entry, run)).toString('base64');
    // A header that does not open is no backup of the file.
    const hint = 'its header at the service is damaged, and nothing opens it: delete the file';
    await hinting(openSealedHeader({ ...entry, header }, run.identities), 'decrypt_failed', hint);
    return { header };
  }
  const { fileId, filename = null, contentType, metadata, tags } = file;
  const details = { filename, contentType, metadata, tags, name: run.names.get(fileId) };
  return { sealed: await sealDetails(details, run.recipient) };
}

/** The header of a file that the service encrypted: what its container has before the blob. */
async function containerHeader({ fileId, bytes }: BackupEntry, { http, context }: Taking): Promise<Uint8Array> {
  const { signal } = context;
  const headers = { Accept: 'application/vnd.sealpin' };
  const container = await http.call({ path: `v1/storage/${fileId}`, headers, signal });
  const body = byteReader(http.body(container, undefined, signal));
  try {
    const headerBytes = Number(container.headers.get('Content-Length')) - bytes;
    if (!(headerBytes > 0 && headerBytes <= maxHeaderBytes))
      throw new SealpinError('content_mismatch', `the container of ${fileId} is not ${bytes} bytes after a header`);
    return await body.read(headerBytes);
  } finally {
    await cancelQuietly(body);
  }
}

/** The record of a file; undefined also where it is damaged, or something else. */
async function soundEntry(fileId: string, layout: Layout, context: Context): Promise<BackupEntry | undefined> {
  return otherwise(readEntry(layout, fileId, context), 'config_invalid', undefined);
}

/** Checks with the account's key that a record belongs to this account. */
async function isOurs(fileId: string, { layout, identities, context }: Taking): Promise<boolean> {
  const entry = await soundEntry(fileId, layout, context);
  if (entry === undefined) return false;
  try {
    await (entry.mode === 'encrypted' ? openSealedHeader(entry, identities) : openDetails(entry, identities));
    return true;
  } catch (error) {
    if (isSealpinError(error)) return false;
    throw error;
  }
}

/**
 * Removes files that the account no longer has, with their blobs.
 * @param used the blobs of the files that it has
 */
async function prune(layout: Layout, gone: readonly string[], used: ReadonlySet<string>, context: Context) {
  for (const fileId of gone) {
    const entry = await soundEntry(fileId, layout, context);
    if (entry !== undefined && !used.has(entry.cid)) await removePart(carPath(layout, entry.cid));
    // Last: what is interrupted before is found again.
    await removePart(entryPath(layout, fileId));
  }
}
