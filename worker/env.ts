/** What the runtime hands to the service: bindings, variables and secrets, and how they are read. */
import { SealpinError } from '../shared/errors.ts';
import type { Account } from './objects/account.ts';
import type { Pin } from './objects/pin.ts';
import { pinningServices, type PinningService } from './pinning/contract.ts';

/** The version that `/v1/health` tells; package.json carries the same (a test compares them). */
export const version = '0.1.0';

export type Env = {
  API_KEYS: KVNamespace;
  ACCOUNT: DurableObjectNamespace<Account>;
  PIN: DurableObjectNamespace<Pin>;
  KEY_LIMIT?: RateLimit;
  ADDRESS_LIMIT?: RateLimit;
  PINNING_SERVICES: string;
  SERVICE_ID?: string;
  MAX_UPLOAD_BYTES?: string;
  UPLOAD_IDLE_SECONDS?: string;
  PUBLIC_GATEWAY?: string;
  CORS_ORIGINS?: string;
  RECOVERY_DAYS?: string;
  ADMIN_TOKEN?: string;
};

/** The name of an API key's record in KV. @param hash SHA-256 of the key, in hex */
export function edgeName(hash: string): string {
  return `key:${hash}`;
}

/**
 * The limit of a request body in bytes; undefined where there is none (`MAX_UPLOAD_BYTES` empty or unset).
 * @throws misconfigured when the variable is not a whole number
 */
export function maxUploadBytes(env: Env): number | undefined {
  const text = env.MAX_UPLOAD_BYTES ?? '';
  if (text === '') return undefined;
  const bytes = Number(text);
  if (!/^[1-9][0-9]*$/.test(text) || !Number.isSafeInteger(bytes)) {
    throw new SealpinError('misconfigured', 'MAX_UPLOAD_BYTES is not a whole number of bytes');
  }
  return bytes;
}

/** Seconds for which an upload may send nothing, where `UPLOAD_IDLE_SECONDS` says nothing else. */
const defaultIdleSeconds = 60;

/**
 * How long an upload may send nothing before it is given up, in ms.
 * @throws misconfigured when the variable is not a whole number of seconds
 */
export function uploadIdleMs(env: Env): number {
  const text = env.UPLOAD_IDLE_SECONDS ?? '';
  if (text === '') return defaultIdleSeconds * 1000;
  if (!/^[1-9][0-9]{0,4}$/.test(text))
    throw new SealpinError('misconfigured', 'UPLOAD_IDLE_SECONDS is not a whole number of seconds');
  return Number(text) * 1000;
}

/**
 * What tells the pins of this service from those of others on the same node. Unset, it follows from the namespace of the
 * Durable Objects, which is where the references to the pins live: another deployment has another one.
 * @throws misconfigured when `SERVICE_ID` is not 1 to 64 letters, digits, - and _
 */
function serviceId(env: Env): string {
  const id = env.SERVICE_ID ?? '';
  if (id === '') return env.PIN.idFromName('service').toString().slice(0, 32);
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id))
    throw new SealpinError('misconfigured', 'SERVICE_ID is not 1 to 64 letters, digits, - and _');
  return id;
}

const services = new WeakMap<Env, PinningService[]>();

/**
 * The pinning services of the configuration, the first of which takes the bytes. They hold no state of a request.
 * @throws misconfigured when `PINNING_SERVICES` cannot be used
 */
export function servicesOf(env: Env): PinningService[] {
  let known = services.get(env);
  if (known === undefined) {
    const secrets: Record<string, unknown> = env;
    const secretOf = (name: string): string | undefined => {
      const secret = secrets[name];
      return typeof secret === 'string' ? secret : undefined;
    };
    known = pinningServices(env.PINNING_SERVICES, secretOf, `sealpin:${serviceId(env)}`);
    services.set(env, known);
  }
  return known;
}

/**
 * The service with the id that a row carries.
 * @throws pinning_unavailable when no such service is configured now
 */
export function serviceOf(env: Env, id: string): PinningService {
  const service = servicesOf(env).find((each) => each.id === id);
  if (service === undefined) {
    throw new SealpinError('pinning_unavailable', `no pinning service is called ${id}`, {
      hint: `the bytes are at the pinning service ${id}, which this service does not use at the moment`,
    });
  }
  return service;
}

/** Days that Cloudflare's point-in-time recovery of a Durable Object reaches back. */
const platformRecoveryDays = 30;

/**
 * Days for which the platform itself may still recover what was deleted; 0 under `sealpin start`, which has no such thing.
 * @throws misconfigured when the variable is not a whole number
 */
export function recoveryDays(env: Env): number {
  const text = env.RECOVERY_DAYS ?? '';
  if (text === '') return platformRecoveryDays;
  if (!/^[0-9]{1,4}$/.test(text))
    throw new SealpinError('misconfigured', 'RECOVERY_DAYS is not a whole number of days');
  return Number(text);
}
