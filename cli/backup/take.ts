/** Taking a backup: what the account has and the folder has not is fetched, verified and written. */
import { stat } from 'node:fs/promises';
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
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { byteReader } from '../../shared/streams/reader.ts';
import type { Context } from '../context.ts';
import { recall } from '../history.ts';
import { openSink } from '../io/output-file.ts';
import { protect } from '../keys/key-files.ts';
import { authorizedService } from '../remote/client.ts';
import { blobAsCar, readFailure } from '../remote/fetch-blob.ts';
import { everyFile } from '../remote/every-file.ts';
import { sdkHttp } from '../remote/sdk.ts';
import {
  type About,
  carPath,
  type Entry,
  Entry as EntryShape,
  entryPath,
  type Layout,
  namesIn,
  prepare,
  readAbout,
  readRecord,
  removePart,
  writeRecord,
} from './layout.ts';
import { openHeader, sealDetails } from './sealed-details.ts';

/** What a run did. */
export type Taken = {
  /** Files that the account has, and that are in the backup now. */
  readonly files: number;
  /** Of these, those that were written, or whose record changed. */
  readonly written: number;
  /** Bytes of the blobs that were fetched. */
  readonly fetchedBytes: number;
  /** Files in the backup that the account no longer has. */
  readonly gone: readonly string[];
};

/**
 * Brings a backup up to date. After an interruption the next call goes on where it stopped.
 *
 * @param o.newPassword for `account.key`, asked for when there is none yet; `prune`: whether what the account no longer has is removed
 * @throws conflict when the folder is the backup of another account, config_invalid, disk_full, file_unwritable; not_found,
 *   content_mismatch and the like where the service does not have what it lists, after all other files; what the service refuses with
 */
export async function takeBackup(
  layout: Layout,
  o: { readonly newPassword: () => Promise<string>; readonly prune: boolean },
  context: Context,
): Promise<Taken> {
  const service = await authorizedService(context);
  const http = sdkHttp(service, context);
  const account = await accountOf(http, context.signal);
  const about = await beginAbout(layout, service.url.href, account, context);
  const pkcs8 = await privateKeyOf(account, service.apiKey);
  await prepare(layout);
  await writeRecord(layout.about, about, context);
  await keepKey(layout, pkcs8, o.newPassword, context);
  const names = await namesInHistory(context);
  const run: Run = {
    layout,
    http,
    context,
    identities: [identityFromPkcs8(pkcs8)],
    recipient: recipientFromSpki(decodePem('PUBLIC KEY', account.account.publicKey) ?? new Uint8Array()),
    names,
    fetchedBytes: 0,
  };
  const live = new Set<string>();
  const failures: unknown[] = [];
  let written = 0;
  for await (const file of everyFile(service, context)) {
    try {
      if (await keepFile(file, run)) written += 1;
      live.add(file.fileId);
    } catch (error) {
      // One file that cannot be read must not keep the others out of the backup.
      if (!isOfOneFile(error)) throw error;
      failures.push(error);
      context.output.warn(`${file.fileId} is not in the backup: ${(error as Error).message}`);
    }
  }
  if (failures.length > 0) throw failures[0];
  const gone = (await namesIn(layout.files, '.json')).filter((fileId) => !live.has(fileId));
  await writeRecord(
    layout.about,
    { ...about, completedAt: new Date(context.now()).toISOString(), files: [...live] },
    context,
  );
  if (o.prune) await prune(layout, gone, context);
  return { files: live.size, written, fetchedBytes: run.fetchedBytes, gone };
}

type Run = {
  readonly layout: Layout;
  readonly http: ServiceHttp;
  readonly context: Context;
  /** The key of the account: what opens its headers. */
  readonly identities: readonly Identity[];
  /** To which details are sealed. */
  readonly recipient: Recipient;
  /** What the history calls files, by file ID. */
  readonly names: ReadonlyMap<string, string>;
  fetchedBytes: number;
};

async function beginAbout(
  layout: Layout,
  service: string,
  { account }: AccountDetails,
  context: Context,
): Promise<About> {
  const found = await readAbout(layout, context);
  if (found === undefined) return { v: 1, service, account: account.id, publicKey: account.publicKey };
  if (found.account !== account.id || found.publicKey !== account.publicKey)
    throw new SealpinError(
      'conflict',
      `${layout.shown} is the backup of ${found.account === account.id ? 'this account under an older key pair' : 'another account'}`,
      { hint: 'name another folder' },
    );
  return { ...found, service };
}

/** Writes the account's private key with a password on it, unless it is there already. */
async function keepKey(
  { key }: Layout,
  pkcs8: Uint8Array,
  newPassword: () => Promise<string>,
  context: Context,
): Promise<void> {
  if ((await stat(key).catch(() => undefined)) !== undefined) return;
  const sink = await openSink(key, { force: false, environment: context, fileOnly: true });
  try {
    await sink.write(await protect(encodePrivateKeyFile(pkcs8), await newPassword(), context));
    await sink.commit();
  } finally {
    await sink.abort();
  }
}

async function namesInHistory({ dataDir }: Context): Promise<Map<string, string>> {
  const { entries } = await recall(dataDir);
  return new Map(
    entries.flatMap((entry) => ('cid' in entry && entry.name !== undefined ? [[entry.fileId, entry.name]] : [])),
  );
}

/** Brings one file up to date. @returns whether anything was written */
async function keepFile(file: StoredFile, run: Run): Promise<boolean> {
  const { layout, context } = run;
  const path = entryPath(layout, file.fileId);
  const before = await readRecord(path, EntryShape, context);
  const hasBlob = (await stat(carPath(layout, file.cid)).catch(() => undefined)) !== undefined;
  const isSame = before !== undefined && before.changedAt === file.changedAt && before.expiresAt === file.expiresAt;
  if (hasBlob && isSame) return false;
  const bytes = file.mode === 'plain' ? file.size : detachedPayloadBytes(file.size);
  if (!hasBlob) await keepBlob(file.cid, bytes, run);
  const { fileId, cid, mode, createdAt, changedAt, expiresAt } = file;
  const times = {
    ...(changedAt === undefined ? {} : { changedAt }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
  const entry: Entry = { v: 1, fileId, cid, mode, bytes, createdAt, ...times };
  // The record comes last: where it is, the blob is.
  await writeRecord(path, { ...entry, ...(await sealedOf(file, entry, run)) }, context);
  return true;
}

/** Writes a blob as a CAR, each block verified. */
async function keepBlob(cid: string, bytes: number, run: Run): Promise<void> {
  const { layout, context } = run;
  const sink = await openSink(carPath(layout, cid), { force: true, environment: context, fileOnly: true });
  try {
    await sink.room(bytes);
    const progress = context.output.progress(`fetching ${cid}`, bytes);
    for await (const chunk of await blobAsCar(cid, context)) {
      await sink.write(chunk);
      progress.add(chunk.length);
    }
    progress.done();
    await sink.commit();
    run.fetchedBytes += bytes;
  } catch (error) {
    throw readFailure(error);
  } finally {
    await sink.abort();
  }
}

async function sealedOf(file: StoredFile, entry: Entry, run: Run): Promise<Pick<Entry, 'header' | 'sealed'>> {
  if (file.mode === 'encrypted') {
    const header = Buffer.from(await headerOf(entry, run)).toString('base64');
    // A header that does not open is no backup of the file.
    await openHeader({ ...entry, header }, run.identities);
    return { header };
  }
  const name = run.names.get(file.fileId);
  const details = {
    filename: file.filename ?? null,
    contentType: file.contentType,
    ...(file.metadata === undefined ? {} : { metadata: file.metadata }),
    ...(file.tags === undefined ? {} : { tags: file.tags }),
    ...(name === undefined ? {} : { name }),
  };
  return { sealed: await sealDetails(details, run.recipient) };
}

/** The header of a file that the service encrypted: what its container has before the blob. */
async function headerOf({ fileId, bytes }: Entry, { http, context }: Run): Promise<Uint8Array> {
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
    await body.cancel().catch(() => undefined);
  }
}

/** As long as any header is (C2SP age.md, as this project reads it). */
const maxHeaderBytes = 1024 * 1024;

const ofOneFile = [
  'not_found',
  'gone',
  'content_denied',
  'content_mismatch',
  'pinning_lost',
  'pinning_unavailable',
  'invalid_cid',
  'header_invalid',
  'decrypt_failed',
] as const;

/** Whether a failure is that of one file, and not of the service, the disk or the command. */
function isOfOneFile(error: unknown): boolean {
  return ofOneFile.some((code) => isSealpinError(error, code));
}

/** Removes what the account no longer has, and blobs that no file has. */
async function prune(layout: Layout, gone: readonly string[], context: Context): Promise<void> {
  for (const fileId of gone) await removePart(entryPath(layout, fileId));
  const used = new Set<string>();
  for (const fileId of await namesIn(layout.files, '.json')) {
    const entry = await readRecord(entryPath(layout, fileId), EntryShape, context);
    if (entry !== undefined) used.add(entry.cid);
  }
  for (const cid of await namesIn(layout.blobs, '.car')) if (!used.has(cid)) await removePart(carPath(layout, cid));
}
