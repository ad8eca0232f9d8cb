/**
 * The Worker with a KV that counts how often keys are looked up; `GET /test/lookups` answers the
 * count. `POST /test/later?ms=` sets its clock so much forward.
 */
import type { Env } from '../env.ts';
import worker from '../index.ts';

export { Account, Metrics, Pin, Share } from '../index.ts';

let lookups = 0;

function counted(kv: KVNamespace): KVNamespace {
  return new Proxy(kv, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (name === 'get') lookups += 1;
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export default {
  fetch(request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === '/test/lookups') return new Response(String(lookups));
    if (pathname === '/test/later') {
      const clock = Date.now.bind(Date);
      Date.now = () => clock() + Number(searchParams.get('ms'));
      return new Response();
    }
    return worker.fetch(request, { ...env, API_KEYS: counted(env.API_KEYS) }, ctx);
  },
};
