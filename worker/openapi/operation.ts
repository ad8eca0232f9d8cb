/** The description of one route: an OpenAPI operation, and the one of HEAD that goes with it. */
import * as v from 'valibot';
import { describe, type Code } from '../../shared/errors.ts';
import { codesOf, isOpen, ownCodesOf, scopesOf, type Bodies, type Route } from './route.ts';
import { headersOfProblem, requestHeaders, undescribable, type ResponseHeaderName } from './headers.ts';
import { schemaOf, type JsonSchema } from './schemas.ts';
import { tagOf } from './tags.ts';

type Response = { description: string; headers?: JsonSchema; content?: JsonSchema; links?: JsonSchema };

const binary = { type: 'string', format: 'binary' };

/** The path of a route as OpenAPI writes it. */
export function openapiPath({ path }: Route): string {
  return path.replaceAll(/:(\w+)/g, '{$1}');
}

/** The operations of a route by method: HEAD comes with a GET that responds with bytes. */
export function operationsOf(route: Route): Record<string, JsonSchema> {
  const operation = describeRoute(route);
  if (route.method !== 'get' || !Object.values(route.responses[200] ?? {}).includes(null))
    return { [route.method]: operation };
  return { get: operation, head: headOf(route, operation) };
}

function describeRoute(route: Route): JsonSchema {
  const { who, operationId, summary, description, headers, body, optionalBody } = route;
  const parameters = parametersOf(route);
  const taken = body ?? optionalBody;
  const accept = headers?.['Accept'];
  const about = [description, accept && `\`Accept\`: ${accept}.`, accessOf(route)].filter((each) => each !== undefined);
  return {
    operationId,
    tags: [tagOf(route.path)],
    summary,
    description: about.join('\n\n'),
    security: isOpen(route) ? [] : (scopesOf(route) ?? [[]]).map((scopes) => ({ [who]: scopes })),
    ...(parameters.length === 0 ? {} : { parameters }),
    requestBody: taken && { required: body !== undefined, content: mediaTypesOf(taken) },
    responses: responsesOf(route),
    'x-codes': ownCodesOf(route),
  };
}

/** The same headers without a body (RFC 9110 section 9.3.2), problems included. */
function headOf(route: Route, { responses, ...rest }: JsonSchema): JsonSchema {
  const { 206: _part, ...all } = responses as Record<string, Partial<Response>>;
  return {
    ...rest,
    operationId: route.operationId.replace(/^get/, 'head'),
    summary: `${route.summary}: the headers alone`,
    description: accessOf(route),
    responses: mapped(all, ({ content: _content, ...each }) => each),
  };
}

const access: Record<Exclude<Route['who'], 'key'>, string> = {
  anybody: 'Needs no credentials.',
  address: 'Needs no credentials; requests are limited by address.',
  operator: 'Needs the token of the operator.',
  monitor: 'Needs the token for metrics.',
};

function accessOf(route: Route): string {
  if (route.who !== 'key') return access[route.who];
  const named = (scopesOf(route) ?? []).map((all) => all.map((scope) => `\`${scope}\``).join(' and '));
  const scopes = named.join(', or ');
  return `Needs an API key${scopes === '' ? '' : ` with ${scopes}`}.`;
}

function parametersOf({ path, params = {}, query, headers = {}, requiredHeaders = {} }: Route): JsonSchema[] {
  return [
    ...Array.from(path.matchAll(/:(\w+)/g), ([, name = '']) => ({
      ...parameter(name, 'path', schemaOf(params[name] ?? v.string())),
      required: true,
    })),
    ...Object.entries(query?.entries ?? {}).map(([name, shape]) => parameter(name, 'query', ofQuery(shape))),
    ...headersOf(requiredHeaders).map((header) => ({ ...header, required: true })),
    ...headersOf(headers),
  ];
}

function headersOf(headers: Record<string, string>): JsonSchema[] {
  return Object.entries(headers)
    .filter(([name]) => !undescribable.has(name))
    .map(([name, description]) =>
      parameter(name, 'header', { description, ...(requestHeaders[name] ?? { type: 'string' }) }),
    );
}

function parameter(name: string, place: string, { description, ...schema }: JsonSchema): JsonSchema {
  return { name, in: place, description, schema };
}

/**
 * A parameter of the query as its client sees it: what its text means, and what it is by default.
 */
function ofQuery(shape: v.GenericSchema): JsonSchema {
  const { default: _text, ...schema } = schemaOf(shape, { typeMode: 'output' });
  const missing = v.safeParse(shape, undefined);
  return missing.success && missing.output !== undefined ? { ...schema, default: missing.output } : schema;
}

function mediaTypesOf(types: Bodies): JsonSchema {
  const plain = (type: string) => (type.endsWith('json') ? { type: 'object' } : binary);
  return mapped(types, (shape, type) => ({ schema: shape === null ? plain(type) : schemaOf(shape) }));
}

/** Makes members of the same names of the values of others. */
function mapped<T>(from: Record<string, T>, valueOf: (value: T, name: string) => unknown): JsonSchema {
  return Object.fromEntries(Object.entries(from).map(([name, value]) => [name, valueOf(value, name)]));
}

/**
 * The words of HTTP for statuses (RFC 9110 section 15): what each means here, the operation or the
 * code says.
 */
const texts: Readonly<Record<number, string>> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  204: 'No Content',
  206: 'Partial Content',
  304: 'Not Modified',
};

/** Results, and references to problems, by status. */
function responsesOf(route: Route): Record<string, JsonSchema> {
  return {
    ...Object.fromEntries(
      codesOf(route)
        .map((code) => describe(code).status)
        .map((status) => [status, { $ref: `#/components/responses/${status}` }]),
    ),
    ...Object.fromEntries(Object.keys(route.responses).map((status) => [status, resultOf(route, Number(status))])),
  };
}

function resultOf(route: Route, status: number): Response {
  const { summary, responses, links } = route;
  const headers = headersOfRoute(route, status);
  return {
    description: texts[status] ?? summary,
    ...(headers.length > 0 ? { headers: references('headers', headers) } : {}),
    ...(responses[status] ? { content: mediaTypesOf(responses[status]) } : {}),
    ...(status < 300 && links !== undefined ? { links: linksOf(links) } : {}),
  };
}

/**
 * The responses with problems of some routes, by the names to which their operations refer: one for
 * each status.
 */
export function problemsOf(routes: readonly Route[]): JsonSchema {
  const all = routes.flatMap((route) => codesOf(route).map((code) => ({ code, route, status: describe(code).status })));
  return Object.fromEntries(
    [...Map.groupBy(all, ({ status }) => status)].map(([status, same]) => {
      const codes = [...new Set(same.map(({ code }) => code))].sort();
      const headers = [...headersOfProblem(codes), ...same.flatMap(({ route }) => headersOfRoute(route, status))];
      headers.push('RateLimit-Policy', 'X-Request-Id');
      const schema = { $ref: '#/components/schemas/Problem' };
      const response: Response = {
        description: 'A problem',
        headers: references('headers', headers),
        content: { 'application/problem+json': { schema, examples: references('examples', codes) } },
      };
      return [status, response];
    }),
  );
}

function references(kind: 'headers' | 'examples', names: readonly (ResponseHeaderName | Code)[]): JsonSchema {
  return Object.fromEntries([...new Set(names)].map((name) => [name, { $ref: `#/components/${kind}/${name}` }]));
}

function linksOf(links: NonNullable<Route['links']>): JsonSchema {
  return mapped(links, (pointers, operationId) => ({
    operationId,
    parameters: mapped(pointers, (pointer) => `$response.body#${pointer}`),
  }));
}

/** The names of the headers that a route sends with a status, but for those of all responses. */
function headersOfRoute({ responseHeaders, commonHeaders = [] }: Route, status: number): ResponseHeaderName[] {
  return [...(responseHeaders?.[status] ?? []), ...commonHeaders];
}
