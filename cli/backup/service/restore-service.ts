/** Restoring the backup of a service into a data directory that has none. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, copyFile, lstat, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import packageJson from '../../../package.json' with { type: 'json' };
import { open as openContainer, passwordIdentity } from '../../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import type { Context } from '../../context.ts';
import { ifMissing, writeFailure } from '../../errno.ts';
import { forEachOf } from '../../files/side-by-side.ts';
import { streamOf } from '../../io/byte-stream.ts';
import { jsonIn } from '../../io/json-text.ts';
import { quietSqlite } from '../../io/quiet-sqlite.ts';
import { makeDataDirectory } from '../../io/paths.ts';
import { removeTree } from '../../io/remove-tree.ts';
import { syncDirectory, syncFile, syncTree } from '../../io/unfinished.ts';
import { readIdentities } from '../../keys/key-files.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { askPassword, givenPassword, withoutGivenPassword } from '../../keys/passwords.ts';
import { holdStrays, markStopped } from '../../local/snapshot/marks.ts';
import { localPaths, restoringIn, type Secrets, newSecrets, serviceIdOf } from '../../local/state.ts';
import { isOlder } from '../../local/upgrade/version.ts';
import { copyChecked } from './checked-copy.ts';
import { type BadFile, faultOf, faultyFiles } from './check-service.ts';
import { isBackupOf, partEntries, type Manifest, requireManifest, type ServiceFolder } from './service-folder.ts';

/** Whose tokens there are: new ones, or those that a key or a password opens. */
type SecretsChoice = {
  readonly key: string | undefined;
  readonly 'password-file': string | undefined;
  readonly 'without-secrets': boolean;
};

/**
 * Restores a backup. All of it appears at once, at the end; a run that is killed leaves a folder
 * that the next one replaces, and with which no service starts.
 * @param o its flags: `without-secrets` makes new tokens; the others open the secrets
 * @param onBytes gets the length of each file that was restored
 * @returns what was restored; `secrets`: whether the tokens are those of the backup
 * @throws conflict where there is a service, or another restoration; content_mismatch with the
 * names of damaged databases; config_invalid, decrypt_failed, disk_full, file_unwritable
 */
export async function restoreService(
  folder: ServiceFolder,
  o: SecretsChoice & { readonly onBytes: (bytes: number) => void },
  context: Context,
) {
  const { dataDir } = context;
  const manifest = await requireManifest(folder, context);
  if (isOlder(packageJson.version, manifest.sealpin))
    throw new SealpinError('config_invalid', `the backup was written by sealpin ${manifest.sealpin}`, {
      hint: `install that version or a newer one; this is ${packageJson.version}`,
    });
  await refuseService(dataDir);
  await refuseDamaged(folder, manifest, context);
  const secrets = await secretsOf(folder, manifest, o, context);
  const warning = await makeDataDirectory(dataDir);
  if (warning !== undefined) context.output.warn(warning);
  const staging = restoringIn(dataDir);
  const held = await holdStagingFolder(staging);
  try {
    for (const file of manifest.files) {
      context.signal.throwIfAborted();
      await place(join(folder.parts, file.part), join(staging, file.path));
    }
    await holdStrays(join(staging, 'state'));
    // One that was made during the backup is in it, too.
    await markStopped(join(staging, 'state'));
    const blocks = await restoreBlocks(folder, staging, manifest, o.onBytes, context);
    await writeFile(join(staging, 'secrets.json'), secrets, { mode: 0o600, flag: 'wx', flush: true });
    await syncTree(staging);
    await refuseService(dataDir);
    await rm(localPaths(dataDir).local, { recursive: true, force: true });
    await rename(staging, localPaths(dataDir).local);
    await syncDirectory(dataDir);
    return { takenAt: manifest.takenAt, ...blocks, secrets: manifest.secrets !== undefined && !o['without-secrets'] };
  } catch (error) {
    throw error instanceof Error && 'syscall' in error ? writeFailure(dataDir, error) : error;
  } finally {
    held.release();
  }
}

/** Refuses a data directory with a service; Node's cache in it is none. @throws conflict */
async function refuseService(dataDir: string): Promise<void> {
  const { local, cache } = localPaths(dataDir);
  const found = await ifMissing(lstat(local), undefined);
  if (found === undefined) return;
  const names = found.isDirectory() ? await readdir(local) : [local];
  if (names.every((name) => join(local, name) === cache)) return;
  throw new SealpinError('conflict', `${dataDir} has a local service, or other files in its place`, {
    hint: 'restore into another data directory with --data-dir',
  });
}

/** @throws content_mismatch */
async function refuseDamaged(folder: ServiceFolder, manifest: Manifest, context: Context): Promise<void> {
  const bad = await faultyFiles(folder, partEntries(manifest), context);
  if (bad.length === 0) return;
  const named = bad.map(({ path, of, why }) => `${path} (${of}) is ${why}`).join(', ');
  throw new SealpinError('content_mismatch', `${folder.shown} cannot be restored: ${named}`, {
    hint: 'nothing was restored; use another copy of the backup',
  });
}

async function secretsOf(folder: ServiceFolder, manifest: Manifest, o: SecretsChoice, context: Context) {
  const { secrets, serviceId } = manifest;
  if (o['without-secrets'])
    return `${JSON.stringify(newSecrets(serviceId || randomBytes(16).toString('hex')), null, 2)}\n`;
  if (secrets === undefined)
    throw new SealpinError('conflict', `${folder.shown} does not have the secrets of the service`, {
      hint: 'with --without-secrets it gets new tokens; API keys of its accounts work as before',
    });
  const text = await openSecrets(await readFile(join(folder.parts, secrets.part)), o, context);
  if (isBackupOf(manifest, serviceIdOf(jsonIn(text) as Secrets | undefined))) return text;
  throw new SealpinError('config_invalid', 'the secrets in the backup are those of another service');
}

/**
 * Opens the secrets, an age file, with the password or the key that was given; asks for a password.
 * @throws decrypt_failed, config_invalid when they are damaged; the codes of `readIdentities`
 */
async function openSecrets(bytes: Uint8Array, given: SecretsChoice, context: Context): Promise<string> {
  const opened = await openContainer(streamOf(bytes), { provider: nodeProvider });
  if (!('opens' in opened)) throw new SealpinError('config_invalid', 'the secrets in the backup are damaged');
  const password = await givenPassword(given, opened.opens === 'keys' ? withoutGivenPassword(context) : context);
  const identities =
    opened.opens === 'password'
      ? [passwordIdentity(password ?? (await askPassword('the secrets of the backup', context)))]
      : await readIdentities(given.key, password, context);
  return new Response(await opened.decrypt(identities)).text();
}

/** Makes the folder in which everything is put together, and holds it. @throws conflict */
async function holdStagingFolder(staging: string): Promise<{ release(): void }> {
  // A link of that name would lead elsewhere; where it goes is left alone.
  if ((await ifMissing(lstat(staging), undefined))?.isDirectory() === false) await rm(staging);
  await mkdir(staging, { recursive: true, mode: 0o700 });
  await chmod(staging, 0o700);
  quietSqlite();
  const { lock } = await import('../../io/lock.ts');
  const name = 'lock';
  await (await open(join(staging, name), constants.O_CREAT | constants.O_RDWR | constants.O_NOFOLLOW, 0o600)).close();
  let held: ReturnType<typeof lock>;
  try {
    held = lock(join(staging, name));
  } catch (error) {
    if (!isSealpinError(error, 'already_running')) throw error;
    throw new SealpinError('conflict', 'another restoration into this data directory is running', { cause: error });
  }
  for (const each of await readdir(staging)) if (each !== name) await removeTree(join(staging, each));
  return held;
}

/** Copies a part to its place. */
async function place(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 });
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  await chmod(to, 0o600);
  await syncFile(to);
}

async function restoreBlocks(
  folder: ServiceFolder,
  staging: string,
  { blocks }: Manifest,
  onBytes: (bytes: number) => void,
  { signal }: Context,
) {
  const data = join(staging, 'ipfs/data');
  await mkdir(data, { recursive: true, mode: 0o700 });
  const bad: BadFile[] = [];
  let [files, bytes] = [0, 0];
  await forEachOf(blocks, async ({ name, cid, sha256, bytes: length }) => {
    signal.throwIfAborted();
    const why = await copyChecked(join(folder.blocks, name), join(data, name), (copy) => faultOf(copy, sha256));
    if (why !== undefined) {
      bad.push({ path: `blocks/${name}`, of: cid, why });
      return;
    }
    files += 1;
    bytes += length;
    onBytes(length);
  });
  return { files, bytes, bad };
}
