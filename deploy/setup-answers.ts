/** The questions of `npm run setup`: each has a flag, and is asked for a new configuration. */
import { withTerminal } from '../cli/terminal/prompt.ts';
import { SealpinError } from '../shared/errors.ts';
import { listSetting, neededSecrets, type Configuration } from './configuration.ts';
import type { DoctorContext } from './check-deployment.ts';
import type { ConfigurationChanges } from './edit-configuration.ts';
import { addressIn, backendKinds, oneOf, type BackendKind, type DeployOptions } from './options.ts';

/** An entry of `BACKENDS`. */
type ListedBackend = { id?: string; type?: string; [option: string]: unknown };

/** The secret of the Kubo that setup configures, and those of the S3 API. */
const kuboSecret = 'KUBO_TOKEN';
const s3Secrets = { keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
/** The binding of the bucket. */
const bucketBinding = 'FILES';

const question = `Where the bytes of files are kept:
  r2    a bucket of this Cloudflare account; nothing else has to run
  s3    a bucket elsewhere, with an S3 API
  kubo  an IPFS node of your own, at an https: address
A bucket is not on the IPFS network until a pinning service is added.`;

/** Decides what of the configuration is to change. @throws usage, misconfigured */
export async function changesFor(
  options: DeployOptions,
  before: Configuration,
  context: DoctorContext,
): Promise<ConfigurationChanges> {
  const { domain } = options;
  const entries = listedBackends(before.vars);
  const isNew = entries === undefined || JSON.stringify(entries).includes('kubo.example.com');
  const canAsk = isNew && context.interactive;
  const name = options.name ?? (canAsk ? await askOr('Name of the Worker', before.name, context) : undefined);
  const kind = impliedBackendKind(options) ?? (isNew ? await askKind(context) : undefined);
  const backends =
    kind === undefined ? {} : await backendsWith(kind, { options, before, context, name: name ?? before.name, isNew });
  const publicGateway = options.publicGateway ?? (canAsk ? await askGateway(before, context) : undefined);
  return { name, domain, publicGateway, ...backends };
}

/** The type of backend that the flags name or imply. @throws usage where they contradict */
function impliedBackendKind({ backend, kuboUrl, s3Url, region, bucket }: DeployOptions): BackendKind | undefined {
  const implied: BackendKind[] = [];
  if (kuboUrl !== undefined) implied.push('kubo');
  if (s3Url !== undefined || region !== undefined) implied.push('s3');
  const kind = backend ?? implied[0] ?? (bucket === undefined ? undefined : 'r2');
  if (implied.some((each) => each !== kind) || (bucket !== undefined && kind === 'kubo'))
    throw new SealpinError('usage', 'the flags name several places for bytes', {
      hint: '--bucket belongs to r2 and s3, --s3-url and --region to s3, --kubo-url to kubo',
    });
  return kind;
}

async function askKind(context: DoctorContext): Promise<BackendKind> {
  const instead = `name it with --backend: ${backendKinds.join(', ')}`;
  if (context.interactive) context.print(question);
  const answer = await answerTo('Backend [r2]', { missing: 'where bytes are kept is not said', instead }, context);
  return oneOf('the answer', backendKinds, answer || 'r2') ?? 'r2';
}

async function askGateway({ vars }: Configuration, context: DoctorContext): Promise<'on' | 'off'> {
  const now = vars['PUBLIC_GATEWAY'] || 'off';
  const asked = 'Whether anyone who knows a CID may fetch its blob, as links need: on or off';
  const answer = await askOr(asked, now, context);
  return oneOf('the answer', ['on', 'off'] as const, answer) ?? 'off';
}

/**
 * The list of backends with one of a type: the only one of a new service, or the first of one that
 * has others, whose files stay where they are.
 */
async function backendsWith(
  kind: BackendKind,
  o: { options: DeployOptions; before: Configuration; context: DoctorContext; name: string; isNew: boolean },
): Promise<ConfigurationChanges> {
  const { options, before, context, isNew } = o;
  const listed = (isNew ? undefined : listedBackends(before.vars)) ?? [];
  const others = listed.filter(({ type }) => type !== kind);
  const [same, ...more] = listed.filter(({ type }) => type === kind);
  if (more.length > 0)
    throw new SealpinError('misconfigured', `${listSetting(before.vars)} has several backends of the type ${kind}`, {
      hint: 'change the list yourself (docs/operating.md) and run npm run setup without flags for backends',
    });
  if (same !== undefined && kind !== 'kubo') return sameBucket(same, options);
  if (kind === 'kubo') {
    const url = options.kuboUrl ?? (await askAddress('The https: address of your Kubo', '--kubo-url', context));
    const entry = { id: 'kubo', type: kind, ...same, url, tokenSecret: kuboSecret };
    return { backends: same === undefined ? [entry, ...others] : listed.map((each) => (each === same ? entry : each)) };
  }
  if (kind === 's3') {
    const url = options.s3Url ?? (await askAddress('The https: address of the S3 API', '--s3-url', context));
    const bucket = options.bucket ?? (await askText('The name of the bucket', '--bucket', context));
    const region = options.region ?? (await askOr('Region of the bucket', 'us-east-1', context));
    return { backends: [{ id: 's3', type: kind, url, bucket, region, ...s3Secrets }, ...others] };
  }
  const isBound = before.buckets.some(({ binding }) => binding === bucketBinding);
  const bucket = { binding: bucketBinding, bucket: options.bucket ?? `${o.name}-files` };
  const entry = { id: 'r2', type: kind, binding: bucketBinding };
  return { backends: [entry, ...others], bucket: isBound ? undefined : bucket };
}

/** Nothing changes about a bucket that is in use: its files are there. @throws misconfigured */
function sameBucket(entry: ListedBackend, { bucket, s3Url, region }: DeployOptions): ConfigurationChanges {
  const asked = { bucket, url: s3Url, region };
  const differs = (['bucket', 'url', 'region'] as const).find(
    (option) => entry[option] !== undefined && asked[option] !== undefined && entry[option] !== asked[option],
  );
  if (differs === undefined) return {};
  throw new SealpinError('misconfigured', `the backend ${entry.id} has another ${differs}, where its files are`, {
    hint: 'add the new bucket to the list yourself, with an id of its own, and move the files (docs/operating.md)',
  });
}

function listedBackends(vars: Record<string, string>): ListedBackend[] | undefined {
  try {
    const list = JSON.parse(vars[listSetting(vars)] ?? '') as unknown;
    const isList = Array.isArray(list) && list.every((each) => typeof each === 'object' && each !== null);
    return isList ? (list as ListedBackend[]) : undefined;
  } catch {
    return undefined;
  }
}

/** The secrets that are to be set: those in the environment, and those that are not set yet. */
export async function secretsFor(
  configuration: Configuration,
  present: readonly string[],
  context: DoctorContext,
): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  for (const name of neededSecrets(configuration)) {
    if (name === 'ADMIN_TOKEN') continue;
    const value = context.env[name];
    if (value) secrets[name] = value;
    else if (!present.includes(name)) secrets[name] = await askSecret(name, context);
  }
  return secrets;
}

async function askSecret(name: string, context: DoctorContext): Promise<string> {
  const missing = `the secret ${name} is missing`;
  const o = { missing, instead: `set ${name} in the environment`, isSecret: true };
  return required(`The secret ${name}`, await answerTo(`The secret ${name}`, o, context));
}

async function askText(asked: string, flag: string, context: DoctorContext): Promise<string> {
  const missing = `${asked.replace(/^The/, 'the')} is missing`;
  return required(asked, await answerTo(asked, { missing, instead: `name it with ${flag}` }, context));
}

async function askAddress(asked: string, flag: string, context: DoctorContext): Promise<string> {
  return addressIn('the answer', await askText(asked, flag, context)).href;
}

/** Asks where there is somebody to ask; Enter, and nobody, leave what is there. */
async function askOr(asked: string, now: string, context: DoctorContext): Promise<string> {
  if (!context.interactive) return now;
  return (await answerTo(`${asked} [${now}]`, { missing: asked, instead: '' }, context)) || now;
}

function required(asked: string, answer: string): string {
  if (answer === '') throw new SealpinError('usage', `${asked} is empty`, { hint: 'run npm run setup again' });
  return answer;
}

/** @throws usage, with what to do instead, where there is no terminal */
async function answerTo(
  asked: string,
  o: { missing: string; instead: string; isSecret?: boolean },
  { interactive, signal }: DoctorContext,
): Promise<string> {
  const missing = `${o.missing}, and there is no terminal to ask at`;
  return await withTerminal({ interactive, missing, hint: o.instead }, (terminal) =>
    o.isSecret ? terminal.ask(asked, signal) : terminal.askShown(asked, signal),
  );
}
