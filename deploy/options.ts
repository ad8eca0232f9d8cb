/** The flags of setup and doctor. None has a secret: other users of a machine see flags. */
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '../cli/local/package-root.ts';
import { refuseUnencrypted } from '../cli/remote/client.ts';
import { SealpinError } from '../shared/errors.ts';

/** The flags of all commands, for people. */
export const usage = `npm run setup -- [--name <worker>] [--backend r2|s3|kubo] [--public-gateway on|off]
                 [--bucket <name>] [--s3-url <https://…>] [--region <name>]
                 [--kubo-url <https://…>] [--domain <host>] [--url <https://…>]
                 [--account <label>] [--api-key-file <path>]
npm run doctor -- [--url <https://…>]
npm run backup -- --url <https://…> <folder>
npm run restore -- --url <https://…> <folder>
all: [--config <wrangler.toml>] [--admin-token-file <path>]
KUBO_TOKEN, S3_KEY, S3_SECRET, ADMIN_TOKEN and METRICS_TOKEN are read from the environment;
setup asks at a terminal for those of a backend that are missing.`;

/** The backends that setup configures, in the order in which it lists them. */
export const backendKinds = ['r2', 's3', 'kubo'] as const;
export type BackendKind = (typeof backendKinds)[number];

/** The flags, with absolute paths. */
export type DeployOptions = ReturnType<typeof parseOptions>;

const sharedFlags = ['config', 'admin-token-file', 'url'] as const;
const backendFlags = ['backend', 'bucket', 's3-url', 'region', 'kubo-url'] as const;
const serviceFlags = ['public-gateway', 'name', 'domain', 'account', 'api-key-file'] as const;
const setupFlags = [...sharedFlags, ...backendFlags, ...serviceFlags] as const;

export type CommandName = 'setup' | 'doctor' | 'backup' | 'restore';

/** Parses flags. @param cwd what relative paths begin at @throws usage */
export function parseOptions(command: CommandName, args: readonly string[], cwd: string) {
  const isBackup = command === 'backup' || command === 'restore';
  const flags = command === 'setup' ? setupFlags : sharedFlags;
  const options = Object.fromEntries(flags.map((flag) => [flag, { type: 'string' as const }]));
  let values: Partial<Record<(typeof setupFlags)[number], string>>;
  let positionals: string[];
  try {
    ({ values, positionals } = parseArgs({ args: [...args], options, allowPositionals: isBackup }));
  } catch (error) {
    throw new SealpinError('usage', (error as Error).message.split('. ')[0], { hint: usage });
  }
  // What an unset variable leaves behind would be the current directory.
  const empty = Object.entries(values).find(([, value]) => value === '')?.[0];
  if (empty !== undefined || positionals.includes(''))
    throw new SealpinError('usage', `${empty === undefined ? 'the folder' : `--${empty}`} is empty`, { hint: usage });
  const [folder] = positionals;
  if (isBackup && (positionals.length !== 1 || values.url === undefined))
    throw new SealpinError('usage', `${command} needs --url and one folder`, { hint: usage });
  const { name, domain } = values;
  const hostname = domain === undefined ? undefined : URL.parse(`https://${domain}`)?.host;
  if (domain !== undefined && (hostname !== domain || !domain.includes('.')))
    throw new SealpinError('usage', '--domain is not a host name', {
      hint: 'write it without https://, such as files.acme.org',
    });
  const config = resolve(cwd, values.config ?? join(packageRoot(), 'wrangler.toml'));
  // Services on one machine keep their secrets apart, such as in staging-admin-token.txt, each
  // beside its configuration: two of these have no file in common.
  const service = basename(config).replace(/^wrangler\.(?:(.+)\.)?toml$/, '$1');
  const secretFile = (name: string): string => (service === '' ? name : `${service}-${name}`);
  const secrets = values.config === undefined ? cwd : dirname(config);
  const fileOf = (path: string | undefined, name: string): string =>
    path === undefined ? join(secrets, secretFile(name)) : resolve(cwd, path);
  const addressOf = (flag: 'url' | 's3-url' | 'kubo-url'): URL | undefined => {
    const address = values[flag];
    return address === undefined ? undefined : addressIn(`--${flag}`, address);
  };
  const adminTokenFile = fileOf(values['admin-token-file'], 'admin-token.txt');
  return {
    /** Of a backup. */
    folder: folder === undefined ? undefined : resolve(cwd, folder),
    config,
    adminTokenFile,
    /** Beside the operator's. */
    metricsTokenFile: join(dirname(adminTokenFile), secretFile('metrics-token.txt')),
    /** Origin of the deployed service. */
    url: addressOf('url')?.origin,
    backend: oneOf('--backend', backendKinds, values.backend),
    bucket: values.bucket,
    s3Url: addressOf('s3-url')?.href,
    region: values.region,
    kuboUrl: addressOf('kubo-url')?.href,
    publicGateway: oneOf('--public-gateway', ['on', 'off'], values['public-gateway']),
    name,
    domain,
    /** Label of the first account. */
    account: values.account,
    apiKeyFile: fileOf(values['api-key-file'], 'api-key.txt'),
  };
}

/** A flag or an answer that is one of a few words. @param what it is called @throws usage */
export function oneOf<T extends string>(what: string, words: readonly T[], value: string | undefined): T | undefined {
  const found = words.find((word) => word === value);
  if (value !== undefined && found === undefined)
    throw new SealpinError('usage', `${what} is none of ${words.join(', ')}`, { hint: usage });
  return found;
}

/** The address, to which a token goes, in a flag or an answer. @throws usage */
export function addressIn(what: string, value: string): URL {
  const url = URL.parse(value);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new SealpinError('usage', `${what} is not an https: address without a password`, {
      hint: 'write all of it, such as https://files.example.com',
    });
  refuseUnencrypted(url, what === '--url' ? 'the operator’s token' : 'secrets');
  return url;
}
