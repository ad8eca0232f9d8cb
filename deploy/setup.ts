/** `npm run setup`: from an empty Cloudflare account to a service. It can be repeated. */
import { randomBytes } from 'node:crypto';
import { SealpinError } from '../shared/errors.ts';
import { within } from '../shared/streams/timing.ts';
import { createBucket, usedBuckets } from './buckets.ts';
import { checkPinning, type Subject } from './checks.ts';
import { faultsOf, kvTitle, listSetting, readConfiguration, type Configuration } from './configuration.ts';
import { doctor, tokenIn, type DoctorContext } from './check-deployment.ts';
import { editConfiguration, type ConfigurationChanges } from './edit-configuration.ts';
import { firstAccount, firstLink } from './first-account.ts';
import { linesOf } from './finding.ts';
import { newConfiguration } from './new-configuration.ts';
import { operatorApi } from './operator-api.ts';
import type { DeployOptions } from './options.ts';
import { newSecretFile } from './secret-file.ts';
import { changesFor, secretsFor } from './setup-answers.ts';
import { accountsOf, kvNamespaces, reasonOf, secretNames, wranglerWith, type Wrangler } from './wrangler.ts';

type Print = DoctorContext['print'];

/** Checks have limits of their own: they are waited for until the signal. */
const checksMs = Number.POSITIVE_INFINITY;

/**
 * Asks for what is missing, tries it, and only then writes the configuration, deploys, sets the
 * secrets and checks everything. Where all is well it makes the first account, and sends a link.
 * @returns the exit code of the checks
 * @throws usage, misconfigured, unauthorized, service_unreachable
 */
export async function setup(options: DeployOptions, context: DoctorContext): Promise<number> {
  const { env, print, signal } = context;
  if (await newConfiguration(options)) print(`✓ wrote ${options.config}: the configuration of ${options.name}`);
  const before = readConfiguration(options.config);
  const wrangler = wranglerWith(options.config, env, signal);
  print('  wrangler looks at the Cloudflare account …');
  await chooseAccount(wrangler, before, env);
  const changes = await changesFor(options, before, context);
  const wanted = changed(before, changes);
  const [fault] = faultsOf(wanted);
  if (fault !== undefined) throw new SealpinError('misconfigured', fault.what, { hint: fault.todo });

  // The file may not have the Worker's name yet.
  const named: Wrangler = (args, input) => wrangler([...args, '--name', wanted.name], input);
  const deployed = await secretNames(named);
  const present = deployed ?? [];
  const secrets = await secretsFor(wanted, present, context);
  const secretOf = (name: string) => secrets[name];
  await tryBackends({ configuration: wanted, secretOf }, context);
  for (const bucket of usedBuckets(wanted))
    if (await createBucket(wrangler, bucket)) print(`✓ created the R2 bucket ${bucket}`);

  const mayBeLeft = deployed === undefined && wanted.kvId === undefined;
  // A deployment that failed later has left it: wrangler would try to create it again.
  const left = mayBeLeft
    ? (await kvNamespaces(wrangler)).find(({ title }) => title === kvTitle(wanted.name))
    : undefined;
  // The pins of a service that is there have the ID which follows from its namespace.
  const isNew = deployed === undefined && (wanted.vars['SERVICE_ID'] ?? '') === '';
  const serviceId = isNew ? randomBytes(16).toString('hex') : undefined;
  if (await editConfiguration(options.config, { ...changes, serviceId, kvId: left?.id }))
    print(`✓ wrote ${options.config}`);
  const address = await deploy(wrangler, print);
  const tokens = await newTokens(present, options, context);
  await putSecrets(wrangler, { ...secrets, ...tokens }, print);
  return await finish(options, address, { ...context, env: { ...env, ...secrets, ...tokens } });
}

/** A configuration with changes that are not written yet. */
function changed(
  before: Configuration,
  { name, backends, bucket, publicGateway }: ConfigurationChanges,
): Configuration {
  return {
    ...before,
    name: name ?? before.name,
    kvId: /^0+$/.test(before.kvId ?? '') ? undefined : before.kvId,
    buckets: [...before.buckets, ...(bucket === undefined ? [] : [bucket])],
    vars: {
      ...before.vars,
      ...(backends !== undefined && { [listSetting(before.vars)]: JSON.stringify(backends) }),
      ...(publicGateway !== undefined && { PUBLIC_GATEWAY: publicGateway }),
    },
  };
}

/**
 * Checks what was deployed, makes the first account, and sends a link with its API key.
 * @param deployedAt the address on workers.dev, where there is one
 */
async function finish(options: DeployOptions, deployedAt: string | undefined, context: DoctorContext): Promise<number> {
  const { env, print, signal } = context;
  print('');
  const { domain, name } = readConfiguration(options.config);
  const url = options.url ?? (domain === undefined ? deployedAt : `https://${domain}`);
  const exit = await within(doctor({ ...options, url }, context), checksMs, () => 1, signal);
  const token = env['ADMIN_TOKEN'] || tokenIn(options.adminTokenFile);
  if (exit !== 0 || url === undefined || token === undefined) {
    print('– no account was made: run npm run setup again when all checks pass');
    return exit;
  }
  await firstAccount(operatorApi(url, token, { signal }), { ...options, account: options.account ?? name }, context);
  signal.throwIfAborted();
  const apiKey = tokenIn(options.apiKeyFile);
  if (apiKey === undefined) return exit;
  const sent = await firstLink(url, apiKey);
  for (const line of linesOf(sent)) print(line);
  return sent.ok === false ? 1 : 0;
}

/** @throws usage where it is not clear which account is meant */
async function chooseAccount(wrangler: Wrangler, { accountId }: Configuration, env: NodeJS.ProcessEnv): Promise<void> {
  const accounts = await accountsOf(wrangler);
  const chosen = env['CLOUDFLARE_ACCOUNT_ID'] || accountId;
  if (chosen !== undefined || accounts.length < 2) return;
  const list = accounts.map(({ id, name }) => `${id} (${name})`).join(', ');
  throw new SealpinError('usage', `the login has several Cloudflare accounts: ${list}`, {
    hint: 'set CLOUDFLARE_ACCOUNT_ID to one of them',
  });
}

/** @throws misconfigured where a backend does not work: nothing has been changed yet */
async function tryBackends(
  subject: Pick<Subject, 'configuration' | 'secretOf'>,
  { print, signal }: DoctorContext,
): Promise<void> {
  for (const finding of await within(checkPinning(subject), checksMs, () => [], signal)) {
    if (finding.ok === false)
      throw new SealpinError('misconfigured', `${finding.what}; nothing was deployed`, { hint: finding.todo });
    for (const line of linesOf(finding)) print(line);
  }
}

/** Builds and deploys. @returns the address on workers.dev, if any @throws service_unreachable */
async function deploy(wrangler: Wrangler, print: Print): Promise<string | undefined> {
  print('  wrangler builds and deploys …');
  const { ok, stdout, stderr } = await wrangler(['deploy']);
  if (!ok)
    throw new SealpinError('service_unreachable', `wrangler deploy failed: ${reasonOf(stderr)}`, {
      hint:
        'code 100328 is the Free plan: Sealpin needs Workers Paid. Then run npm run setup again: ' +
        'it resumes where it stopped',
    });
  print('✓ deployed');
  return /https:\/\/[a-z0-9.-]+\.workers\.dev/.exec(stdout)?.[0];
}

/** The operator's tokens that Cloudflare does not have. */
async function newTokens(
  present: readonly string[],
  { adminTokenFile, metricsTokenFile }: DeployOptions,
  context: DoctorContext,
): Promise<Record<string, string>> {
  const tokens: Record<string, string> = {};
  for (const [name, path] of Object.entries({ ADMIN_TOKEN: adminTokenFile, METRICS_TOKEN: metricsTokenFile }))
    if (!present.includes(name)) tokens[name] = await newToken(name, path, context);
  return tokens;
}

/** The token in the operator's file, or a new one, which is there before it is anywhere else. */
async function newToken(name: string, path: string, { env, print }: DoctorContext): Promise<string> {
  const known = env[name] || tokenIn(path);
  if (known !== undefined) return known;
  const token = randomBytes(32).toString('hex');
  await (await newSecretFile(path, '--admin-token-file', token.length)).fill(token);
  print(`✓ the ${name} is in ${path}: keep it, Cloudflare does not show it again`);
  return token;
}

/** Sets secrets in one request, through wrangler's standard input. @throws service_unreachable */
async function putSecrets(wrangler: Wrangler, secrets: Record<string, string>, print: Print): Promise<void> {
  const names = Object.keys(secrets);
  if (names.length === 0) return;
  const { ok, stderr } = await wrangler(['secret', 'bulk'], JSON.stringify(secrets));
  if (!ok)
    throw new SealpinError('service_unreachable', `wrangler secret bulk failed: ${reasonOf(stderr)}`, {
      hint: 'the Worker is deployed, without these secrets: run npm run setup again',
    });
  print(`✓ set ${names.join(', ')}`);
}
