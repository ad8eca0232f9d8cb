/** The pinning services that the configuration of this deployment names. */
import { SealpinError } from '../../shared/errors.ts';
import { serviceId, type Env } from '../env.ts';
import { takesBlocks, type PinningService } from './contract.ts';
import { pinningServices, type ConfiguredService } from './services.ts';

const services = new WeakMap<Env, ConfiguredService[]>();

/**
 * The configured pinning services; the first one takes new bytes. They hold no state of a request, so that requests share them.
 * @throws misconfigured when `PINNING_SERVICES` cannot be used
 */
export function servicesOf(env: Env): ConfiguredService[] {
  let known = services.get(env);
  if (known === undefined) {
    const secrets: Record<string, unknown> = env;
    const secretOf = (name: string): string | undefined => {
      const secret = secrets[name];
      return typeof secret === 'string' ? secret : undefined;
    };
    known = pinningServices(env.PINNING_SERVICES, { secretOf, pinName: `sealpin:${serviceId(env)}`, fetch });
    services.set(env, known);
  }
  return known;
}

/**
 * The configured pinning service with an id.
 * @param id as stored rows have it
 * @param requestId of the request that it is asked for, or of the work that goes on after one
 * @throws pinning_unavailable when no such service is configured now
 */
export function serviceOf(env: Env, id: string, requestId?: string): ConfiguredService {
  const service = servicesOf(env).find((each) => each.id === id);
  if (service === undefined) {
    throw new SealpinError('pinning_unavailable', `no pinning service is called ${id}`, {
      hint: `the bytes are at the pinning service ${id}, which this service does not use at the moment`,
    });
  }
  return requestId === undefined ? service : service.onBehalfOf(requestId);
}

/** The service that takes new bytes. @param requestId of the request that it is asked for */
export function firstServiceOf(env: Env, requestId: string): PinningService {
  const service = servicesOf(env)[0]?.onBehalfOf(requestId);
  if (service === undefined || !takesBlocks(service))
    throw new SealpinError('misconfigured', 'no pinning service is configured that takes uploads');
  return service;
}

/** A configured service whose blocks can be written and read. @throws as `serviceOf`, also for one that takes whole files */
export function blockServiceOf(env: Env, id: string, requestId?: string): PinningService {
  const service = serviceOf(env, id, requestId);
  if (!takesBlocks(service)) throw new SealpinError('pinning_unavailable', `nothing is read from ${id}`);
  return service;
}
