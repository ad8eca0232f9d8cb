/** A client of the API: operations by name, their responses checked against their rows. */
import { expect } from 'vitest';
import * as v from 'valibot';
import type * as api from '../shared/api.ts';
import { Problem, StoredFile } from '../shared/api.ts';
import { parseApiKey, signToken } from '../shared/crypto/index.ts';
import { codesOf, routes, type ApiRow } from './api-rows.js';
import { adminToken, metricsToken } from './service.ts';

export type Init = {
  method?: string;
  headers?: Record<string, string>;
  body?: BodyInit;
  duplex?: 'half';
  signal?: AbortSignal;
};

/** The credential that a route asks for. */
export function tokenOf({ who }: Pick<ApiRow, 'who'>, apiKey: string): string {
  return who === 'operator' ? adminToken : who === 'monitor' ? metricsToken : apiKey;
}

/** The status and the code of a response that must be a problem, such as `404 not_found`. */
export async function problemOf(asked: Response | Promise<Response>): Promise<string> {
  const response = await asked;
  expect(response.headers.get('Content-Type')).toBe('application/problem+json');
  const problem = v.parse(Problem, await response.json());
  expect(problem.requestId).toBe(response.headers.get('X-Request-Id'));
  expect(problem.status).toBe(response.status);
  return `${response.status} ${problem.code}`;
}

/** The JSON of a response that must have this status. */
export async function jsonOf<T = unknown>(asked: Response | Promise<Response>, status = 200): Promise<T> {
  const response = await asked;
  const text = await response.text();
  expect(response.status, text).toBe(status);
  return JSON.parse(text) as T;
}

export async function bytesOf(asked: Response | Promise<Response>): Promise<Buffer> {
  return Buffer.from(await (await asked).arrayBuffer());
}

const patterns = routes.map((row) => ({ row, path: new RegExp(`^${row.path.replaceAll(/:\w+/g, '[^/]+')}$`) }));

/** The route of a request. */
function routeOf(method: string, url: string): ApiRow | undefined {
  const { pathname } = new URL(url);
  const of = (wanted: string): ApiRow | undefined =>
    patterns.find(({ row, path }) => row.method === wanted && path.test(pathname))?.row;
  return of(method.toLowerCase()) ?? (method === 'HEAD' ? of('get') : undefined);
}

/** Length above which an answer is mostly data, which the tests compare themselves. */
const shapeBytes = 65_536;

/** Every response that a test gets must be one that its route describes. */
async function isDescribed(method: string, url: string, response: Response): Promise<void> {
  const route = routeOf(method, url);
  if (route === undefined) return;
  const type = response.headers.get('Content-Type') ?? '';
  if (type === 'application/problem+json') {
    if (method === 'HEAD') return;
    const { code } = v.parse(Problem, await response.clone().json());
    expect(codesOf(route), `${method} ${route.path} responds ${code}`).toContain(code);
    return;
  }
  const types = route.responses[response.status];
  expect(types, `${method} ${route.path} responds ${response.status}`).toBeDefined();
  if (types === null || types === undefined) return;
  const shape = types[type];
  if (shape === undefined) expect(Object.keys(types)).toContain('*/*');
  else if (shape !== null && method !== 'HEAD' && Number(response.headers.get('Content-Length')) < shapeBytes) {
    const text = await response.clone().text();
    expect(v.safeParse(shape, JSON.parse(text)).issues, text.slice(0, 300)).toBeUndefined();
  }
}

/** An operation as a function: of its parameters and the members of its JSON body, by name. */
type Call<Given, Result> = (given: Given, init?: Init) => Promise<Result>;
type Id = { id: string };
type OfFile = { fileId: string };
type PageParameters = { limit?: number | undefined; cursor?: string | undefined };
type ShareParameters = Omit<v.InferInput<typeof api.ShareRequest>, 'files'> & { files: readonly string[] };
type NewKey = Omit<v.InferInput<typeof api.NewApiKey>, 'scopes'> & { scopes: readonly api.Scope[] };

/** The operations that respond with JSON or with bytes. */
type Calls = {
  getHealth: Call<{ live?: boolean } | void, api.Health>;
  createAccount: Call<Partial<api.NewAccount>, api.NewAccountResponse>;
  listAccounts: Call<(PageParameters & { label?: string }) | void, api.AccountList>;
  getAccountSummary: Call<Id, api.AccountSummary>;
  changeAccount: Call<Id & Partial<api.AccountChanges>, api.AccountSummary>;
  deleteAccount: Call<Id, api.AccountReceipt>;
  backUpAccount: Call<Id & { limit?: number; cursor?: string | undefined }, api.BackupPage>;
  recoverAccount: Call<Id & api.Recover, api.NewAccountResponse>;
  getAccount: Call<void, api.AccountDetails>;
  rotateAccount: Call<{ publicKey: string }, api.Rotation>;
  createKey: Call<NewKey, api.NewApiKeyResponse>;
  listKeys: Call<void, api.ApiKeyList>;
  revokeKey: Call<Id & { cascade?: boolean; self?: boolean; destroy?: boolean }, api.Revoked>;
  listEvents: Call<{ limit?: number; after?: string | undefined } | void, api.EventList>;
  listUsage: Call<PageParameters | void, api.UsageList>;
  listAccountUsage: Call<Id & PageParameters, api.UsageList>;
  listFiles: Call<(PageParameters & Partial<Record<string, string | number>>) | void, api.FileList>;
  getFile: Call<OfFile & { data: false }, StoredFile>;
  getFileContent: Call<OfFile, Buffer>;
  getByCid: Call<{ cid: string }, Buffer>;
  storePlain: Call<{ cid?: string; expiresAt?: string; provisional?: boolean }, api.NewlyStoredFile>;
  storeEncrypted: Call<{ expiresAt?: string; provisional?: boolean }, api.NewlyStoredFile>;
  changeFile: Call<OfFile & Partial<api.FileChange>, StoredFile>;
  deleteFile: Call<OfFile, api.Receipt>;
  deleteFiles: Call<{ files: string[] }, api.DeletedFiles>;
  getReceipt: Call<OfFile, api.Receipt>;
  verifyFile: Call<OfFile, v.InferOutput<typeof api.Verification>>;
  listUploads: Call<void, api.ResumableUploadList>;
  createShare: Call<ShareParameters, api.Share>;
  listShares: Call<PageParameters | void, api.ShareList>;
  getShare: Call<{ shareId: string }, api.ShareStatus>;
  changeShare: Call<{ shareId: string } & api.ShareChange, api.Share>;
  openShare: Call<{ shareId: string }, api.OpenedShare>;
  deleteShare: Call<{ shareId: string }, api.ShareReceipt>;
  denyCid: Call<{ cid: string; cursor?: string | undefined }, api.DenylistReceipt>;
  getDeniedCid: Call<{ cid: string }, api.DeniedCid>;
  allowCid: Call<{ cid: string; cursor?: string | undefined }, api.DenylistReceipt>;
  listPins: Call<(PageParameters & { state?: string | undefined; service?: string }) | void, api.PinPage>;
  repairPins: Call<void, api.Repair>;
  createMigration: Call<{ from: string; to: string }, api.Migration>;
  listMigrations: Call<void, api.MigrationList>;
  listStrays: Call<void, api.StrayList>;
  removeStrays: Call<{ service: string }, api.StrayList>;
  cancelMigration: Call<{ from: string; to: string }, api.Migration>;
};

type Given = Record<string, unknown>;

function operationRow(operationId: string): ApiRow {
  const route = routes.find((each) => each.operationId === operationId);
  if (route === undefined) throw new Error(`there is no operation ${operationId}`);
  return route;
}

/** The path of an operation with its parameters; what else is given is left for its body. */
function pathAndRest(operationId: string, given: Given): { path: string; rest: Given } {
  const route = operationRow(operationId);
  const rest = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const taken = (name: string): string => {
    const value = rest[name];
    delete rest[name];
    return String(value);
  };
  const path = route.path.replaceAll(/:(\w+)/g, (_, name: string) => taken(name));
  const names = Object.keys(route.query?.entries ?? {}).filter((name) => name in rest);
  const query = new URLSearchParams(names.map((name) => [name, taken(name)])).toString();
  return { path: query === '' ? path : `${path}?${query}`, rest };
}

/** The path of an operation. @param given its parameters, those of its query included */
export function pathOf(operationId: string, given: Given = {}): string {
  const { path, rest } = pathAndRest(operationId, given);
  const unknown = Object.keys(rest);
  if (unknown.length > 0) throw new Error(`${operationId} has no parameter ${unknown.join()}`);
  return path;
}

/** Requests with an API key, or with none. */
export type Client = Calls & {
  apiKey: string;
  (path: string, init?: Init): Promise<Response>;
  json(path: string, body: unknown, method?: string): Promise<Response>;
  /**
   * The response of an operation, which may be a problem.
   * @param given its parameters, and the members of its JSON body
   */
  ask(operationId: string, given?: Given, init?: Init): Promise<Response>;
  store(
    mode: 'encrypted' | 'plain',
    bytes: Uint8Array | string,
    o?: { filename?: string; type?: string },
  ): Promise<StoredFile>;
  /** The bytes of a file. */
  read(fileId: string): Promise<Buffer>;
  /** A client with a new key of these scopes. */
  withKey(scopes: readonly api.Scope[], more?: Partial<NewKey>): Promise<Client & { id: string }>;
};

/** The operations as functions, which expect that they succeed. */
function callsOf(ask: Client['ask']): Calls {
  const operations = routes.flatMap(({ operationId: name, responses }) => {
    if (name === undefined) return [];
    const call = async (given?: Given, init?: Init): Promise<unknown> => {
      const response = await ask(name, given, init);
      const bytes = await bytesOf(response);
      const said = `${name} responds ${response.status} ${bytes.toString('utf8', 0, 300)}`;
      expect(response.ok, said).toBe(true);
      const shape = responses[response.status]?.['application/json'];
      if (shape === undefined || shape === null) return bytes;
      const value: unknown = JSON.parse(bytes.toString());
      expect(v.safeParse(shape, value).issues, said).toBeUndefined();
      return value;
    };
    return [[name, call]];
  });
  return Object.fromEntries(operations) as Calls;
}

/**
 * A client of a service.
 *
 * @param apiKey or a token of the operator; without it, requests have no authorization
 * @param headers of every request
 */
export function client(url: string, apiKey?: string, headers: Record<string, string> = {}): Client {
  const call = async (path: string, init: Init = {}): Promise<Response> => {
    const authorization = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    const all = { ...authorization, ...headers, ...init.headers };
    const response = await fetch(`${url}${path}`, { ...init, headers: all });
    await isDescribed(init.method ?? 'GET', `${url}${path}`, response);
    return response;
  };
  const json = (path: string, body: unknown, method = 'POST'): Promise<Response> =>
    call(path, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const ask = (operationId: string, given: Given = {}, init: Init = {}): Promise<Response> => {
    const { path, rest } = pathAndRest(operationId, given);
    const { body = {}, ...row } = operationRow(operationId);
    const method = row.method.toUpperCase();
    const onlyJson = Object.keys(body).join() === 'application/json' && init.body === undefined;
    if (!onlyJson && Object.keys(rest).length === 0) return call(path, { method, ...init });
    const headers = { 'Content-Type': 'application/json', ...init.headers };
    return call(path, { method, body: JSON.stringify(rest), ...init, headers });
  };
  const made: Client = Object.assign(call, callsOf(ask), {
    apiKey: apiKey ?? '',
    json,
    ask,
    async store(
      mode: 'encrypted' | 'plain',
      bytes: Uint8Array | string,
      { filename = 'näme.bin', type = 'image/png' } = {},
    ) {
      const disposition = `attachment; filename*=UTF-8''${encodeURIComponent(filename)}`;
      const headers = { 'Content-Type': type, 'Content-Disposition': disposition };
      const store = mode === 'plain' ? made.storePlain : made.storeEncrypted;
      return v.parse(StoredFile, await store({}, { headers, body: bytes as BodyInit }));
    },
    async read(fileId: string) {
      const response = await ask('getFile', { fileId }, { headers: { Accept: 'application/octet-stream' } });
      expect(response.status).toBe(200);
      return await bytesOf(response);
    },
    async withKey(scopes: readonly api.Scope[], more: Partial<NewKey> = {}) {
      const { apiKey: text, key } = await made.createKey({ label: 'k', scopes, ...more });
      return Object.assign(client(url, text), { id: key.id });
    },
  });
  return made;
}

/** The path of a signed URL with these claims, which lasts a minute unless they say otherwise. */
export async function signedPath(apiKey: string, claims: object): Promise<string> {
  const key = await parseApiKey(apiKey);
  if (key === undefined) throw new Error('this is no API key');
  const exp = Math.floor(Date.now() / 1000) + 60;
  return pathOf('getSigned', { id: key.account, token: signToken(key, { exp, ...claims }) });
}
