/** Checks of `doctor`, each of which ends in a line. */
import { cancelQuietly } from '../shared/streams/cancel-quietly.ts';
import packageJson from '../package.json' with { type: 'json' };
import { refuseUnencrypted } from '../cli/remote/client.ts';
import type { Health, StrayList } from '../shared/api.ts';
import { failure, fine, note, wrong, type Finding } from './finding.ts';
import {
  faultIn,
  faultsOf,
  kvTitle,
  listedIn,
  loopbackAddresses,
  neededSecrets,
  originsOf,
  pinningServices,
  unencrypted,
  type Configuration,
} from './configuration.ts';
import type { ConfiguredService } from '../worker/backends/backend-types.ts';
import { takesBlocks } from '../worker/backends/contract.ts';
import { roundTrip } from './pinning-probe.ts';
import { accountsOf, kvNamespaces, restoreSecret, secretNames, type Wrangler } from './wrangler.ts';

/** Timeouts of the round trip to a pinning service, and of a response of the service. */
const roundTripMs = 60_000;
const responseMs = 15_000;

export type Subject = {
  configuration: Configuration;
  wrangler: Wrangler;
  /** The address of the deployed service; undefined where it is not known. */
  url: string | undefined;
  /** The value of a secret, for checks that need it; undefined where it is not at hand. */
  secretOf(name: string): string | undefined;
};

/** The programs that deploy. */
export function versions(): Finding {
  const { version, devDependencies } = packageJson;
  return fine(`Sealpin ${version}, wrangler ${devDependencies.wrangler}, Node ${process.versions.node}`);
}

/** The configuration by itself. */
export function checkConfiguration({ configuration }: Pick<Subject, 'configuration'>): Finding[] {
  const faults = faultsOf(configuration);
  if (faults.length > 0) return faults.map((fault) => ({ ok: false, ...fault }));
  return [
    fine(`the configuration of ${configuration.name} is complete`),
    ...loopbackAddresses(configuration).map((address) =>
      note(`${address} is on this machine, where no Worker of Cloudflare's reaches it`),
    ),
  ];
}

/** The login, and what the Cloudflare account has for this Worker. */
export async function checkCloudflare({ configuration, wrangler }: Subject): Promise<Finding[]> {
  try {
    const accounts = await accountsOf(wrangler);
    const [namespaces, secrets] = await Promise.all([kvNamespaces(wrangler), secretNames(wrangler)]);
    const names = accounts.map(({ name }) => name).join(', ');
    return [
      fine(`wrangler is logged in${names === '' ? '' : `: ${names}`}`),
      kvFinding(configuration, namespaces, secrets !== undefined),
      ...secretFindings(configuration, secrets),
    ];
  } catch (error) {
    return [failure(error, 'try again; npx wrangler whoami shows the login')];
  }
}

function kvFinding(
  { name, kvId }: Configuration,
  namespaces: readonly { id: string; title: string }[],
  isDeployed: boolean,
): Finding {
  const title = kvTitle(name);
  const found = namespaces.find((each) => (kvId === undefined ? each.title === title : each.id === kvId));
  if (found !== undefined) return fine(`KV namespace ${found.title} (${found.id})`);
  if (kvId !== undefined)
    return wrong(
      `the account has no KV namespace ${kvId}`,
      'remove the line id from the configuration: wrangler creates a namespace; or log in to the account that has it',
    );
  // An inherited binding may have been connected to a namespace with another title.
  if (isDeployed) return note(`KV namespace: the binding of the deployed Worker, none is called ${title}`);
  return note(`KV namespace ${title}: wrangler creates it with the first deployment`);
}

function secretFindings(configuration: Configuration, present: readonly string[] | undefined): Finding[] {
  if (present === undefined) return [wrong(`there is no Worker ${configuration.name} yet`, 'run npm run setup')];
  const needed = listedIn(() => neededSecrets(configuration));
  if (needed.length === 0) return [];
  const missing = needed.filter((name) => !present.includes(name));
  const findings: Finding[] = missing.map((name) =>
    wrong(`the secret ${name} is not set`, `run npm run setup, or npx wrangler secret put ${name}`),
  );
  if (missing.length === 0) findings.push(fine(`secrets ${needed.join(', ')}`));
  if (!present.includes('METRICS_TOKEN')) findings.push(note('METRICS_TOKEN is not set: the service has no metrics'));
  const open = `${restoreSecret} is set: with the operator’s token it puts any rows into an account`;
  const todo = `when no restoration runs: npx wrangler secret delete ${restoreSecret}`;
  if (present.includes(restoreSecret)) findings.push(wrong(open, todo));
  return findings;
}

/** Each backend: that it responds and takes its token, and a small file there and back. */
export async function checkPinning({
  configuration,
  secretOf,
}: Pick<Subject, 'configuration' | 'secretOf'>): Promise<Finding[]> {
  const needed = listedIn(() => neededSecrets(configuration));
  if (needed.length === 0) return [];
  const names = needed.filter((name) => name !== 'ADMIN_TOKEN');
  const open = faultsAt(unencrypted(configuration.vars), 'the token of a backend');
  if (open.length > 0) return open;
  const unknown = names.filter((name) => secretOf(name) === undefined).join(', ');
  if (unknown !== '')
    return [note(`backends: not tried without their secrets; set ${unknown} in the environment to try them`)];
  // Nobody but the Worker reaches what is bound to it.
  const reachable = pinningServices(configuration, secretOf).filter(({ type }) => type !== 'r2');
  const todo = 'see docs/operating.md: the token needs nine commands, and the proxy must pass large bodies';
  return await Promise.all(
    reachable.map((each) => tryBackend(each).catch((error) => failure(error, todo, `pinning service ${each.id}: `))),
  );
}

async function tryBackend(service: ConfiguredService): Promise<Finding> {
  const signal = AbortSignal.timeout(roundTripMs);
  if (!takesBlocks(service)) {
    await service.ping(signal);
    return service.takes === 'objects'
      ? fine(`object store ${service.id}: responds, and takes the key; nothing was stored`)
      : fine(`pinning service ${service.id}: responds; it fetches or gets whole files later, so none was tried`);
  }
  const { version, peers } = await service.ping(signal);
  const cid = await roundTrip(service, signal);
  const count = peers === undefined ? '' : `, ${peers.answering} of ${peers.listed} peers answer`;
  return fine(`pinning service ${service.id} (${version}${count}): stored, read and removed ${cid}`);
}

/** The deployed service, as a client reaches it. */
export async function checkService(subject: Subject): Promise<Finding[]> {
  const { url } = subject;
  if (url === undefined) return [note('deployed service: not tried; name its address with --url')];
  const open = faultsAt([new URL(url)], 'the operator’s token');
  if (open.length > 0) return open;
  return await asking(`${url}/v1/health`, {}, async (response) => {
    const { version, status } = (await responseObject(response)) as { version?: string; status?: string };
    if (version === undefined || status === undefined)
      return [wrong(`${url} responds, and is not Sealpin`, 'check --url, and the domain in the configuration')];
    const failing =
      'GET /v1/health with the operator’s token says which part fails; docs/operating.md, "When it fails"';
    const differs = `${url} runs Sealpin ${version}, and this is ${packageJson.version}`;
    return [
      status === 'ok'
        ? fine(`${url} responds, and can store and read`)
        : wrong(`${url} responds, and is ${status}`, failing),
      version === packageJson.version ? fine(`${url} runs this version`) : wrong(differs, deployFirst),
      ...(await checkOperatorRoutes(subject, url)),
      ...(await checkServiceId(subject, url)),
      ...(await checkCors(subject, url)),
    ];
  });
}

const deployFirst = 'deploy this version first: npm run deploy';

/** The operator's routes, which a Worker of before does not have where they are now. */
function checkOperatorRoutes(subject: Subject, url: string): Promise<Finding[]> {
  return asking(`${url}/v1/operator/openapi.json`, {}, async ({ body, status }) => {
    await cancelQuietly(body);
    if (status === 404)
      return [wrong(`${url} is older than this version: it has no routes below /v1/operator`, deployFirst)];
    return [...(await checkOperator(subject, url)), ...(await checkMetrics(subject, url))];
  });
}

const bearing = (token: string): Record<string, string> => ({ Authorization: `Bearer ${token}` });

async function checkOperator({ secretOf }: Subject, url: string): Promise<Finding[]> {
  const token = secretOf('ADMIN_TOKEN');
  if (token === undefined)
    return [note('operator’s token: not tried; set ADMIN_TOKEN in the environment, or name --admin-token-file')];
  return await asking(`${url}/v1/operator/accounts?limit=1`, bearing(token), async ({ status }) => {
    if (status === 200)
      return [
        fine('the operator’s token lists accounts, which are in KV'),
        ...(await told(`${url}/v1/operator/strays`, token, strayFindings)),
        ...(await told(`${url}/v1/health`, token, backendFindings)),
      ];
    const put = 'put the same token with npx wrangler secret put ADMIN_TOKEN';
    const todo = status === 401 ? put : 'npx wrangler tail shows why';
    return [wrong(`the operator’s token: ${url} responds with ${status}`, todo)];
  });
}

/** Findings from what the service tells its operator. */
function told(url: string, token: string, findings: (of: object) => Finding[]): Promise<Finding[]> {
  return asking(url, bearing(token), async (response) => findings(await responseObject(response)));
}

/** Objects in stores that belong to nothing: too many wait for the operator. */
export function strayFindings({ stores = [] }: Partial<StrayList>): Finding[] {
  return stores.map(({ service, objects }) =>
    wrong(
      `object store ${service}: ${objects} objects belong to nothing, and wait for you`,
      'where the database of the service was restored or lost, stop here; else ' +
        `DELETE /v1/operator/strays/${service} with the operator’s token removes them`,
    ),
  );
}

/** Remedies for a backend that takes no new files, by the code. */
const remedies: Readonly<Record<string, string>> = {
  disk_full: 'make room there, or raise its quota',
  misconfigured:
    'its key must be allowed to write and to delete, too: npx wrangler tail shows what it answers to an upload',
};

/** Backends that fail, take no new files, or will lose some. */
export function backendFindings({ services = [] }: Partial<Health>): Finding[] {
  return services.flatMap(({ id, code, hint = 'npx wrangler tail shows why', refuses, warning }) =>
    [
      [code, hint],
      [refuses && `it takes no new files (${refuses.code})`, remedies[refuses?.code ?? ''] ?? hint],
      [warning, hint],
    ].flatMap(([what, todo = hint]) => (what === undefined ? [] : wrong(`backend ${id}: ${what}`, todo))),
  );
}

/** The token for metrics, where it is at hand: a service may have none. */
async function checkMetrics({ secretOf }: Subject, url: string): Promise<Finding[]> {
  const token = secretOf('METRICS_TOKEN');
  if (token === undefined) return [];
  return await asking(`${url}/v1/operator/metrics`, bearing(token), async ({ body, status }) => {
    await cancelQuietly(body);
    if (status === 200) return [fine('the token for metrics reads them')];
    const todo = 'put the same token with npx wrangler secret put METRICS_TOKEN';
    return [wrong(`the token for metrics: ${url} responds with ${status}`, todo)];
  });
}

/** The addresses to which a secret would go unencrypted: nothing is sent there. */
function faultsAt(urls: readonly URL[], secret: string): Finding[] {
  return urls
    .flatMap((url) => faultIn(() => refuseUnencrypted(url, secret)))
    .map((fault) => ({ ok: false as const, ...fault }));
}

/** The ID in the names of pins, which must stay; nothing where only the operator could tell. */
async function checkServiceId({ configuration, secretOf }: Subject, url: string): Promise<Finding[]> {
  const token = secretOf('ADMIN_TOKEN');
  if (token === undefined) return [];
  const health = await askDeployment(`${url}/v1/health`, bearing(token)).then(responseObject, () => ({}));
  const { serviceId: used } = health as { serviceId?: string };
  if (used === undefined) return [];
  const line = `SERVICE_ID = "${used}"`;
  const configured = configuration.vars['SERVICE_ID'] ?? '';
  if (configured === used) return [fine(`pins are named sealpin:${used}`)];
  const derived = `pins are named sealpin:${used}, which follows from the namespace of the Durable Objects`;
  if (configured === '') return [note(`${derived}: write ${line} into [vars] of the configuration, so that it stays`)];
  const differs = `the deployed service names its pins sealpin:${used}, and SERVICE_ID is ${configured}`;
  return [wrong(differs, `before the next deployment write ${line}: its pins would count as somebody else’s`)];
}

/** No page has this origin. */
const foreignOrigin = 'https://doctor.invalid';

async function checkCors({ configuration }: Subject, url: string): Promise<Finding[]> {
  const origins = originsOf(configuration);
  const all = origins.includes('*');
  for (const origin of [...origins.filter((each) => each !== '*'), foreignOrigin]) {
    const allowed = all || origin !== foreignOrigin;
    const asked = {
      Origin: origin,
      'Access-Control-Request-Method': 'GET',
      'Access-Control-Request-Headers': 'authorization',
    };
    const preflight = (response: Response): Finding[] => {
      const header = response.headers.get('Access-Control-Allow-Origin');
      if ((header === '*' || header === origin) === allowed) return [];
      const what = `CORS: ${origin} is ${allowed ? 'refused' : 'allowed'}, other than CORS_ORIGINS says`;
      return [wrong(what, 'npm run deploy; if it stays, a rule of your zone changes headers')];
    };
    const findings = await asking(`${url}/v1/account`, asked, preflight, 'OPTIONS');
    if (findings.length > 0) return findings;
  }
  const who = all ? 'every page' : origins.length === 0 ? 'no page of another origin' : origins.join(', ');
  return [fine(`CORS: ${who} may call`)];
}

/** Findings from a response of the service, or that there is none. */
async function asking(
  url: string,
  headers: Record<string, string>,
  findings: (response: Response) => Finding[] | Promise<Finding[]>,
  method?: string,
): Promise<Finding[]> {
  const todo = 'a new address takes some minutes; check the domain, its DNS records and npx wrangler deployments list';
  const absent = (error: unknown) => [failure(error, todo, `${new URL(url).origin} does not respond: `)];
  return await askDeployment(url, headers, method).then(findings, absent);
}

function askDeployment(url: string, headers: Record<string, string>, method = 'GET'): Promise<Response> {
  return fetch(url, { method, headers, redirect: 'manual', signal: AbortSignal.timeout(responseMs) });
}

async function responseObject(response: Response): Promise<object> {
  try {
    return await response.json<object>();
  } catch {
    return {};
  }
}
