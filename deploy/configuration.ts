/** The wrangler configuration of a deployment, and what is wrong with it. */
import { unstable_readConfig as readConfig } from 'wrangler';
import { isLoopback } from '../shared/loopback.ts';
import { SealpinError, isSealpinError, ownHint } from '../shared/errors.ts';
import { backendsSetting, corsOrigins, isOwnName, settingFaults, textOf, type Env } from '../worker/env.ts';
import { configuredBackends, type ConfiguredService } from '../worker/backends/backend-types.ts';

export type Configuration = {
  name: string;
  /** The Cloudflare account, where the file names one. */
  accountId: string | undefined;
  /** The KV namespace of `API_KEYS`; undefined where wrangler creates it. */
  kvId: string | undefined;
  /** Domain at which clients reach it, as far as the file says. */
  domain: string | undefined;
  vars: Record<string, string>;
  /** The bound R2 buckets. One without a name is created by wrangler under a name of its own. */
  buckets: readonly { binding: string; bucket: string | undefined }[];
};

/** Something that is wrong, and what to do about it. */
export type ConfigurationFault = { what: string; todo: string };

/** Part of the configuration that is used, as wrangler parses it. */
type ParsedConfiguration = {
  name?: string;
  account_id?: string;
  kv_namespaces: { binding: string; id?: string }[];
  routes?: (string | { pattern: string; custom_domain?: boolean })[];
  vars: Record<string, unknown>;
  r2_buckets?: { binding: string; bucket_name?: string }[];
};

export const kvBinding = 'API_KEYS';

/** The title that wrangler (4.45 and newer) gives a KV namespace without an ID. */
export function kvTitle(name: string): string {
  return `${name}-${kvBinding.toLowerCase().replaceAll('_', '-')}`;
}

/** Reads a configuration, with the checks of wrangler itself. @throws misconfigured */
export function readConfiguration(path: string): Configuration {
  let config: ParsedConfiguration;
  let vars: Record<string, string>;
  try {
    config = readConfig({ config: path }, { hideWarnings: true }) as ParsedConfiguration;
    const own = Object.keys(config.vars).filter(isOwnName);
    vars = Object.fromEntries(own.map((name) => [name, textOf(config.vars, name)]));
  } catch (error) {
    throw new SealpinError('misconfigured', `${path}: ${(error as Error).message.split('\n')[0]}`, {
      hint: 'correct the file, or take wrangler.toml of a fresh checkout',
      cause: error,
    });
  }
  const domains = config.routes?.flatMap((each) =>
    typeof each === 'object' && each.custom_domain ? each.pattern : [],
  );
  return {
    name: config.name ?? '',
    accountId: config.account_id,
    kvId: config.kv_namespaces.find(({ binding }) => binding === kvBinding)?.id,
    domain: domains?.[0],
    vars,
    buckets: config.r2_buckets?.map(({ binding, bucket_name }) => ({ binding, bucket: bucket_name })) ?? [],
  };
}

const correct = 'correct it in the configuration; docs/operating.md lists the settings';

/** All that can be found wrong with a configuration without asking anybody. */
export function faultsOf(configuration: Configuration): ConfigurationFault[] {
  const { name, kvId, vars } = configuration;
  // The binding that the parsers look at, besides the variables.
  const env = { ...vars, PIN: { idFromName: () => 'id' } } as unknown as Env;
  const isName = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name);
  const placeholder = 'the id of the KV namespace is a placeholder';
  return [
    ...faultIf(!isName, 'name is not 1 to 63 of a-z, 0-9 and -', 'set name, or run npm run setup -- --name sealpin'),
    ...faultIf(
      kvId !== undefined && /^0*$/.test(kvId),
      placeholder,
      'remove the line id: wrangler creates the namespace',
    ),
    ...backendFaults(configuration),
    ...settingFaults(env).map((what) => ({ what, todo: correct })),
  ];
}

function faultIf(isWrong: boolean, what: string, todo: string): ConfigurationFault[] {
  return isWrong ? [{ what, todo }] : [];
}

/** The origins that `CORS_ORIGINS` lists, `*` included. */
export function originsOf({ vars }: Configuration): string[] {
  return listedIn(() => corsOrigins(vars));
}

function backendFaults(configuration: Configuration): ConfigurationFault[] {
  const { vars } = configuration;
  const faults = faultIn(() => pinningServices(configuration, () => 'token'));
  if (faults.length > 0) return faults;
  const { setting } = backendsSetting(vars);
  const count = pinningServices(configuration, () => 'token').length;
  const wanted = Number(vars['REPLICAS'] ?? 1);
  const placeholders = addressesOf(vars).filter(({ hostname }) => isReserved(hostname));
  return [
    ...placeholders.map(({ href }) => ({
      what: `${setting} has the placeholder ${href}`,
      todo: 'run npm run setup: it asks where bytes are kept',
    })),
    ...unencrypted(vars).map(({ href }) => ({
      what: `${setting} has ${href}, which sends the token in the clear`,
      todo: 'put a proxy with TLS in front of it (docs/operating.md) and use its https:// address',
    })),
    ...faultIf(wanted > count, `REPLICAS is ${wanted}, and there are ${count} backends`, 'lower it, or add a backend'),
  ];
}

/**
 * The setting that setup changes: the old name, unless the new one is in use.
 * @throws misconfigured where both are set
 */
export function listSetting(vars: Record<string, string>): 'BACKENDS' | 'PINNING_SERVICES' {
  return backendsSetting(vars).json === (vars['BACKENDS'] || undefined) ? 'BACKENDS' : 'PINNING_SERVICES';
}

/** Returns the refusal of a function as a fault. */
export function faultIn(parse: () => unknown): ConfigurationFault[] {
  try {
    parse();
    return [];
  } catch (error) {
    if (!isSealpinError(error)) throw error;
    return [{ what: error.message, todo: ownHint(error) ?? correct }];
  }
}

/** A list in a configuration; none where that is wrong, which has a line of its own. */
export function listedIn(read: () => string[]): string[] {
  try {
    return read();
  } catch {
    return [];
  }
}

/** Every URL in `BACKENDS`, whatever the type. */
function addressesOf(vars: Record<string, string>): URL[] {
  const found: URL[] = [];
  JSON.parse(backendsSetting(vars).json || '[]', (_name, value: unknown) => {
    const url = typeof value === 'string' ? URL.parse(value) : null;
    if (url !== null && /^https?:$/.test(url.protocol)) found.push(url);
    return value;
  });
  return found;
}

/** Names that nobody can have (RFC 2606). */
function isReserved(host: string): boolean {
  return /(^|\.)(example|invalid|test)$|(^|\.)example\.(com|net|org)$/.test(host);
}

/** The addresses to which a token would go in the clear. */
export function unencrypted(vars: Record<string, string>): URL[] {
  return addressesOf(vars).filter((url) => url.protocol === 'http:' && !isLoopback(url));
}

/** The addresses of backends on this machine, which no Worker reaches. */
export function loopbackAddresses({ vars }: Configuration): string[] {
  return addressesOf(vars).flatMap((url) => (isLoopback(url) ? [url.href] : []));
}

/**
 * The backends of a configuration, with buckets that can be asked for nothing.
 * @param secretOf the value of a secret; undefined where it is not known
 * @throws misconfigured
 */
export function pinningServices(
  { vars, buckets }: Pick<Configuration, 'vars' | 'buckets'>,
  secretOf: (name: string) => string | undefined,
): ConfiguredService[] {
  const { json, setting } = backendsSetting(vars);
  const bindingOf = (name: string): unknown => {
    if (buckets.some(({ binding }) => binding === name)) return { createMultipartUpload: undefined };
    throw new SealpinError('misconfigured', `there is no binding ${name} in wrangler.toml`, {
      hint: `add [[r2_buckets]] with binding = "${name}" and bucket_name = the name of a bucket`,
    });
  };
  // Nothing of this name outlives a check.
  return configuredBackends(json, setting, { secretOf, bindingOf, serviceId: 'doctor', fetch });
}

/** The secrets that are needed: the operator's token, and those that the backends name. */
export function neededSecrets(configuration: Configuration): string[] {
  const names = new Set<string>();
  pinningServices(configuration, (name) => {
    names.add(name);
    return 'token';
  });
  return ['ADMIN_TOKEN', ...names];
}
