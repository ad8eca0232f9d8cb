/**
 * Bindings, variables and secrets that the runtime hands to the service. What parses a variable
 * throws `misconfigured`, naming it.
 */
import { parseBackupDays } from '../shared/backup-days.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { dayMs, hourMs } from '../shared/time.ts';

/**
 * Requests whose bytes the process in front takes, or gives from a place that the response names.
 * `report`: of an upload. While bytes arrive, blanks do, too; then the report comes, as JSON, or
 * `failed` with the words of the backend.
 */
type Handovers = { get(request: Request): { report?: ReadableStream<Uint8Array> } | undefined };

/** Variables and secrets of the service itself. */
const variables = [
  'KEY_LIMIT_POLICY',
  'ADDRESS_LIMIT_POLICY',
  'BACKENDS',
  'PINNING_SERVICES',
  'REPLICAS',
  'SERVICE_ID',
  'MAX_UPLOAD_BYTES',
  'MAX_FILE_BYTES',
  'UPLOAD_IDLE_SECONDS',
  'PUBLIC_GATEWAY',
  'CORS_ORIGINS',
  'RECOVERY_DAYS',
  'BACKUP_DAYS',
  'SHARE_MAX_DAYS',
  'SHARE_MAX_OPENS',
  'ADMIN_TOKEN',
  'METRICS_TOKEN',
  'RESTORE_TOKEN',
] as const;
type Name = (typeof variables)[number];

/** Tells the name of a variable or secret of the service from those of its backends. */
export function isOwnName(name: string): name is Name {
  return variables.some((each) => each === name);
}

/**
 * Bindings and variables that `wrangler.toml` and the operator set. The Durable Objects are typed
 * where they are called: they read these, too.
 */
export type Env = {
  API_KEYS: KVNamespace;
  PIN: Pick<DurableObjectNamespace, 'idFromName'>;
  KEY_LIMIT?: RateLimit;
  ADDRESS_LIMIT?: RateLimit;
  /** Only of a local service. */
  HANDOVERS?: Handovers;
} & { [name in Name]?: string };

/** The text of a variable; empty where it is unset. TOML has numbers, too, and much else. */
export function textOf(env: { [name in Name]?: unknown }, name: Name): string {
  const value = env[name] ?? '';
  if (typeof value !== 'string' && typeof value !== 'number')
    throw new SealpinError('misconfigured', `${name} is not a text, such as "…"`);
  return String(value);
}

/** The largest request body in bytes; undefined without a limit. */
export function maxUploadBytes(env: Env): number | undefined {
  return numberIn(env, 'MAX_UPLOAD_BYTES', byteCount);
}

/**
 * The largest file that may be uploaded in several requests, in bytes: 32 GiB by default, whose
 * 32,768 digests of leaves fit into the memory of one request.
 */
export function maxFileBytes(env: Env): number {
  return numberIn(env, 'MAX_FILE_BYTES', byteCount) ?? 32 * 1024 ** 3;
}

/**
 * The limit per account or per address as the operator tells it to clients, such as `600/60`: a
 * binding does not say its own.
 * @returns undefined where it is not told, or where nothing is limited
 */
export function rateLimitOf(env: Env, of: 'account' | 'address') {
  const name = of === 'account' ? 'KEY_LIMIT_POLICY' : 'ADDRESS_LIMIT_POLICY';
  const limiter = of === 'account' ? env.KEY_LIMIT : env.ADDRESS_LIMIT;
  const text = textOf(env, name);
  if (text === '') return undefined;
  const [, requests, seconds] = /^([1-9][0-9]{0,8})\/(10|60)$/.exec(text) ?? [];
  if (requests === undefined)
    throw new SealpinError('misconfigured', `${name} is not requests/seconds, such as 600/60`);
  return limiter && { requests: Number(requests), seconds: Number(seconds) };
}

/** Time for which an upload may send nothing before it is aborted, in ms: a minute by default. */
export function uploadIdleMs(env: Env): number {
  return (numberIn(env, 'UPLOAD_IDLE_SECONDS', { ...countForm, words: 'of seconds' }) ?? 60) * 1000;
}

/** Where bytes are kept: `BACKENDS`, or `PINNING_SERVICES`, its old name. */
export function backendsSetting(env: Pick<Env, 'BACKENDS' | 'PINNING_SERVICES'>): { json: string; setting: string } {
  const [BACKENDS, PINNING_SERVICES] = [textOf(env, 'BACKENDS'), textOf(env, 'PINNING_SERVICES')];
  if (BACKENDS !== '' && PINNING_SERVICES !== '')
    throw new SealpinError('misconfigured', 'BACKENDS and PINNING_SERVICES are both set', {
      hint: 'PINNING_SERVICES is the old name of BACKENDS: the operator must remove one of them',
    });
  return PINNING_SERVICES === ''
    ? { json: BACKENDS, setting: 'BACKENDS' }
    : { json: PINNING_SERVICES, setting: 'PINNING_SERVICES' };
}

/**
 * The id that distinguishes the pins of this service from those of others on the same node. Unset,
 * it is derived from the namespace of the Durable Objects, which hold the references to the pins:
 * each deployment has its own.
 */
export function serviceId(env: Env): string {
  const id = textOf(env, 'SERVICE_ID');
  if (id === '') return env.PIN.idFromName('service').toString().slice(0, 32);
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id))
    throw new SealpinError('misconfigured', 'SERVICE_ID is not 1 to 64 letters, digits, - and _');
  return id;
}

/**
 * Days for which the platform can still restore deleted rows: those of Cloudflare's point-in-time
 * recovery by default; 0 under `sealpin start`, which keeps no history.
 */
export function recoveryDays(env: Env): number {
  return numberIn(env, 'RECOVERY_DAYS', { pattern: /^[0-9]{1,4}$/, words: 'of days' }) ?? 30;
}

/** Days for which backups of the operator's are kept; undefined where the operator does not say. */
export function backupDays(env: Env): number | undefined {
  return parseBackupDays(textOf(env, 'BACKUP_DAYS'));
}

/** The days that a share may last, and the number of times it may be opened. */
export function shareMaxima(env: Env): { days: number; opens: number } {
  return { days: maxShareDays(env), opens: maxShareOpens(env) };
}

const maxShareDays = (env: Env): number => numberIn(env, 'SHARE_MAX_DAYS', countForm) ?? 30;
const maxShareOpens = (env: Env): number => numberIn(env, 'SHARE_MAX_OPENS', countForm) ?? 100;

/** Days of a share, and of what an invitation stores, if the request does not say. */
const defaultDays = 7;

/**
 * Returns when a share ends, and what an invitation stores, in ms. The clock of who asks for the
 * latest end may be fast by an hour.
 * @param asked the end that the request has
 * @param fromMs when it was made
 * @returns no later than `SHARE_MAX_DAYS` permits; undefined where a later end is asked for
 */
export function shareEnd(env: Env, asked: number | null | undefined, fromMs: number): number | undefined {
  const latest = fromMs + maxShareDays(env) * dayMs;
  const end = Math.min(asked ?? fromMs + defaultDays * dayMs, latest);
  return (asked ?? end) > latest + hourMs ? undefined : end;
}

/** Tells whether anybody may fetch by CID what is stored here (`PUBLIC_GATEWAY`). */
export function isGatewayOpen(env: Env): boolean {
  const word = textOf(env, 'PUBLIC_GATEWAY');
  if (!['', 'on', 'off'].includes(word))
    throw new SealpinError('misconfigured', 'PUBLIC_GATEWAY is neither on nor off');
  return word !== 'off';
}

/** The origins whose pages may call, `*` included. */
export function corsOrigins(env: Pick<Env, 'CORS_ORIGINS'>): string[] {
  const origins = textOf(env, 'CORS_ORIGINS')
    .split(',')
    .flatMap((each) => each.trim() || []);
  const isOrigin = (text: string): boolean => {
    const url = URL.parse(text);
    return url !== null && `${url.protocol}//${url.host}` === text;
  };
  const wrong = origins.find((each) => each !== '*' && !isOrigin(each));
  if (wrong === undefined) return origins;
  throw new SealpinError(
    'misconfigured',
    `CORS_ORIGINS has ${JSON.stringify(wrong)}, which is not an origin such as https://app.example.com`,
  );
}

/** The number of backends that hold each file. */
export function replicas(env: Env): number {
  return numberIn(env, 'REPLICAS', countForm) ?? 1;
}

/** Forms of numbers in variables, and the words for them. */
type NumberForm = { pattern: RegExp; words: string };
const byteCount: NumberForm = { pattern: /^[1-9][0-9]*$/, words: 'of bytes' };
const countForm: NumberForm = { pattern: /^[1-9][0-9]{0,4}$/, words: 'from 1 to 99999' };

/** A number in a variable; undefined where that is empty or unset. */
function numberIn(env: Env, name: Name, { pattern, words }: NumberForm): number | undefined {
  const text = textOf(env, name);
  if (text === '') return undefined;
  if (!pattern.test(text) || !Number.isSafeInteger(Number(text)))
    throw new SealpinError('misconfigured', `${name} is not a whole number ${words}`);
  return Number(text);
}

/** The parsers of the settings, each of which refuses all but the words of docs/operating.md. */
const parsers: readonly ((env: Env) => unknown)[] = [
  ...variables.map((name) => (env: Env) => textOf(env, name)),
  replicas,
  serviceId,
  maxUploadBytes,
  maxFileBytes,
  uploadIdleMs,
  isGatewayOpen,
  corsOrigins,
  recoveryDays,
  backupDays,
  maxShareDays,
  maxShareOpens,
  (env) => rateLimitOf(env, 'account'),
  (env) => rateLimitOf(env, 'address'),
];

/** What is wrong with the settings: sentences that name them. */
export function settingFaults(env: Env): string[] {
  const faults = parsers.flatMap((parse) => {
    try {
      parse(env);
      return [];
    } catch (error) {
      if (!isSealpinError(error, 'misconfigured')) throw error;
      return [error.message];
    }
  });
  return [...new Set(faults)];
}

const checked = new WeakSet<Env>();

/** Refuses to work with a wrong setting, whatever the request needs. @throws misconfigured */
export function checkSettings(env: Env): void {
  if (checked.has(env)) return;
  const faults = settingFaults(env);
  if (faults.length > 0) throw new SealpinError('misconfigured', faults.join('; '));
  checked.add(env);
}
