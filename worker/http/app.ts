/** The context of a request: bindings, variables and the parsed query. */
import type { Context } from 'hono';
import * as v from 'valibot';
import { FileId } from '../../shared/api.ts';
import { SealpinError, type Code } from '../../shared/errors.ts';
import type { Env } from '../env.ts';
import type { Account } from '../objects/account/account.ts';
import type { UsedBy } from '../objects/account/keys/key-usage.ts';
import type { MetricsBinding } from '../objects/metrics/metrics-binding.ts';
import type { PinBinding } from '../objects/pin/shard.ts';
import type { ShareBinding } from '../objects/share/share-binding.ts';
import { invalidRequest } from './validation.ts';

/** Bindings that the runtime hands to a request. */
export type Bindings = Env & PinBinding & ShareBinding & MetricsBinding & { ACCOUNT: DurableObjectNamespace<Account> };
/** The types that Hono passes to handlers and middleware. */
export type App = {
  Bindings: Bindings;
  /**
   * `countedFor`: what the rate limit counts the request for. `usedBy`: the API key that it counts
   * for, which may be unknown. `code`: of the problem that is the response.
   */
  Variables: {
    requestId: string;
    countedFor?: 'account' | 'address';
    usedBy?: UsedBy;
    code?: Code;
  };
};
export type Ctx = Context<App>;
/** Check of a request before its handler. It throws where the request does not. */
export type Check = (c: Ctx) => void | Promise<void>;

/**
 * Parses the query of a request; `checkQuery` has refused unknown parameters before.
 * @throws invalid_request, naming the parameter and not its value
 */
export function parseQuery<S extends v.GenericSchema>(c: Ctx, shape: S): v.InferOutput<S> {
  const result = v.safeParse(shape, c.req.query());
  if (!result.success) throw invalidRequest('query', result.issues);
  return result.output;
}

/**
 * The ID of a file, or of the upload that makes it, in a path, in lower case.
 * @throws not_found when it is not a UUID: the same as for a file that does not exist
 */
export function parseFileId(c: Ctx, parameter: 'fileId' | 'uploadId' = 'fileId'): string {
  const id = v.safeParse(FileId, c.req.param(parameter));
  if (!id.success) throw new SealpinError('not_found');
  return id.output.toLowerCase();
}

/** Tells whether only headers are asked for: Hono runs the handler of GET, which must not read. */
export function isHead(c: Ctx): boolean {
  return c.req.raw.method === 'HEAD';
}
