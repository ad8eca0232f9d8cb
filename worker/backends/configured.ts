/** The backends that the configuration of this deployment names. */
import { SealpinError } from '../../shared/errors.ts';
import { backendsSetting, serviceId, type Env } from '../env.ts';
import { isReadable, readableOf, type PinningService, type Readable } from './contract.ts';
import type { ObjectStore } from './objects/store-contract.ts';
import { configuredBackends, type ConfiguredService } from './backend-types.ts';

const services = new WeakMap<Env, ConfiguredService[]>();

/**
 * The configured backends; the first one takes new bytes. They hold no state of a request, so that
 * requests share them.
 * @throws misconfigured when `BACKENDS` cannot be used
 */
export function servicesOf(env: Env): ConfiguredService[] {
  let known = services.get(env);
  if (known === undefined) {
    const bindings: Record<string, unknown> = env;
    const bindingOf = (name: string): unknown => bindings[name];
    const secretOf = (name: string): string | undefined => {
      const secret = bindings[name];
      return typeof secret === 'string' ? secret : undefined;
    };
    const { json, setting } = backendsSetting(env);
    known = configuredBackends(json, setting, { bindingOf, secretOf, serviceId: serviceId(env), fetch });
    services.set(env, known);
  }
  return known;
}

/**
 * The configured backend with an id.
 * @param id as stored rows have it
 * @param requestId of the request that it is asked for, or of the work that goes on after one
 * @throws pinning_unavailable when no such service is configured now
 */
export function serviceOf(env: Env, id: string, requestId?: string): ConfiguredService {
  const service = servicesOf(env).find((each) => each.id === id);
  if (service === undefined)
    throw new SealpinError('pinning_unavailable', `no pinning service is called ${id}`, {
      hint: `the bytes are at the pinning service ${id}, which this service does not use at the moment`,
    });
  return requestId === undefined ? service : service.onBehalfOf(requestId);
}

/** The ids of the configured backends that can be written and read. */
export function readableIds(env: Env): ReadonlySet<string> {
  const readable = servicesOf(env).filter(isReadable);
  return new Set(readable.map(({ id }) => id));
}

/** The backend that takes new bytes. @param requestId of the request that it is asked for */
export function firstBackendOf(env: Env, requestId: string): PinningService | ObjectStore {
  const backend = servicesOf(env)[0]?.onBehalfOf(requestId);
  if (backend === undefined || !isReadable(backend))
    throw new SealpinError('misconfigured', 'no backend is configured that takes uploads');
  return backend;
}

/**
 * A configured backend that can be written and read.
 * @throws as `serviceOf`, also for one that takes whole files
 */
export function backendOf(env: Env, id: string, requestId?: string): PinningService | ObjectStore {
  const backend = serviceOf(env, id, requestId);
  if (!isReadable(backend)) throw new SealpinError('pinning_unavailable', `nothing is read from ${id}`);
  return backend;
}

/** A configured backend that is asked for the file of a CID. @throws as `backendOf` */
export function sourceOf(env: Env, id: string, root: string, requestId?: string): Readable {
  return readableOf(backendOf(env, id, requestId), root);
}

/** A configured object store. @throws as `backendOf` */
export function storeOf(env: Env, id: string, requestId?: string): ObjectStore {
  const backend = backendOf(env, id, requestId);
  if (backend.takes !== 'objects') throw new SealpinError('pinning_unavailable', `${id} is no object store`);
  return backend;
}
