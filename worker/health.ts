/** `GET /v1/health`. */
import type { Health } from '../shared/api.ts';
import { isSealpinError } from '../shared/errors.ts';
import { requireOperator } from './accounts.ts';
import type { Ctx } from './app.ts';
import { bearer } from './caller.ts';
import { maxUploadBytes, servicesOf, version } from './env.ts';
import { limitAddress } from './limits.ts';
import { errorText, log } from './log.ts';
import type { PinningService } from './pinning/contract.ts';

/** How long a pinning service may take to say that it is there. */
const pingMs = 5_000;

type Service = NonNullable<Health['services']>[number];

/** Version and limits: what a client checks before it sends. With the operator's token also how the pinning services are. */
export async function health(c: Ctx): Promise<Response> {
  const body: Health = { status: 'ok', version, maxUploadBytes: maxUploadBytes(c.env) ?? null };
  const token = bearer(c);
  // An API key is not the operator's token, and says nothing here.
  if (token !== undefined && !token.startsWith('sp_')) {
    await limitAddress(c);
    await requireOperator(c);
    body.services = await Promise.all(servicesOf(c.env).map((service) => stateOf(service)));
  }
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

async function stateOf(service: PinningService): Promise<Service> {
  const { id } = service;
  try {
    return { id, status: 'ok', version: (await service.ping(AbortSignal.timeout(pingMs))).version };
  } catch (error) {
    log({ event: 'health.ping', service: id, error: errorText(error) });
    return { id, status: 'failing', code: isSealpinError(error) ? error.code : 'pinning_timeout' };
  }
}
