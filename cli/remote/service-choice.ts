/** Choice of service and API key: the one place that decides (manual, "Which service"). */
import { apiKeyHint, isApiKeyText } from '../../shared/crypto/keys/api-key-text.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { type Config, readConfig } from './config.ts';
import { type Profile, profileNamed, readProfiles } from './profiles.ts';

/** A service, and the API key for it. */
export type Service = {
  /** Ends in `/`. */
  readonly url: URL;
  readonly apiKey: string | undefined;
  /** Origin of the API key, for the message when the service refuses it. */
  readonly keyFrom?: KeyFrom | undefined;
  /** Marks the local service of this data directory. */
  readonly local: boolean;
  /** Set if the service hashes the bytes of an upload as cheaply as it takes them. */
  readonly isDirect?: boolean | undefined;
  /** The profile that named it. */
  readonly profile?: string | undefined;
  readonly gateways: readonly URL[];
};

export type KeyFrom =
  | 'SEALPIN_API_KEY'
  | 'SEALPIN_ADMIN_TOKEN'
  | '"apiKey" in config.json'
  | 'local/secrets.json'
  | 'the link of the inbox'
  | `the profile ${string}`;

/** Choice of a service, before the local one is looked for. */
type Choice = { readonly url: URL; readonly profile?: Profile | undefined };

/**
 * The service: `--service`, `--profile`, `SEALPIN_SERVICE`, the profile in use, the configuration,
 * else the local one. The API key: that of `--profile`, `SEALPIN_API_KEY`, that of the profile in
 * use or of the configuration, which go to their own service only, else the local one's.
 * @returns `url` undefined when no service is named and no local one runs
 * @throws config_invalid, usage, not_found for a profile that does not exist
 */
export async function findService(context: Context): Promise<Partial<Service> & { readonly gateways: readonly URL[] }> {
  const config = await readConfig(context.dataDir);
  if (config.warning !== undefined) context.output.warn(config.warning);
  const gateways = config.gateways.map((text) => parseServiceUrl(text, '"gateways" in config.json'));
  const { current, profiles } = await readProfiles(context);
  const inUse = current === undefined ? undefined : profiles.get(current);
  const choice = await chosen(context, config, inUse);
  const { localService } = await import('../local/control.ts');
  const local = await localService(context, choice?.url);
  const localUrl = local === undefined ? undefined : parseServiceUrl(local.url, 'local/run.json');
  const url = choice?.url ?? localUrl;
  if (url === undefined) return { gateways };
  const isLocal = url.href === localUrl?.href;
  const found = { url, local: isLocal, isDirect: isLocal && local?.isDirect, profile: choice?.profile?.name, gateways };
  const given = apiKeyFor(url, { context, config, inUse, asked: choice?.profile });
  if (given !== undefined) return { ...found, ...given };
  const own = isLocal ? local?.apiKey : undefined;
  return { ...found, apiKey: own, keyFrom: own === undefined ? undefined : 'local/secrets.json' };
}

async function chosen(context: Context, config: Config, inUse: Profile | undefined): Promise<Choice | undefined> {
  if (context.service !== undefined) return { url: parseServiceUrl(context.service, '--service') };
  if (context.profile !== undefined) {
    const profile = profileNamed(context.profile, await readProfiles(context));
    return { url: urlOf(profile), profile };
  }
  const { SEALPIN_SERVICE: fromEnvironment } = context.env;
  if (fromEnvironment !== undefined) return { url: parseServiceUrl(fromEnvironment, 'SEALPIN_SERVICE') };
  if (inUse !== undefined) return { url: urlOf(inUse), profile: inUse };
  if (config.service === undefined) return undefined;
  return { url: parseServiceUrl(config.service, '"service" in config.json') };
}

type KeyChoice = {
  readonly context: Context;
  readonly config: Config;
  readonly inUse: Profile | undefined;
  /** The profile that named the service. */
  readonly asked: Profile | undefined;
};

// A key that was stored for one service must not go to another one because of a flag.
function apiKeyFor(url: URL, { context, config, inUse, asked }: KeyChoice) {
  const ofProfile = (profile: Profile) => checkApiKey(profile.apiKey, `the profile ${profile.name}`);
  // Who names a profile does not mean the key in the environment, which may be that of another
  // service.
  if (context.profile !== undefined && asked !== undefined) return ofProfile(asked);
  const given = context.env['SEALPIN_API_KEY'];
  if (given !== undefined) return checkApiKey(given, 'SEALPIN_API_KEY');
  if (inUse !== undefined && urlOf(inUse).href === url.href) return ofProfile(inUse);
  if (config.apiKey === undefined || config.service === undefined) return undefined;
  if (parseServiceUrl(config.service, '"service" in config.json').href !== url.href) return undefined;
  return checkApiKey(config.apiKey, '"apiKey" in config.json');
}

function urlOf({ name, service }: Profile): URL {
  return parseServiceUrl(service, `the service of the profile ${name}`);
}

/** Checks the shape of an API key; the service checks its checksum. The text is never repeated. */
function checkApiKey(text: string, where: KeyFrom): { apiKey: string; keyFrom: KeyFrom } {
  if (!isApiKeyText(text)) throw new SealpinError('unauthorized', `${where} is not an API key`, { hint: apiKeyHint });
  return { apiKey: text, keyFrom: where };
}

/**
 * Parses the URL of a service or gateway.
 * @param where it was found, for the message
 * @throws usage
 */
export function parseServiceUrl(text: string, where: string): URL {
  let url;
  try {
    url = new URL(text);
  } catch {
    throw new SealpinError('usage', `${where} is not a URL`, { hint: 'write it like https://sealpin.example.com' });
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new SealpinError('usage', `${where} is not an https: URL`);
  if (url.username !== '' || url.password !== '')
    throw new SealpinError('usage', `${where} contains a user or a password`, {
      hint: 'put the API key in SEALPIN_API_KEY',
    });
  if (url.search !== '' || url.hash !== '')
    throw new SealpinError('usage', `${where} contains a query or a fragment`, {
      hint: 'write it like https://sealpin.example.com, without what follows ? or #',
    });
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}
