/**
 * As much of Cloudflare's API as wrangler calls to deploy a Worker with its KV namespace, secrets
 * and domain, on loopback and in memory. https://developers.cloudflare.com/api/ describes the real
 * one.
 */
import type { IncomingMessage } from 'node:http';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';

/** The account that it begins with. */
export const accountId = '0123456789abcdef0123456789abcdef';
const apiToken = 'cloudflare-token-of-the-tests';

type Binding = { name: string; type: string; namespace_id?: string; bucket_name?: string; text?: string };

/** A Worker that was deployed, or that only has secrets so far. */
type DeployedWorker = {
  bindings: Binding[];
  secrets: Map<string, string>;
  deployments: number;
  /** The names of the files that were uploaded last. */
  modules: string[];
};

/** The rules of a bucket, as the API lists them. */
type BucketRules = { lock: object[]; lifecycle: object[] };

/** The rule that Cloudflare gives each new bucket. */
const abortRule = {
  id: 'Default Multipart Abort Rule',
  enabled: true,
  conditions: { prefix: '' },
  abortMultipartUploadsTransition: { condition: { type: 'Age', maxAge: 604_800 } },
};

/** The account in memory. */
export type Cloudflare = {
  url: string;
  /** Accounts that the token may use. */
  accounts: { id: string; name: string }[];
  workers: Map<string, DeployedWorker>;
  /** Titles of KV namespaces by their IDs. */
  namespaces: Map<string, string>;
  /** R2 buckets by their names. */
  buckets: Map<string, BucketRules>;
  /** Custom domains, and the Worker that each belongs to. */
  domains: Map<string, string>;
  /** Requests as `METHOD path`. */
  requests: string[];
  /** Errors for requests, as `METHOD path` within the account. */
  refusals: Map<string, { code: number; message: string }>;
  /** The variables of the environment with which wrangler uses it. */
  env: Record<string, string>;
  close(): Promise<void>;
};

type Call = { method: string; path: string; page: number; body: Buffer; type: string };
type Reply = { status?: number; result?: unknown; error?: { code: number; message: string } };

/** Starts an empty account. */
export async function startCloudflare(): Promise<Cloudflare> {
  const state = {
    accounts: [{ id: accountId, name: 'Tests' }],
    workers: new Map<string, DeployedWorker>(),
    namespaces: new Map<string, string>(),
    buckets: new Map<string, BucketRules>(),
    domains: new Map<string, string>(),
    requests: [] as string[],
    refusals: new Map<string, { code: number; message: string }>(),
  };
  const server = await startLoopbackServer((request, response) => {
    void bodyOf(request).then(async (body) => {
      const { pathname: path, searchParams } = new URL(request.url ?? '/', 'http://loopback');
      const method = request.method ?? 'GET';
      state.requests.push(`${method} ${path}`);
      const isKnown = request.headers.authorization === `Bearer ${apiToken}`;
      const call = {
        method,
        path,
        page: Number(searchParams.get('page') ?? 1),
        body,
        type: request.headers['content-type'] ?? '',
      };
      const refusal = state.refusals.get(`${method} ${path.replace(`/accounts/${accountId}`, '')}`);
      const reply = refusal ? { status: 403, error: refusal } : isKnown ? await replyTo(call, state) : invalidToken;
      const { error, result = null } = reply;
      response.writeHead(reply.status ?? (error === undefined ? 200 : 404), { 'Content-Type': 'application/json' });
      response.end(
        JSON.stringify({
          success: error === undefined,
          errors: error === undefined ? [] : [error],
          messages: [],
          result,
          ...(Array.isArray(result) && {
            result_info: { page: 1, per_page: 100, total_pages: 1, count: result.length, total_count: result.length },
          }),
        }),
      );
    });
  });
  return {
    ...state,
    ...server,
    env: { CLOUDFLARE_API_BASE_URL: server.url, CLOUDFLARE_API_TOKEN: apiToken },
  };
}

const invalidToken: Reply = { status: 401, error: { code: 10_000, message: 'Authentication error' } };
const noWorker: Reply = { error: { code: 10_007, message: 'This Worker does not exist on your account.' } };

type State = Pick<Cloudflare, 'accounts' | 'workers' | 'namespaces' | 'buckets' | 'domains'>;

async function replyTo({ method, path, page, body, type }: Call, state: State): Promise<Reply> {
  const { accounts, workers, namespaces, buckets, domains } = state;
  if (path === '/user/tokens/verify') return { result: { id: 'token', status: 'active' } };
  if (path === '/user') return { result: { id: 'user', email: 'operator@example.com' } };
  if (path === '/accounts') return { result: accounts };
  if (path === '/memberships')
    return { result: accounts.map((account) => ({ id: account.id, account, status: 'accepted', roles: [] })) };
  const [, rest = ''] = path.split(`/accounts/${accountId}`);
  const at = `${method} ${rest}`;
  if (at === 'GET /storage/kv/namespaces')
    // A page that is not the last one would be full.
    return {
      result: page > 1 ? [] : [...namespaces].map(([id, title]) => ({ id, title, supports_url_encoding: true })),
    };
  if (at === 'POST /storage/kv/namespaces') {
    const { title } = JSON.parse(body.toString()) as { title: string };
    if ([...namespaces.values()].includes(title))
      return {
        status: 400,
        error: { code: 10_014, message: 'a namespace with this account ID and title already exists' },
      };
    const id = (namespaces.size + 1).toString(16).padStart(32, 'a');
    namespaces.set(id, title);
    return { result: { id, title } };
  }
  if (at === 'POST /r2/buckets') {
    const { name } = JSON.parse(body.toString()) as { name: string };
    buckets.set(name, { lock: [], lifecycle: [abortRule] });
    return { result: { name, creation_date: '2026-11-23T00:00:00.000Z', location: 'WEUR', storage_class: 'Standard' } };
  }
  const [, bucket = '', rules = ''] = /^\/r2\/buckets\/([^/]+)(?:\/(lock|lifecycle))?$/.exec(rest) ?? [];
  if (bucket !== '' && method === 'GET') {
    const found = buckets.get(bucket);
    if (found === undefined) return { error: { code: 10_006, message: 'The specified bucket does not exist.' } };
    return { result: rules === '' ? { name: bucket } : { rules: found[rules as keyof BucketRules] } };
  }
  if (at === 'GET /workers/subdomain') return { result: { subdomain: 'tests' } };
  if (at === 'PUT /workers/domains/records' || rest.endsWith('/domains/records')) {
    const name = rest.split('/')[3] ?? '';
    const { origins } = JSON.parse(body.toString()) as { origins: { hostname: string }[] };
    for (const { hostname } of origins) domains.set(hostname, name);
    return { result: origins };
  }
  const [, name = '', what = ''] = /^\/workers\/(?:scripts|services|workers)\/([^/]+)(?:\/(.*))?$/.exec(rest) ?? [];
  const worker = workers.get(name);
  if (method === 'PUT' && rest === `/workers/scripts/${name}`) {
    const form = await new Response(new Uint8Array(body), { headers: { 'Content-Type': type } }).formData();
    const metadata = JSON.parse(await textOf(form.get('metadata'))) as { bindings: Binding[] };
    const before = worker?.bindings ?? [];
    const bindings = metadata.bindings.map((binding) =>
      binding.type === 'inherit' ? (before.find((each) => each.name === binding.name) ?? binding) : binding,
    );
    workers.set(name, {
      bindings,
      secrets: worker?.secrets ?? new Map<string, string>(),
      deployments: (worker?.deployments ?? 0) + 1,
      modules: [...form.keys()].filter((each) => each !== 'metadata'),
    });
    return { result: { id: name, etag: 'etag', startup_time_ms: 1, deployment_id: 'd'.repeat(32) } };
  }
  if (worker === undefined) return noWorker;
  if (rest === `/workers/workers/${name}`)
    return { result: { id: name, name, subdomain: { enabled: true, previews_enabled: false } } };
  if (at === `GET /workers/services/${name}`)
    return {
      result: {
        id: name,
        default_environment: {
          environment: 'production',
          script: { tag: 'tag', tags: [], last_deployed_from: 'wrangler' },
        },
      },
    };
  if (what === 'settings' && method === 'GET') return { result: { bindings: worker.bindings, migration_tag: 'v3' } };
  if (what === 'secrets' && method === 'GET')
    return { result: [...worker.secrets.keys()].map((each) => ({ name: each, type: 'secret_text' })) };
  if (what === 'secrets' && method === 'PUT') {
    const secret = JSON.parse(body.toString()) as { name: string; text: string };
    worker.secrets.set(secret.name, secret.text);
    return { result: { name: secret.name, type: 'secret_text' } };
  }
  if (what.startsWith('secrets/') && method === 'DELETE')
    return worker.secrets.delete(what.slice('secrets/'.length))
      ? { result: null }
      : { error: { code: 10_056, message: 'Binding not found.' } };
  if (what === 'deployments') return { result: { deployments: [] } };
  if (what === 'secrets-bulk') {
    const { secrets } = JSON.parse(body.toString()) as { secrets: Record<string, { text: string }> };
    for (const [secret, value] of Object.entries(secrets)) worker.secrets.set(secret, value.text);
    return { result: [] };
  }
  if (what === 'subdomain') return { result: { enabled: true, previews_enabled: false } };
  return { error: { code: 7003, message: `no route for ${method} ${path}` } };
}

async function textOf(entry: File | string | null): Promise<string> {
  return entry === null ? '' : typeof entry === 'string' ? entry : await entry.text();
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
