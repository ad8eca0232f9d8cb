/**
 * `npm run setup`: from an empty Cloudflare account to a deployed service. Running it again changes
 * what is different, only.
 */
import { randomBytes } from 'node:crypto';
import { withTerminal } from '../cli/terminal/prompt.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { checkPinning, type Subject } from './checks.ts';
import {
  faultsOf,
  kvTitle,
  listSetting,
  neededSecrets,
  readConfiguration,
  type Configuration,
} from './configuration.ts';
import { doctor, tokenIn, type DoctorContext } from './doctor.ts';
import { editConfiguration, type ConfigurationChanges } from './edit-configuration.ts';
import { firstAccount } from './first-account.ts';
import { linesOf } from './finding.ts';
import { newConfiguration } from './new-configuration.ts';
import { operatorApi } from './operator-api.ts';
import { addressIn, type DeployOptions } from './options.ts';
import { newSecretFile } from './secret-file.ts';
import { accountsOf, kvNamespaces, reasonOf, secretNames, wranglerWith, type Wrangler } from './wrangler.ts';

/** The secret of the Kubo that setup configures. */
const kuboSecret = 'KUBO_TOKEN';

/**
 * Asks for what is missing, tries it, and only then writes the configuration, deploys, sets the
 * secrets and checks everything. Where all is well it makes the first account.
 * @returns the exit code of the checks
 * @throws usage, misconfigured, unauthorized, service_unreachable
 */
export async function setup(options: DeployOptions, context: DoctorContext): Promise<number> {
  const { env, print } = context;
  if (await newConfiguration(options)) print(`✓ wrote ${options.config}: the configuration of ${options.name}`);
  const before = readConfiguration(options.config);
  const wrangler = wranglerWith(options.config, env);
  print('  wrangler looks at the Cloudflare account …');
  await chooseAccount(wrangler, before, env);
  const changes = await changesFor(options, before, context);
  const wanted: Configuration = {
    ...before,
    ...(changes.name !== undefined && { name: changes.name }),
    kvId: /^0+$/.test(before.kvId ?? '') ? undefined : before.kvId,
    vars: {
      ...before.vars,
      ...(changes.pinningServices !== undefined && {
        [listSetting(before.vars)]: JSON.stringify(changes.pinningServices),
      }),
    },
  };
  const [fault] = faultsOf(wanted);
  if (fault !== undefined) throw new SealpinError('misconfigured', fault.what, { hint: fault.todo });

  const deployed = await secretNames(namedWrangler(wrangler, wanted.name));
  const present = deployed ?? [];
  const secrets = await secretsFor(wanted, present, context);
  const secretOf = (name: string) => secrets[name];
  await tryPinning({ configuration: wanted, secretOf }, print);

  const kvId = deployed === undefined && wanted.kvId === undefined ? await leftNamespace(wrangler, wanted) : undefined;
  // The pins of a service that is there have the ID which follows from its namespace.
  const isNew = deployed === undefined && (wanted.vars['SERVICE_ID'] ?? '') === '';
  const serviceId = isNew ? { serviceId: randomBytes(16).toString('hex') } : {};
  if (await editConfiguration(options.config, { ...changes, ...serviceId, ...(kvId !== undefined && { kvId }) }))
    print(`✓ wrote ${options.config}`);
  const url = await deploy(wrangler, print);
  const tokens: Record<string, string> = {};
  for (const [name, path] of [
    ['ADMIN_TOKEN', options.adminTokenFile],
    ['METRICS_TOKEN', options.metricsTokenFile],
  ] as const)
    if (!present.includes(name)) tokens[name] = await newToken(name, path, context);
  await putSecrets(wrangler, { ...secrets, ...tokens }, print);
  print('');
  const { domain } = readConfiguration(options.config);
  const address = options.url ?? (domain === undefined ? url : `https://${domain}`);
  const checked = { ...context, env: { ...env, ...secrets, ...tokens } };
  const exit = await doctor({ ...options, url: address }, checked);
  const token = checked.env['ADMIN_TOKEN'] || tokenIn(options.adminTokenFile);
  if (exit === 0 && address !== undefined && token !== undefined)
    await firstAccount(operatorApi(address, token), options, () => askLabel(context), context);
  else print('– no account was made: run npm run setup again when all checks pass');
  return exit;
}

/** @returns undefined where there is nobody to ask */
async function askLabel({ interactive, signal }: DoctorContext): Promise<string | undefined> {
  try {
    return await withTerminal({ interactive, missing: 'there is no terminal', hint: '' }, (terminal) =>
      terminal.askShown('What the first account is called, such as a team (empty: make none)', signal),
    );
  } catch (error) {
    if (isSealpinError(error, 'usage')) return undefined;
    throw error;
  }
}

/** wrangler with the Worker's name, which the file may not have yet. */
function namedWrangler(wrangler: Wrangler, name: string): Wrangler {
  return (args, input) => wrangler([...args, '--name', name], input);
}

/**
 * The ID of the KV namespace that a deployment has left which failed later: wrangler would try to
 * create it again.
 */
async function leftNamespace(wrangler: Wrangler, { name }: Configuration): Promise<string | undefined> {
  return (await kvNamespaces(wrangler)).find(({ title }) => title === kvTitle(name))?.id;
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

/** Decides what of the configuration is to change. @throws usage, misconfigured */
async function changesFor(
  { kuboUrl, name, domain }: DeployOptions,
  { vars }: Configuration,
  context: DoctorContext,
): Promise<ConfigurationChanges> {
  const services = servicesIn(vars);
  const isPlaceholder = services === undefined || JSON.stringify(services).includes('kubo.example.com');
  const changes = { ...(name !== undefined && { name }), ...(domain !== undefined && { domain }) };
  if (kuboUrl === undefined && !isPlaceholder) return changes;
  const [first = {}, ...more] = services ?? [];
  if (more.length > 0 || (first.type ?? 'kubo') !== 'kubo')
    throw new SealpinError('misconfigured', `${listSetting(vars)} has other services than one Kubo`, {
      hint: 'change the list yourself (docs/operating.md) and run npm run setup without --kubo-url',
    });
  const url =
    kuboUrl ?? addressIn('the answer', await askFor('The https: address of your Kubo', '--kubo-url', context)).href;
  return { ...changes, pinningServices: [{ id: 'kubo', type: 'kubo', ...first, url, tokenSecret: kuboSecret }] };
}

function servicesIn(vars: Record<string, string>): { type?: string }[] | undefined {
  const setting = listSetting(vars);
  try {
    return JSON.parse(vars[setting] ?? '') as { type?: string }[];
  } catch {
    return undefined;
  }
}

/**
 * The secrets of the pinning services that are to be set: those in the environment, and those that
 * are not set yet.
 */
async function secretsFor(
  configuration: Configuration,
  present: readonly string[],
  context: DoctorContext,
): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  for (const name of neededSecrets(configuration)) {
    if (name === 'ADMIN_TOKEN') continue;
    const value = context.env[name];
    if (value) secrets[name] = value;
    else if (!present.includes(name)) secrets[name] = await askFor(`The token ${name}`, name, context);
  }
  return secrets;
}

async function askFor(question: string, instead: string, { interactive, signal }: DoctorContext): Promise<string> {
  const isFlag = instead.startsWith('--');
  const answer = await withTerminal(
    {
      interactive,
      missing: `${question.replace(/^The/, 'the')} is missing, and there is no terminal to ask at`,
      hint: isFlag ? `name it with ${instead}` : `set ${instead} in the environment`,
    },
    (terminal) => (isFlag ? terminal.askShown(question, signal) : terminal.ask(question, signal)),
  );
  if (answer === '') throw new SealpinError('usage', `${question} is empty`, { hint: 'run npm run setup again' });
  return answer;
}

/** @throws misconfigured where a pinning service does not work: nothing has been changed yet */
async function tryPinning(
  subject: Pick<Subject, 'configuration' | 'secretOf'>,
  print: DoctorContext['print'],
): Promise<void> {
  const findings = await checkPinning(subject);
  for (const finding of findings) {
    if (finding.ok === false)
      throw new SealpinError('misconfigured', `${finding.what}; nothing was deployed`, { hint: finding.todo });
    for (const line of linesOf(finding)) print(line);
  }
}

/**
 * Builds and deploys.
 * @returns the address on workers.dev, where there is one
 * @throws service_unreachable
 */
async function deploy(wrangler: Wrangler, print: DoctorContext['print']): Promise<string | undefined> {
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

/**
 * A token of the operator's: the one in the file, or a new one, which is in the file before it is
 * anywhere else.
 */
async function newToken(name: string, path: string, { env, print }: DoctorContext): Promise<string> {
  const known = env[name] || tokenIn(path);
  if (known !== undefined) return known;
  const token = randomBytes(32).toString('hex');
  await (await newSecretFile(path, '--admin-token-file', token.length)).fill(token);
  print(`✓ the ${name} is in ${path}: keep it, Cloudflare does not show it again`);
  return token;
}

/** Sets secrets in one request, through wrangler's standard input. @throws service_unreachable */
async function putSecrets(
  wrangler: Wrangler,
  secrets: Record<string, string>,
  print: DoctorContext['print'],
): Promise<void> {
  const names = Object.keys(secrets);
  if (names.length === 0) return;
  const { ok, stderr } = await wrangler(['secret', 'bulk'], JSON.stringify(secrets));
  if (!ok)
    throw new SealpinError('service_unreachable', `wrangler secret bulk failed: ${reasonOf(stderr)}`, {
      hint: 'the Worker is deployed, without these secrets: run npm run setup again',
    });
  print(`✓ set ${names.join(', ')}`);
}
