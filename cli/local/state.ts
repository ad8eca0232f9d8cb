/**
 * The files of the local service in `local/` of the data directory: `secrets.json` (0600: its
 * tokens, its account's API key), `run.json` (the processes and address of the running service),
 * `kubo.json` (the Kubo that it uses, or used), `origin.json` (where a public service is),
 * `version.json` (which sealpin it belongs to), `rewritten.json` (which databases are without
 * deleted rows), `copies/` (the state before an upgrade), `lock`, `control.sock`, `service.log`,
 * `state/` (Miniflare's KV and Durable Objects), `ipfs/` (the blocks), `reserve` (room for
 * deletions on a full disk), `tmp/` and `cache/` (which may go).
 */
import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { damagedFile, ifMissing } from '../errno.ts';
import { jsonIn } from '../io/json-text.ts';
import { syncDirectory } from '../io/unfinished.ts';
import type { ProcessMark } from './process.ts';

/** The version of these files; a newer sealpin writes a higher one. */
const stateVersion = 1;

/** `serviceId` distinguishes the pins of this service from those of others on the same Kubo. */
export type Secrets = {
  v: 1;
  adminToken: string;
  metricsToken: string;
  rpcToken: string;
  serviceId: string;
  account?: string;
  apiKey?: string;
};

/** `workerd`: absent while the service is still starting. */
export type Run = { v: 1; service: ProcessMark; workerd: ProcessMark[]; url: string; startedAt: string };

/** The Kubo of `start --kubo-api`, without credentials. `inUse`: whether the last start used it. */
type KuboMark = { v: 1; url: string; peerId: string; inUse: boolean };

/**
 * The JSON files above. `origin`: of a service that was started with `--origin`; `rollback`: the
 * copy of one that has begun; `rewritten`: stamps by path below `state/`.
 */
type States = {
  secrets: Secrets;
  run: Run;
  kubo: KuboMark;
  origin: { v: 1; origin: string };
  version: { v: 1; version: string };
  rollback: { v: 1; copy: string };
  rewritten: { v: 1; stamps: Readonly<Record<string, string>> };
};

/** Members that each of them must have. */
const required: { readonly [name in keyof States]: readonly (keyof States[name])[] } = {
  secrets: ['adminToken', 'rpcToken'],
  run: ['service', 'workerd', 'url'],
  kubo: ['url', 'peerId', 'inUse'],
  origin: ['origin'],
  version: ['version'],
  rollback: ['copy'],
  rewritten: ['stamps'],
};

/** The paths below a data directory that the local service uses. */
export function localPaths(dataDir: string) {
  const local = join(dataDir, 'local');
  return {
    local,
    secrets: join(local, 'secrets.json'),
    run: join(local, 'run.json'),
    kubo: join(local, 'kubo.json'),
    origin: join(local, 'origin.json'),
    version: join(local, 'version.json'),
    rollback: join(local, 'rollback.json'),
    rewritten: join(local, 'rewritten.json'),
    lock: join(local, 'lock'),
    control: join(local, 'control.sock'),
    log: join(local, 'service.log'),
    state: join(local, 'state'),
    ipfs: join(local, 'ipfs'),
    data: join(local, 'ipfs', 'data'),
    copies: join(local, 'copies'),
    tmp: join(local, 'tmp'),
    cache: join(local, 'cache'),
    reserve: join(local, 'reserve'),
  };
}

/** The folder in which a restoration puts everything together, beside `local/`. */
export function restoringIn(dataDir: string): string {
  return join(dataDir, 'local.restoring');
}

/**
 * Creates the folder of the local service, accessible to its owner only.
 * @throws usage where a folder of that name is somebody else's: a start removes what a crash left
 * in it; config_invalid where a restoration has not come to its end
 */
export async function makeLocal(dataDir: string): Promise<void> {
  if ((await readdir(restoringIn(dataDir)).catch((): string[] => [])).length > 0)
    throw new SealpinError('config_invalid', 'a restoration into this data directory was interrupted', {
      hint: `repeat it: sealpin service restore <dir>; or remove ${restoringIn(dataDir)}`,
    });
  const { local, ...paths } = localPaths(dataDir);
  const own = [paths.secrets, paths.run, paths.kubo, paths.lock, paths.log].map((path) => basename(path));
  // Node has made the cache before: `start` lets it keep what V8 compiles there, and nothing in it
  // is removed.
  const names = (await readdir(local).catch((): string[] => [])).filter((name) => name !== basename(paths.cache));
  if (names.length > 0 && !own.some((name) => names.includes(name)))
    throw new SealpinError('usage', `${local} has other files than those of a local service`, {
      hint: 'name another data directory with --data-dir',
    });
  await mkdir(local, { recursive: true, mode: 0o700 });
  await chmod(local, 0o700);
}

/**
 * Reads one of the JSON files above; undefined when it does not exist.
 * @throws config_invalid when it is damaged or of a newer sealpin; the file is left unchanged
 */
export async function readState<N extends keyof States>(dataDir: string, name: N): Promise<States[N] | undefined> {
  const path = localPaths(dataDir)[name];
  const text = await ifMissing(readFile(path, 'utf8'), undefined).catch((cause: unknown) => {
    throw new SealpinError('config_invalid', `cannot read ${path}`, { cause });
  });
  if (text === undefined) return undefined;
  const found = (jsonIn(text) ?? {}) as Partial<States[N]>;
  if (typeof found.v === 'number' && found.v > stateVersion)
    throw new SealpinError('config_invalid', `${path} was written by a newer sealpin`, {
      hint: 'install the newest version; nothing was changed',
    });
  if (found.v !== stateVersion || required[name].some((each) => found[each] === undefined)) throw damagedFile(path);
  return found as States[N];
}

/**
 * Writes one of the JSON files above, for its owner only, so that a crash leaves the old one or the
 * new one; undefined removes it.
 */
export async function writeState<N extends keyof States>(dataDir: string, name: N, value: States[N] | undefined) {
  const path = localPaths(dataDir)[name];
  if (value === undefined) return await rm(path, { force: true });
  const temporary = `${path}.${process.pid}.tmp`;
  await writeFile(temporary, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600, flush: true });
  await rename(temporary, path);
  await syncDirectory(dirname(path));
}

/** Removes what killed runs have not written to its end. The caller holds the lock. */
export async function removeTemporaries(dataDir: string): Promise<void> {
  const { local, ...paths } = localPaths(dataDir);
  const own = (Object.keys(required) as (keyof States)[]).map((name) => basename(paths[name]));
  for (const name of await readdir(local)) {
    const [, written = ''] = /^(.+)\.[0-9]+\.tmp$/.exec(name) ?? [];
    if (own.includes(written)) await rm(join(local, name), { force: true });
  }
}

/** Tokens that nobody knows yet, without an account. */
export function newSecrets(serviceId: string): Secrets {
  const token = (): string => randomBytes(32).toString('base64url');
  return { v: 1, adminToken: token(), metricsToken: token(), rpcToken: token(), serviceId };
}

/**
 * The ID of the service that has these secrets. Version 0.1.0 wrote none: there it follows from a
 * token, so that a backup before the first start of a later version, and one after a rollback, are
 * of the same service.
 */
export function serviceIdOf({ serviceId, adminToken }: Partial<Secrets> | undefined = {}): string {
  return serviceId ?? createHash('sha256').update(`sealpin service ${adminToken}`).digest('hex').slice(0, 32);
}

/** The tokens of the local service; the first start creates them. */
export async function loadSecrets(dataDir: string): Promise<Secrets> {
  const found = await readState(dataDir, 'secrets');
  if (found?.serviceId !== undefined && found.metricsToken !== undefined) return found;
  // What earlier versions wrote, and lacks some of them, stays.
  const serviceId = found === undefined ? randomBytes(16).toString('hex') : serviceIdOf(found);
  const secrets = { ...newSecrets(serviceId), ...found };
  await writeState(dataDir, 'secrets', secrets);
  return secrets;
}

/**
 * The command that starts the service of a data directory: where that is a public one, a start
 * without its address is refused.
 */
export async function startCommand(dataDir: string): Promise<string> {
  const known = await readState(dataDir, 'origin').catch(() => undefined);
  return `sealpin start${known === undefined ? '' : ` --origin ${known.origin}`}`;
}

/**
 * Refuses to take a public service back to loopback where nobody has asked for it: a flag that was
 * lost from a unit file would end all of its links.
 * @throws usage
 */
export async function refuseLostOrigin(dataDir: string): Promise<void> {
  const known = await readState(dataDir, 'origin');
  if (known !== undefined)
    throw new SealpinError('usage', `${dataDir} has the service of ${known.origin}, whose links would end here`, {
      hint: `start it with --origin ${known.origin}; or with --origin none, if they are to end`,
    });
}

/**
 * Saves at which origin the service is; undefined: on loopback.
 * @returns the address that its links had before, if it was another one
 */
export async function saveOrigin(dataDir: string, origin: string | undefined, { account }: Secrets) {
  const known = (await readState(dataDir, 'origin'))?.origin;
  if (known === origin) return undefined;
  await writeState(dataDir, 'origin', origin === undefined ? undefined : { v: 1, origin });
  // Only a service on loopback makes an account of its own.
  return known ?? (account === undefined ? undefined : 'http://127.0.0.1');
}
