/** Checks of `doctor`, each of which ends in a line. */
import { cancelQuietly } from '../shared/streams/cancel-quietly.ts';
import packageJson from '../package.json' with { type: 'json' };
import { refuseUnencrypted } from '../cli/remote/client.ts';
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
import { takesBlocks } from '../worker/backends/contract.ts';
import { roundTrip } from './pinning-probe.ts';
import { backendFindings, strayFindings } from './store-checks.ts';
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
      'remove the line id from the configuration: wrangler creates a namespace; or log in to the ' +
        'account that has it',
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
  if (present.includes(restoreSecret))
    findings.push(
      wrong(
        `${restoreSecret} is set: with the operator’s token it puts any rows into an account`,
        `when no restoration runs: npx wrangler secret delete ${restoreSecret}`,
      ),
    );
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
  const unknown = names.filter((name) => secretOf(name) === undefined);
  if (unknown.length > 0)
    return [
      note(`backends: not tried without their secrets; set ${unknown.join(', ')} in the environment to try them`),
    ];
  // Nobody but the Worker reaches what is bound to it.
  const reachable = pinningServices(configuration, secretOf).filter(({ type }) => type !== 'r2');
  return await Promise.all(
    reachable.map(async (service): Promise<Finding> => {
      try {
        const signal = AbortSignal.timeout(roundTripMs);
        if (service.takes === 'objects') {
          await service.ping(signal);
          return fine(`object store ${service.id}: responds, and takes the key; nothing was stored`);
        }
        if (!takesBlocks(service)) {
          await service.ping(signal);
          return fine(
            `pinning service ${service.id}: responds; it fetches or gets whole files later, so none was tried`,
          );
        }
        const { version, peers } = await service.ping(signal);
        const cid = await roundTrip(service, signal);
        const count = peers === undefined ? '' : `, ${peers.answering} of ${peers.listed} peers answer`;
        return fine(`pinning service ${service.id} (${version}${count}): stored, read and removed ${cid}`);
      } catch (error) {
        return failure(
          error,
          'see docs/operating.md: the token needs nine commands, and the proxy must pass large bodies',
          `pinning service ${service.id}: `,
        );
      }
    }),
  );
}

/** The deployed service, as a client reaches it. */
export async function checkService(subject: Subject): Promise<Finding[]> {
  const { url } = subject;
  if (url === undefined) return [note('deployed service: not tried; name its address with --url')];
  const open = faultsAt([new URL(url)], 'the operator’s token');
  if (open.length > 0) return open;
  const health = await askDeployment(`${url}/v1/health`);
  if ('finding' in health) return [health.finding];
  const { version, status } = (await responseObject(health.response)) as { version?: string; status?: string };
  if (version === undefined || status === undefined)
    return [wrong(`${url} responds, and is not Sealpin`, 'check --url, and the domain in the configuration')];
  return [
    status === 'ok'
      ? fine(`${url} responds, and can store and read`)
      : wrong(
          `${url} responds, and is ${status}`,
          'GET /v1/health with the operator’s token says which part fails; docs/operating.md, "When it fails"',
        ),
    version === packageJson.version
      ? fine(`${url} runs this version`)
      : wrong(
          `${url} runs Sealpin ${version}, and this is ${packageJson.version}`,
          'deploy this version first: npm run deploy',
        ),
    ...(await checkOperatorRoutes(subject, url)),
    ...(await checkServiceId(subject, url)),
    await checkCors(subject, url),
  ];
}

/** The operator's routes, which a Worker of before does not have where they are now. */
async function checkOperatorRoutes(subject: Subject, url: string): Promise<Finding[]> {
  const described = await askDeployment(`${url}/v1/operator/openapi.json`);
  if ('finding' in described) return [described.finding];
  await cancelQuietly(described.response.body);
  if (described.response.status === 404)
    return [
      wrong(
        `${url} is older than this version: it has no routes below /v1/operator`,
        'deploy this version first: npm run deploy',
      ),
    ];
  return [...(await checkOperator(subject, url)), ...(await checkMetrics(subject, url))];
}

async function checkOperator({ secretOf }: Subject, url: string): Promise<Finding[]> {
  const token = secretOf('ADMIN_TOKEN');
  if (token === undefined)
    return [note('operator’s token: not tried; set ADMIN_TOKEN in the environment, or name --admin-token-file')];
  const listed = await askDeployment(`${url}/v1/operator/accounts?limit=1`, { Authorization: `Bearer ${token}` });
  if ('finding' in listed) return [listed.finding];
  const { status } = listed.response;
  if (status === 200)
    return [
      fine('the operator’s token lists accounts, which are in KV'),
      ...(await told(`${url}/v1/operator/strays`, token, strayFindings)),
      ...(await told(`${url}/v1/health`, token, backendFindings)),
    ];
  return [
    wrong(
      `the operator’s token: ${url} responds with ${status}`,
      status === 401 ? 'put the same token with npx wrangler secret put ADMIN_TOKEN' : 'npx wrangler tail shows why',
    ),
  ];
}

/** Findings from what the service tells its operator. */
async function told(url: string, token: string, findings: (of: object) => Finding[]): Promise<Finding[]> {
  const asked = await askDeployment(url, { Authorization: `Bearer ${token}` });
  return 'finding' in asked ? [asked.finding] : findings(await responseObject(asked.response));
}

/** The token for metrics, where it is at hand: a service may have none. */
async function checkMetrics({ secretOf }: Subject, url: string): Promise<Finding[]> {
  const token = secretOf('METRICS_TOKEN');
  if (token === undefined) return [];
  const asked = await askDeployment(`${url}/v1/operator/metrics`, { Authorization: `Bearer ${token}` });
  if ('finding' in asked) return [asked.finding];
  const { status } = asked.response;
  await cancelQuietly(asked.response.body);
  if (status === 200) return [fine('the token for metrics reads them')];
  const todo = 'put the same token with npx wrangler secret put METRICS_TOKEN';
  return [wrong(`the token for metrics: ${url} responds with ${status}`, todo)];
}

/** The addresses to which a secret would go unencrypted: nothing is sent there. */
function faultsAt(urls: readonly URL[], secret: string): Finding[] {
  return urls
    .flatMap((url) => faultIn(() => refuseUnencrypted(url, secret)))
    .map((fault) => ({ ok: false as const, ...fault }));
}

/**
 * The ID in the names of pins, which must stay what it is: nothing where only the operator could
 * tell.
 */
async function checkServiceId({ configuration, secretOf }: Subject, url: string): Promise<Finding[]> {
  const token = secretOf('ADMIN_TOKEN');
  if (token === undefined) return [];
  const health = await askDeployment(`${url}/v1/health`, { Authorization: `Bearer ${token}` });
  if ('finding' in health) return [];
  const { serviceId: used } = (await responseObject(health.response)) as { serviceId?: string };
  if (used === undefined) return [];
  const line = `SERVICE_ID = "${used}"`;
  const configured = configuration.vars['SERVICE_ID'] ?? '';
  if (configured === used) return [fine(`pins are named sealpin:${used}`)];
  if (configured === '')
    return [
      note(
        `pins are named sealpin:${used}, which follows from the namespace of the Durable Objects: ` +
          `write ${line} into [vars] of the configuration, so that it stays`,
      ),
    ];
  return [
    wrong(
      `the deployed service names its pins sealpin:${used}, and SERVICE_ID is ${configured}`,
      `before the next deployment write ${line}: its pins would count as somebody else’s`,
    ),
  ];
}

/** No page has this origin. */
const foreignOrigin = 'https://doctor.invalid';

async function checkCors({ configuration }: Subject, url: string): Promise<Finding> {
  const origins = originsOf(configuration);
  const all = origins.includes('*');
  const cases = [...origins.filter((each) => each !== '*'), foreignOrigin].map((origin) => ({
    origin,
    allowed: all || origin !== foreignOrigin,
  }));
  for (const { origin, allowed } of cases) {
    const preflight = await askDeployment(
      `${url}/v1/account`,
      { Origin: origin, 'Access-Control-Request-Method': 'GET', 'Access-Control-Request-Headers': 'authorization' },
      'OPTIONS',
    );
    if ('finding' in preflight) return preflight.finding;
    const header = preflight.response.headers.get('Access-Control-Allow-Origin');
    if ((header === '*' || header === origin) !== allowed)
      return wrong(
        `CORS: ${origin} is ${allowed ? 'refused' : 'allowed'}, other than CORS_ORIGINS says`,
        'npm run deploy; if it stays, a rule of your zone changes headers',
      );
  }
  const who = all ? 'every page' : origins.length === 0 ? 'no page of another origin' : origins.join(', ');
  return fine(`CORS: ${who} may call`);
}

type ResponseOrFinding = { response: Response } | { finding: Finding };

async function askDeployment(
  url: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<ResponseOrFinding> {
  try {
    return {
      response: await fetch(url, { method, headers, redirect: 'manual', signal: AbortSignal.timeout(responseMs) }),
    };
  } catch (error) {
    return {
      finding: failure(
        error,
        'a new address takes some minutes; check the domain, its DNS records and npx wrangler deployments list',
        `${new URL(url).origin} does not respond: `,
      ),
    };
  }
}

async function responseObject(response: Response): Promise<object> {
  try {
    return await response.json<object>();
  } catch {
    return {};
  }
}
