/**
 * What stands in front of the Worker under `sealpin start`, in workerd: a service on loopback must not be driven by web
 * pages. A page can send a request to 127.0.0.1 (then it has a foreign Origin or Sec-Fetch-Site), or have its own name
 * point there (then the Host is foreign). Nothing of this is part of what is deployed.
 */
import { refusal } from './origin.ts';
import worker from './worker.js';

type Env = { LOCAL_PORT: string; LOCAL_CONTROL: string };

let running = 0;

function refuse(detail: string): Response {
  const problem = { type: 'about:blank', title: 'This is not allowed', status: 403, detail, code: 'forbidden' };
  return new Response(JSON.stringify(problem), { status: 403, headers: { 'content-type': 'application/problem+json' } });
}

export * from './worker.js';
export default {
  async fetch(request: Request, env: Env, context: unknown): Promise<Response> {
    if (request.headers.get('sealpin-control') === env.LOCAL_CONTROL) return Response.json({ running });
    const why = refusal(request.headers, env.LOCAL_PORT);
    if (why !== undefined) return refuse(why);
    running += 1;
    try {
      return await worker.fetch(request, env, context);
    } finally {
      running -= 1;
    }
  },
};
