/** Which service, with which API key, and what it answers. */
import {
  AccountAnswer,
  ApiKeyList,
  FileList,
  Health,
  type NewApiKey,
  NewApiKeyAnswer,
  parseAnswer,
  Problem,
  Receipt,
  Revoked,
  StoredFile,
} from '../../shared/api.ts';
import { isApiKeyText } from '../../shared/crypto/keys/api-key-text.ts';
import { isCode, SealpinError } from '../../shared/errors.ts';
import { type Config, readConfig } from './config.ts';
import type { Context } from '../context.ts';
import { type Answer, headerOf, isLoopback, readAnswer, send, type SendOptions } from './http.ts';
import { visible } from '../terminal/output.ts';

export type Service = {
  /** Ends in `/`. */
  readonly url: URL;
  readonly apiKey: string | undefined;
  /** Where the API key comes from, for what is said when the service refuses it. */
  readonly keyFrom?: KeyFrom | undefined;
  /** Whether it is the local service of this data directory. */
  readonly local: boolean;
  readonly gateways: readonly URL[];
};

type KeyFrom = 'SEALPIN_API_KEY' | '"apiKey" in config.json' | 'local/secrets.json';

/**
 * The service: `--service`, `SEALPIN_SERVICE`, the configuration, else the local one.
 * The API key: `SEALPIN_API_KEY`, else the configuration's, which goes to the configured service only, else the local one's.
 *
 * @returns `url` undefined when no service is named and none runs here
 * @throws config_invalid, usage
 */
export async function findService(context: Context): Promise<Partial<Service> & { readonly gateways: readonly URL[] }> {
  const config = await readConfig(context.dataDir);
  if (config.warning !== undefined) context.output.warn(config.warning);
  const gateways = config.gateways.map((text) => parseServiceUrl(text, '"gateways" in config.json'));
  const { localService } = await import('../local/state.ts');
  const local = await localService(context.dataDir);
  const localUrl = local === undefined ? undefined : parseServiceUrl(local.url, 'local/run.json');
  const named = namedService(context, config);
  const url = named ?? localUrl;
  if (url === undefined) return { gateways };
  const isLocal = url.href === localUrl?.href;
  const given = apiKeyFor(url, context, config);
  if (given !== undefined) return { url, ...given, local: isLocal, gateways };
  const own = isLocal ? local?.apiKey : undefined;
  return { url, apiKey: own, keyFrom: own === undefined ? undefined : 'local/secrets.json', local: isLocal, gateways };
}

function namedService(context: Context, config: Config): URL | undefined {
  if (context.service !== undefined) return parseServiceUrl(context.service, '--service');
  const { SEALPIN_SERVICE: fromEnvironment } = context.env;
  if (fromEnvironment !== undefined) return parseServiceUrl(fromEnvironment, 'SEALPIN_SERVICE');
  return config.service === undefined ? undefined : parseServiceUrl(config.service, '"service" in config.json');
}

function apiKeyFor(url: URL, context: Context, config: Config): { apiKey: string; keyFrom: KeyFrom } | undefined {
  const given = context.env['SEALPIN_API_KEY'];
  if (given !== undefined) return checkApiKey(given, 'SEALPIN_API_KEY');
  // A key that was stored for one service must not be handed to another one because of a flag.
  if (config.apiKey === undefined || config.service === undefined) return undefined;
  if (parseServiceUrl(config.service, '"service" in config.json').href !== url.href) return undefined;
  return checkApiKey(config.apiKey, '"apiKey" in config.json');
}

/** The shape of an API key (its checksum is the service's business). The text is never repeated. */
function checkApiKey(text: string, where: KeyFrom): { apiKey: string; keyFrom: KeyFrom } {
  if (!isApiKeyText(text))
    throw new SealpinError('unauthorized', `${where} is not an API key`, {
      hint: 'an API key is sp_ and 71 letters and digits',
    });
  return { apiKey: text, keyFrom: where };
}

/**
 * The address of a service or gateway.
 *
 * @param where it was found, for the message
 * @throws usage
 */
export function parseServiceUrl(text: string, where: string): URL {
  let url;
  try {
    url = new URL(text);
  } catch {
    throw new SealpinError('usage', `${where} is not a URL`, { hint: 'such as https://sealpin.example.com' });
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new SealpinError('usage', `${where} is not an https: URL`);
  if (url.username !== '' || url.password !== '')
    throw new SealpinError('usage', `${where} has a user or a password in it`, {
      hint: 'the API key goes into SEALPIN_API_KEY',
    });
  if (url.search !== '' || url.hash !== '') throw new SealpinError('usage', `${where} has a query or a fragment`);
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

/**
 * The service, ready for requests that need an API key.
 *
 * @throws service_unreachable when there is none, unauthorized without a key, usage when the key would travel in the clear
 */
export async function authorizedService(context: Context): Promise<Service & { readonly apiKey: string }> {
  const { url, apiKey, keyFrom, local = false, gateways } = await findService(context);
  if (url === undefined) throw noService();
  if (apiKey === undefined) {
    throw new SealpinError('unauthorized', `there is no API key for ${url.host}`, {
      hint: 'set SEALPIN_API_KEY, or write "service" and "apiKey" into config.json of the data directory',
    });
  }
  if (url.protocol === 'http:' && !isLoopback(url)) {
    throw new SealpinError('usage', `the API key would go to ${url.host} in the clear`, { hint: 'use https:' });
  }
  return { url, apiKey, keyFrom, local, gateways };
}

/** @param hint instead of the usual one, which starts a service */
export function noService(hint?: string): SealpinError {
  return new SealpinError(
    'service_unreachable',
    'no service is configured, and no local service is running',
    hint === undefined ? {} : { hint },
  );
}

type Caller = Pick<Service, 'url' | 'apiKey' | 'keyFrom'>;

/** One request to the API; an answer that is not a success is thrown as the problem it tells. */
export async function call(service: Caller, path: string, o: SendOptions): Promise<Answer> {
  const headers = {
    ...o.headers,
    accept: o.headers?.['accept'] ?? 'application/json',
    ...(service.apiKey === undefined ? {} : { authorization: `Bearer ${service.apiKey}` }),
  };
  const answer = await send(new URL(path, service.url), { ...o, headers });
  if (answer.status >= 200 && answer.status < 300) return answer;
  throw await problem(answer, service);
}

async function problem(answer: Answer, { url, keyFrom }: Caller): Promise<SealpinError> {
  const text = await readAnswer(answer);
  if (answer.status === 503 && isDegraded(text)) {
    return new SealpinError('pinning_unavailable', `${url.host} is degraded: it cannot store or read at the moment`);
  }
  let found;
  try {
    found = parseJson(text, Problem, url);
  } catch (error) {
    return new SealpinError(
      'service_answer',
      answer.status >= 500
        ? `${url.host} answered with status ${answer.status}, without a reason`
        : `${url.host} is not a Sealpin service (status ${answer.status})`,
      {
        hint: 'is the address right?',
        cause: error,
      },
    );
  }
  // A newer service may have codes that we do not know; its own words are still the best.
  const code = isCode(found.code) ? found.code : 'service_answer';
  const hint = keyHint(code, keyFrom) ?? found.hint;
  const request = code === 'internal' && found.requestId !== undefined ? ` (request ${visible(found.requestId)})` : '';
  const retryAfterSeconds = Number(headerOf(answer, 'retry-after')) || undefined;
  return new SealpinError(code, `${visible(found.detail ?? found.title)}${request}`, {
    ...(hint === undefined ? {} : { hint: visible(hint) }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}

/** Whether this is the health of a service that runs, and whose storage or pinning service does not. */
function isDegraded(text: string): boolean {
  try {
    return parseAnswer(Health, JSON.parse(text)).status === 'degraded';
  } catch {
    return false;
  }
}

/** What to do about an API key that the service refuses, by where it was found. */
function keyHint(code: string, keyFrom: KeyFrom | undefined): string | undefined {
  if (code === 'insufficient_scope' && keyFrom !== undefined)
    return `the key is that of ${keyFrom}; a key with the scope keys makes others: sealpin key create <label> --scopes …`;
  if (code !== 'unauthorized') return undefined;
  if (keyFrom !== 'local/secrets.json') return `check ${keyFrom ?? 'the API key'}`;
  return (
    'this is the key in local/secrets.json: set SEALPIN_API_KEY to another key of the account, or, for a new account, ' +
    'stop the service, remove "account" and "apiKey" from that file and start it again; decrypt works without a key'
  );
}

async function json<S extends Parameters<typeof parseAnswer>[0]>(
  answer: Answer,
  shape: S,
  url: URL,
): Promise<ReturnType<typeof parseAnswer<S>>> {
  return parseJson(await readAnswer(answer, 16 * 1024 * 1024), shape, url);
}

function parseJson<S extends Parameters<typeof parseAnswer>[0]>(
  text: string,
  shape: S,
  url: URL,
): ReturnType<typeof parseAnswer<S>> {
  try {
    return parseAnswer(shape, JSON.parse(text));
  } catch (error) {
    throw new SealpinError('service_answer', `${url.host} gave an answer that is not Sealpin's`, {
      hint: 'is the address right?',
      cause: error,
    });
  }
}

/**
 * A page with more to come and nothing on it: a service could keep us asking for ever.
 *
 * @throws service_answer
 */
export function refuseEmptyPage({ files, cursor }: FileList): void {
  if (cursor !== undefined && files.length === 0)
    throw new SealpinError('service_answer', 'the service gives empty pages of its list without an end');
}

export interface Api {
  health(): Promise<Health>;
  /** Stores bytes as they are. `cid`, if known, is checked by the service before it keeps anything. */
  store(
    body: { stream: AsyncIterable<Uint8Array>; bytes: number | undefined },
    o: { cid: string | undefined; onSent: () => void },
  ): Promise<StoredFile>;
  list(o: { cursor?: string | undefined; limit?: number; cid?: string }): Promise<FileList>;
  remove(fileId: string): Promise<Receipt>;
  account(): Promise<AccountAnswer>;
  createKey(key: NewApiKey): Promise<NewApiKeyAnswer>;
  listKeys(): Promise<ApiKeyList>;
  /** `self`: also the key of this request, `destroy`: also the last key with `read` or `keys`. */
  revokeKey(id: string, o: { cascade: boolean; destroy: boolean; self: boolean }): Promise<Revoked>;
}

/** The routes that the command line uses (worker/README.md). */
export function api(service: Caller, context: Pick<Context, 'signal' | 'pace'>): Api {
  const common = { signal: context.signal, pace: context.pace };
  const { url } = service;
  return {
    async health() {
      return json(await call({ url, apiKey: undefined }, 'v1/health', { method: 'GET', ...common }), Health, url);
    },
    async store(body, o) {
      const path = o.cid === undefined ? 'v1/storage/plain' : `v1/storage/plain?cid=${o.cid}`;
      const headers = { 'content-type': 'application/octet-stream' };
      return json(
        await call(service, path, { method: 'POST', headers, body, onSent: o.onSent, ...common }),
        StoredFile,
        url,
      );
    },
    async list(o) {
      const query = new URLSearchParams(
        Object.entries(o).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
      );
      return json(await call(service, `v1/storage?${query}`, { method: 'GET', ...common }), FileList, url);
    },
    async remove(fileId) {
      return json(await call(service, `v1/storage/${fileId}`, { method: 'DELETE', ...common }), Receipt, url);
    },
    async account() {
      return json(await call(service, 'v1/account', { method: 'GET', ...common }), AccountAnswer, url);
    },
    async createKey(key) {
      const body = Buffer.from(JSON.stringify(key));
      return json(
        await call(service, 'v1/keys', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: { stream: once(body), bytes: body.length },
          ...common,
        }),
        NewApiKeyAnswer,
        url,
      );
    },
    async listKeys() {
      return json(await call(service, 'v1/keys', { method: 'GET', ...common }), ApiKeyList, url);
    },
    async revokeKey(id, o) {
      const query = new URLSearchParams(Object.entries(o).flatMap(([name, value]) => (value ? [[name, 'true']] : [])));
      return json(
        await call(service, `v1/keys/${encodeURIComponent(id)}?${query}`, { method: 'DELETE', ...common }),
        Revoked,
        url,
      );
    },
  };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
