/** What travels with a request through the service. */
import type { Context } from 'hono';
import * as v from 'valibot';
import { SealpinError } from '../shared/errors.ts';
import type { Env } from './env.ts';

export type App = { Bindings: Env; Variables: { requestId: string } };
export type Ctx = Context<App>;

/**
 * The query of a request, in the shape that is asked for. `knownQuery` has refused what else it could hold.
 * @throws invalid_request, naming the parameter and not its value
 */
export function parseQuery<S extends v.GenericSchema>(c: Ctx, shape: S): v.InferOutput<S> {
  const result = v.safeParse(shape, c.req.query());
  if (!result.success) {
    const { path, kind, type, expected, message } = result.issues[0];
    const name = String(path?.[0]?.key);
    // A message of our own says it better than valibot's, which repeats what came.
    const why = kind === 'validation' && type === 'regex' ? message : `${name} has to be ${expected}`;
    throw new SealpinError('invalid_request', why);
  }
  return result.output;
}

/** Whether the request wants headers only. Hono answers HEAD by the handler of GET, which must not open a read then. */
export function isHead(c: Ctx): boolean {
  return c.req.raw.method === 'HEAD';
}
