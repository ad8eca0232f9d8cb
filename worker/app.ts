/** What travels with a request through the service. */
import type { Context } from 'hono';
import type { Env } from './env.ts';

export type App = { Bindings: Env; Variables: { requestId: string } };
export type Ctx = Context<App>;

/** Whether the request wants headers only. Hono answers HEAD by the handler of GET, which must not open a read then. */
export function isHead(c: Ctx): boolean {
  return c.req.raw.method === 'HEAD';
}
