/**
 * A service that behaves as Pinata documents it: it refuses requests that its OpenAPI documents do
 * not know, answers in their shapes, takes uploads by tusd, and makes files of CARs a while after
 * the last byte.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { request as connect, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { carHeader, carReader, cidFromBytes, fileFromCar } from '../../../../shared/ipfs/index.ts';
import { startLoopbackServer } from '../../../../testkit/loopback-server.ts';
import { spawnTusd } from '../../../../testkit/programs/tusd.ts';
import documents from './pinata.json' with { type: 'json' };
import { itemOf } from '../../../../testkit/present.ts';

/** Part of JSON schemas that the documents use. */
type Schema = { type?: string; enum?: unknown[]; properties?: Record<string, Schema>; items?: Schema };
type Parameter = { name: string; in: string; schema: Schema };
type Operation = {
  parameters?: Parameter[];
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>;
};

type StoredFile = { id: string; name: string; cid: string | undefined; asked: number };

export type PinataServer = {
  /** The roots of the API and of uploads. */
  url: string;
  uploads: string;
  token: string;
  files: StoredFile[];
  /** Requests that did not fit the documents. */
  problems: string[];
  /** Makes a CID of the root of a CAR; undefined: it never gets one. */
  cidOf: (root: string) => string | undefined;
  close(): Promise<void>;
};

/** Number of times that a file is listed without CID before its CAR is processed. */
const processedAfter = 2;
/**
 * Keys that the metadata of an upload may have (docs.pinata.cloud/files/uploading-files, "Resumable
 * Uploads", and the SDK 2.5.6).
 */
const metadataKeys = ['filename', 'filetype', 'network', 'group_id', 'keyvalues', 'car', 'cid_version', 'expires_at'];
/** Chunks must be smaller than 50 MB. */
const maxChunkBytes = 50_000_000;

export async function startPinata(): Promise<PinataServer> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-pinata-'));
  const tusd = await spawnTusd(dir);
  const token = 'a-jwt-of-the-tests';
  const files: StoredFile[] = [];
  const problems: string[] = [];
  const metadata = new Map<string, Record<string, string>>();

  function answer(response: ServerResponse, operation: Operation, status: number, body: unknown): void {
    const schema = operation.responses[status]?.content?.['application/json']?.schema;
    if (schema !== undefined) problems.push(...problemsOf(schema, body, 'response'));
    response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body));
  }

  function api(request: IncomingMessage, response: ServerResponse, url: URL): void {
    const found = operationOf(request.method ?? '', url);
    if (found === undefined) {
      problems.push(`${request.method} ${url.pathname} is not documented`);
      return void response.writeHead(404).end();
    }
    const { operation, values } = found;
    problems.push(...problemsOfParameters(operation, url, values));
    if (request.method === 'DELETE') {
      const index = files.findIndex(({ id }) => id === values['id']);
      if (index === -1) return void response.writeHead(404).end('{"error":"not found"}');
      files.splice(index, 1);
      return answer(response, operation, 200, { data: null });
    }
    const isPending = url.searchParams.get('cidPending') === 'true';
    const name = url.searchParams.get('name');
    const listed = files.filter((file) => {
      const hasCid = file.asked > processedAfter && file.cid !== undefined;
      // A filter by name finds what contains it.
      if (name !== null && !file.name.includes(name)) return false;
      if (isPending) file.asked += 1;
      return isPending !== hasCid;
    });
    const shown = listed.map(({ id, name, cid }) => ({
      id,
      name,
      ...(isPending ? {} : { cid }),
      size: 1,
      number_of_files: 1,
    }));
    answer(response, operation, 200, { data: { files: shown, next_page_token: '' } });
  }

  async function upload(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const id = url.pathname === '/v3/files' ? '' : basename(url.pathname);
    if (Number(request.headers['content-length'] ?? 0) >= maxChunkBytes) problems.push('a chunk of 50 MB or more');
    const headers = { ...request.headers, host: new URL(tusd.endpoint).host };
    const onward = connect(`${tusd.endpoint}${id}`, { method: request.method, headers });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
    const [tus] = await new Promise<[IncomingMessage]>((resolve) => onward.once('response', (each) => resolve([each])));
    const out = { ...tus.headers };
    const created = basename(out.location ?? '');
    if (created !== '') {
      out.location = `/uploads/v3/files/${created}`;
      metadata.set(created, metadataOf(String(request.headers['upload-metadata'] ?? '')));
    }
    const known = metadata.get(id);
    if (known !== undefined && request.method === 'PATCH') {
      const length = (await fetch(`${tusd.endpoint}${id}`, { method: 'HEAD', headers: { 'tus-resumable': '1.0.0' } }))
        .headers;
      if (length.get('upload-offset') === length.get('upload-length')) await stored(id, known);
    }
    response.writeHead(tus.statusCode ?? 500, out);
    tus.pipe(response);
  }

  async function stored(id: string, known: Record<string, string>): Promise<void> {
    for (const key of Object.keys(known)) if (!metadataKeys.includes(key)) problems.push(`metadata ${key}`);
    if (known['network'] !== 'public' || known['car'] !== 'true') problems.push('not a public CAR');
    const root = await rootOf(new Uint8Array(await readFile(join(dir, id))));
    files.push({ id: `file-${id}`, name: known['filename'] ?? '', cid: server.cidOf(root), asked: 0 });
  }

  const http = await startLoopbackServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://loopback');
    if (request.headers.authorization !== `Bearer ${token}`) return void response.writeHead(401).end('{"error":"no"}');
    const isUpload = url.pathname.startsWith('/uploads/');
    url.pathname = url.pathname.replace(/^\/(uploads|api)\//, '/');
    if (!isUpload) return api(request, response, url);
    upload(request, response, url).catch(() => response.destroy());
  });
  const server: PinataServer = {
    url: `${http.url}/api/v3`,
    uploads: `${http.url}/uploads/v3`,
    token,
    files,
    problems,
    cidOf: (root) => root,
    async close() {
      await http.close();
      await tusd.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
  return server;
}

/** The root of a CAR that has one, and every block of its file. */
async function rootOf(car: Uint8Array<ArrayBuffer>): Promise<string> {
  const first = await carReader(new Blob([car]).stream()).next();
  const root = first && cidFromBytes(first.cid);
  if (!root) throw new Error('a CAR without blocks');
  const header = carHeader(root);
  if (!Buffer.from(car.subarray(0, header.length)).equals(header)) throw new Error('a CAR with another root');
  await new Response(fileFromCar(root.text, new Blob([car]).stream())).arrayBuffer();
  return root.text;
}

function metadataOf(header: string): Record<string, string> {
  const pairs = header.split(',').map((pair) => pair.split(' '));
  return Object.fromEntries(pairs.map(([key = '', text = '']) => [key, Buffer.from(text, 'base64').toString()]));
}

/** The operation for a request, and the values in its path. */
function operationOf(method: string, url: URL): { operation: Operation; values: Record<string, string> } | undefined {
  const { servers, paths } = documents.api as unknown as {
    servers: { url: string }[];
    paths: Record<string, Record<string, Operation>>;
  };
  const parts = url.pathname.split('/');
  for (const [template, operations] of Object.entries(paths)) {
    const wanted = `${new URL(itemOf(servers, 0).url).pathname}${template}`.split('/');
    const isMatch =
      wanted.length === parts.length && wanted.every((each, index) => /^\{.*\}$/.test(each) || each === parts[index]);
    const operation = operations[method.toLowerCase()];
    if (!isMatch || operation === undefined) continue;
    const names = wanted.flatMap((each, index) =>
      /^\{.*\}$/.test(each) ? [[each.slice(1, -1), parts[index] ?? ''] as const] : [],
    );
    return { operation, values: Object.fromEntries(names) };
  }
  return undefined;
}

function problemsOfParameters({ parameters = [] }: Operation, url: URL, values: Record<string, string>): string[] {
  const given = [...url.searchParams].map(([name, text]) => [name, text, 'query'] as const);
  const inPath = Object.entries(values).map(([name, text]) => [name, text, 'path'] as const);
  return [...given, ...inPath].flatMap(([name, text, place]) => {
    const known = parameters.find((each) => each.name === name && each.in === place);
    if (known === undefined) return [`the parameter ${name} is not documented`];
    const { type } = known.schema;
    const isBare = type === 'integer' || type === 'number' || type === 'boolean';
    return problemsOf(known.schema, isBare ? JSON.parse(text) : text, name);
  });
}

/**
 * Lists the differences between a value and a schema. Members that the schema does not name are
 * allowed, as in the documents.
 */
function problemsOf(schema: Schema, value: unknown, at: string): string[] {
  if (schema.enum !== undefined && !schema.enum.includes(value)) return [`${at} is none of ${schema.enum.join(', ')}`];
  const actual = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const expected = schema.type === 'integer' ? 'number' : schema.type;
  if (expected !== undefined && actual !== expected) return [`${at} is ${actual}, and documented as ${schema.type}`];
  if (Array.isArray(value))
    return value.flatMap((each) => (schema.items ? problemsOf(schema.items, each, `${at}[]`) : []));
  const members = Object.entries(schema.properties ?? {}).filter(([name]) => Object.hasOwn(Object(value), name));
  return members.flatMap(([name, member]) =>
    problemsOf(member, (value as Record<string, unknown>)[name], `${at}.${name}`),
  );
}
