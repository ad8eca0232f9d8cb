/** Limits of a service. */
import type { Health } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Api } from '../remote/client.ts';
import type { Service } from '../remote/service-choice.ts';
import { sizeText } from '../terminal/size.ts';

export type ServiceLimits = Readonly<ReturnType<typeof limitsOf>>;

/**
 * Of a CAR a service keeps what it knows of each block in memory until the end; twice as large a
 * file is the most that it takes.
 */
export const maxCarBytes = 16 * 2 ** 30;

/**
 * The limits in bytes: of a request, null: a body of any length; of a file in a CAR; of a resumable
 * upload, 0: there are none; of a file, null: any.
 */
export function limitsOf({ maxUploadBytes, maxFileBytes = 0 }: Health) {
  const fileBytes = maxUploadBytes === null ? null : Math.max(maxUploadBytes, maxFileBytes);
  return { requestBytes: maxUploadBytes, carBytes: maxCarBytes, uploadBytes: maxFileBytes, fileBytes };
}

/** A service, and what it takes. `provisional`: it keeps files only if a parcel names them. */
export type Destination = {
  readonly provisional?: boolean | undefined;
  readonly service: Service;
  readonly routes: Api;
  readonly limits: ServiceLimits;
  readonly keyId: string;
};

/** Refuses what the service would refuse at its end. @throws too_large */
export function refuseLarge(bytes: number | undefined, maxBytes: number | null): void {
  if (bytes === undefined || maxBytes === null || bytes <= maxBytes) return;
  const detail = `the file has ${sizeText(bytes)}; this service accepts at most ${sizeText(maxBytes)}`;
  const hint = 'use a service with a higher limit; the local one (sealpin start) accepts any size';
  throw new SealpinError('too_large', detail, { hint });
}
