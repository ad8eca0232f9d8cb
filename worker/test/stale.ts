/**
 * The Worker of `clock.ts` before a KV that is stale: once it is frozen, it answers as it stood
 * then, misses too.
 */
import worker from './clock.ts';

export { Account, Metrics, Pin, Share } from './clock.ts';

type Env = Parameters<typeof worker.fetch>[1];

let frozen: Map<string, string> | undefined;

/** The namespace as another place of the network may see it. */
function stale(kv: KVNamespace): KVNamespace {
  return new Proxy(kv, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (name === 'get' && frozen !== undefined) {
        return (key: string) => Promise.resolve(JSON.parse(frozen?.get(key) ?? 'null') as unknown);
      }
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

async function freeze(kv: KVNamespace): Promise<void> {
  const { keys } = await kv.list();
  frozen = new Map(
    await Promise.all(keys.map(async ({ name }): Promise<[string, string]> => [name, (await kv.get(name)) ?? 'null'])),
  );
}

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export default {
  async fetch(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
    if (new URL(request.url).pathname === '/test/freeze') {
      await freeze(env.API_KEYS);
      return new Response();
    }
    return await worker.fetch(request, { ...env, API_KEYS: stale(env.API_KEYS) }, ctx);
  },
};
