/** Variables and secrets of the Worker, as `wrangler.toml` has those of a deployed one. */
import { SealpinError } from '../../../shared/errors.ts';
import { jsonIn } from '../../io/json-text.ts';
import { embeddedId, kuboId, type Kubo } from './external-kubo.ts';
import type { Secrets } from '../state.ts';

/** A backend, as `BACKENDS` describes it. */
type BackendEntry = { readonly id?: unknown; readonly type?: unknown; readonly [member: string]: unknown };

/** Backends of `--backends`, and the secrets that they name. */
export type Backends = {
  readonly entries: readonly BackendEntry[];
  readonly secrets: Readonly<Record<string, string>>;
};

/** Begins the names of what this process tells its Worker, which no backend gets. */
const ownPrefix = 'LOCAL_';
const nodeSecret = `${ownPrefix}NODE_TOKEN`;
const kuboSecret = 'KUBO_TOKEN';

type Variables = Readonly<Record<string, string | undefined>>;

/** Settings of `docs/operating.md` that a service on a server takes from its environment. */
const settings = [
  'REPLICAS',
  'MAX_UPLOAD_BYTES',
  'MAX_FILE_BYTES',
  'UPLOAD_IDLE_SECONDS',
  'PUBLIC_GATEWAY',
  'CORS_ORIGINS',
  'BACKUP_DAYS',
  'SHARE_MAX_DAYS',
  'SHARE_MAX_OPENS',
  'KEY_LIMIT_POLICY',
  'ADDRESS_LIMIT_POLICY',
];

/** The others, which such a service has of its own. */
const ownSettings = [
  'BACKENDS',
  'PINNING_SERVICES',
  'SERVICE_ID',
  'RECOVERY_DAYS',
  'ADMIN_TOKEN',
  'METRICS_TOKEN',
  'RESTORE_TOKEN',
];

/** The settings in an environment. `ignored`: the names of those that are not taken from it. */
export function settingsIn(env: Variables): { settings: Record<string, string>; ignored: string[] } {
  const given = settings.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]] as const]));
  return { settings: Object.fromEntries(given), ignored: ownSettings.filter((name) => (env[name] ?? '') !== '') };
}

/**
 * Parses a file of backends. What is wrong with an entry, the Worker says.
 * @param file its name, for messages
 * @param env holds the secrets that the entries name
 * @throws config_invalid
 */
export function parseBackends(text: string, file: string, env: Variables): Backends {
  const invalid = (what: string, hint: string): SealpinError =>
    new SealpinError('config_invalid', `${file}: ${what}`, { hint });
  const value = jsonIn(text);
  if (value === undefined) throw invalid('it is not JSON', 'see "Backends" in docs/operating.md');
  const isObject = (each: unknown): each is BackendEntry =>
    typeof each === 'object' && each !== null && !Array.isArray(each);
  if (!Array.isArray(value) || value.length === 0 || !value.every(isObject))
    throw invalid('it is not a list of at least one backend', 'see "Backends" in docs/operating.md');
  const entries: BackendEntry[] = value;
  for (const { id, type } of entries) {
    if (id === embeddedId)
      throw invalid(`the id ${embeddedId} is that of the built-in node`, 'choose another one; the node needs no entry');
    if (type === 'r2') throw invalid('R2 is bound to a Worker at Cloudflare', "use the type s3 with R2's S3 address");
  }
  const names = new Set(entries.flatMap((entry) => secretNames(entry)));
  const secrets = [...names].map((name) => {
    if (name.startsWith(ownPrefix))
      throw invalid(`the secret ${name} has a name of the service itself`, 'choose a name without LOCAL_');
    const secret = env[name] ?? '';
    if (secret === '') throw invalid(`the secret ${name} is not set`, `put it in the environment variable ${name}`);
    return [name, secret] as const;
  });
  return { entries, secrets: Object.fromEntries(secrets) };
}

/** The secrets that an entry names, in members such as `tokenSecret`. */
function secretNames(entry: BackendEntry): string[] {
  return Object.entries(entry).flatMap(([member, value]) =>
    member.endsWith('Secret') && typeof value === 'string' ? [value] : [],
  );
}

/** What the variables follow from. `origins`: other origins whose pages may call. */
type VariableOptions = {
  readonly secrets: Secrets;
  readonly nodeUrl: string;
  readonly kubo: Kubo | undefined;
  readonly backends?: Backends | undefined;
  readonly settings?: Readonly<Record<string, string>> | undefined;
  readonly origins?: readonly string[] | undefined;
  readonly backupDays?: number | undefined;
};

/** Variables of the Worker. */
export function workerVars(o: VariableOptions): Record<string, string> {
  const { secrets, kubo } = o;
  return {
    ...o.backends?.secrets,
    KEY_LIMIT_POLICY: '600/60',
    ADDRESS_LIMIT_POLICY: '60/60',
    MAX_UPLOAD_BYTES: '',
    PUBLIC_GATEWAY: 'on',
    ...o.settings,
    ADMIN_TOKEN: secrets.adminToken,
    METRICS_TOKEN: secrets.metricsToken,
    BACKENDS: JSON.stringify(backendList(o)),
    [nodeSecret]: secrets.rpcToken,
    ...(kubo?.token !== undefined && { [kuboSecret]: kubo.token }),
    SERVICE_ID: secrets.serviceId,
    CORS_ORIGINS: [o.settings?.['CORS_ORIGINS'] ?? [], o.origins ?? []].flat().join(','),
    // The objects of this machine cannot be restored to an earlier point in time.
    RECOVERY_DAYS: '0',
    BACKUP_DAYS: String(o.backupDays ?? ''),
  };
}

/** The list for the Worker: the first takes new bytes, and what the others hold is read. */
function backendList({ nodeUrl, kubo, backends }: VariableOptions): readonly BackendEntry[] {
  const node = { id: embeddedId, type: 'kubo', url: nodeUrl, tokenSecret: nodeSecret };
  if (backends !== undefined) return [...backends.entries, node];
  if (kubo === undefined) return [node];
  const token = kubo.token === undefined ? {} : { tokenSecret: kuboSecret };
  return [{ id: kuboId, type: 'kubo', url: kubo.url, ...token }, node];
}
