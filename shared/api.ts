/**
 * The wire shapes of the HTTP API, as validators and the types inferred from them. The Worker
 * validates requests with them and describes itself by them; the command line validates responses
 * with them.
 */
import * as v from 'valibot';
import { SealpinError } from './errors.ts';

export * from './api/fields.ts';
export { namedRecord } from './api/named-record.ts';
export * from './api/accounts-shapes.ts';
export * from './api/backup-shapes.ts';
export * from './api/events-shapes.ts';
export * from './api/files-shapes.ts';
export * from './api/pins-shapes.ts';
export * from './api/operator-shapes.ts';
export * from './api/problem-shapes.ts';
export * from './api/rotation-shapes.ts';
export * from './api/service-shapes.ts';
export * from './api/shares-shapes.ts';
export * from './api/signed-shapes.ts';
export * from './api/usage-shapes.ts';

/** The members of an object that a shape has and that are given. */
export function membersOf<S extends { readonly entries: object }, T extends object>(
  shape: S,
  object: T,
): Pick<T, keyof T & keyof S['entries']> {
  const given = Object.entries(object).filter(([name, value]) => name in shape.entries && value !== undefined);
  return Object.fromEntries(given) as Pick<T, keyof T & keyof S['entries']>;
}

/**
 * Validates the parsed JSON of a response.
 * @throws service_answer when it has another shape; it names the member, whose value may be secret
 */
export function parseResponse<S extends v.GenericSchema>(shape: S, value: unknown): v.InferOutput<S> {
  const result = v.safeParse(shape, value);
  if (result.success) return result.output;
  const place = v.getDotPath(result.issues[0]) ?? 'its top';
  throw new SealpinError('service_answer', `the response has an unexpected shape, at ${place}`);
}
