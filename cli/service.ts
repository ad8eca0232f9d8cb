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
} from '../shared/api.ts';
import { isCode, SealpinError } from '../shared/errors.ts';
import { type Config, readConfig } from './config.ts';
import type { Context } from './context.ts';
import { type Answer, headerOf, isLoopback, readAnswer, send, type SendOptions } from './http.ts';
import { visible } from './output.ts';

export type Service = {
  /** Ends in `/`. */
  readonly url: URL;
  readonly apiKey: string | undefined;
  /** Whether it is the local service of this data directory. */
  readonly local: boolean;
  readonly gateways: readonly URL[];
};

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
  const { localService } = await import('./local/state.ts');
  const local = await localService(context.dataDir);
  const localUrl = local === undefined ? undefined : parseServiceUrl(local.url, 'local/run.json');
  const named = namedService(context, config);
  const url = named ?? localUrl;
  if (url === undefined) return { gateways };
  const isLocal = url.href === localUrl?.href;
  const apiKey = apiKeyFor(url, context, config) ?? (isLocal ? local?.apiKey : undefined);
  return { url, apiKey, local: isLocal, gateways };
}

function namedService(context: Context, config: Config): URL | undefined {
  if (context.service !== undefined) return parseServiceUrl(context.service, '--service');
  const { SEALPIN_SERVICE: fromEnvironment } = context.env;
  if (fromEnvironment !== undefined) return parseServiceUrl(fromEnvironment, 'SEALPIN_SERVICE');
  return config.service === undefined ? undefined : parseServiceUrl(config.service, '"service" in config.json');
}

function apiKeyFor(url: URL, context: Context, config: Config): string | undefined {
  const given = context.env['SEALPIN_API_KEY'];
  if (given !== undefined) return checkApiKey(given, 'SEALPIN_API_KEY');
  // A key that was stored for one service must not be handed to another one because of a flag.
  if (config.apiKey === undefined || config.service === undefined) return undefined;
  if (parseServiceUrl(config.service, '"service" in config.json').href !== url.href) return undefined;
  return checkApiKey(config.apiKey, '"apiKey" in config.json');
}

/** The shape of an API key (its checksum is the service's business). The text is never repeated. */
function checkApiKey(text: string, where: string): string {
  if (!/^sp_[0-9A-Za-z]{71}$/.test(text))
    throw new SealpinError('unauthorized', `${where} is not an API key`, {
      hint: 'an API key is sp_ and 71 letters and digits',
    });
  return text;
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
  const { url, apiKey, local = false, gateways } = await findService(context);
  if (url === undefined) throw noService();
  if (apiKey === undefined) {
    throw new SealpinError('unauthorized', `there is no API key for ${url.host}`, {
      hint: 'set SEALPIN_API_KEY, or write "service" and "apiKey" into config.json of the data directory',
    });
  }
  if (url.protocol === 'http:' && !isLoopback(url)) {
    throw new SealpinError('usage', `the API key would go to ${url.host} in the clear`, { hint: 'use https:' });
  }
  return { url, apiKey, local, gateways };
}

export function noService(): SealpinError {
  return new SealpinError('service_unreachable', 'no service is running here and none is configured', {
    hint: 'start one with: sealpin start --detach (or name one with --service)',
  });
}

/** One request to the API; an answer that is not a success is thrown as the problem it tells. */
export async function call(service: Pick<Service, 'url' | 'apiKey'>, path: string, o: SendOptions): Promise<Answer> {
  const headers = {
    ...o.headers,
    accept: o.headers?.['accept'] ?? 'application/json',
    ...(service.apiKey === undefined ? {} : { authorization: `Bearer ${service.apiKey}` }),
  };
  const answer = await send(new URL(path, service.url), { ...o, headers });
  if (answer.status >= 200 && answer.status < 300) return answer;
  throw await problem(answer, service.url);
}

async function problem(answer: Answer, url: URL): Promise<SealpinError> {
  const text = await readAnswer(answer);
  let found;
  try {
    found = parseJson(text, Problem, url);
  } catch (error) {
    return new SealpinError(
      'service_answer',
      `${url.host} answers with status ${answer.status}, and not as Sealpin does`,
      { hint: 'is the address right?', cause: error },
    );
  }
  // A newer service may know codes that we do not; its words are still the best there are.
  const code = isCode(found.code) ? found.code : 'service_answer';
  const hint = code === 'unauthorized' ? 'check SEALPIN_API_KEY or the configuration' : found.hint;
  const request = code === 'internal' && found.requestId !== undefined ? ` (request ${visible(found.requestId)})` : '';
  const retryAfterSeconds = Number(headerOf(answer, 'retry-after')) || undefined;
  return new SealpinError(code, `${visible(found.detail ?? found.title)}${request}`, {
    ...(hint === undefined ? {} : { hint: visible(hint) }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
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
  revokeKey(id: string, o: { cascade: boolean; destroy: boolean }): Promise<Revoked>;
}

/** The routes that the command line uses (worker/README.md). */
export function api(service: Pick<Service, 'url' | 'apiKey'>, context: Pick<Context, 'signal' | 'pace'>): Api {
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
