/** Objects in stores that belong to nothing, and wait for the operator as they are many. */
import type { StrayList } from '../../../shared/api.ts';
import { SealpinError } from '../../../shared/errors.ts';
import type { Bindings, Ctx } from '../../http/app.ts';
import type { WaitingStrays } from '../../objects/pin/stores/object-rows.ts';
import { unwrap } from '../../objects/result.ts';
import { askShards } from '../../objects/pin/shard.ts';
import { servicesOf } from '../../backends/configured.ts';

/** Lists the stores that have some. */
export async function listStrays(c: Ctx): Promise<Response> {
  return c.json(await straysOf(c.env));
}

/** Lets those of a store be removed, once. @throws not_found where there is no such backend */
export async function removeStrays(c: Ctx): Promise<Response> {
  const service = c.req.param('service') ?? '';
  if (!servicesOf(c.env).some(({ id }) => id === service))
    throw new SealpinError('not_found', `no backend is called ${service}`);
  return c.json(await straysOf(c.env, service), 202);
}

async function straysOf(env: Bindings, removed?: string): Promise<StrayList> {
  const answers = await askShards(env, (pin) => unwrap(pin.objects.removeStrays(removed)));
  return { stores: sumStrays(answers.flatMap(({ waiting }) => waiting)) };
}

/** Adds up the objects of each store. */
export function sumStrays(all: readonly WaitingStrays[]): WaitingStrays[] {
  return [...Map.groupBy(all, ({ service }) => service)].map(([service, strays]) => ({
    service,
    objects: strays.reduce((sum, { objects }) => sum + objects, 0),
  }));
}
