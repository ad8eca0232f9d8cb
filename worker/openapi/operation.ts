/** The description of one route: an OpenAPI operation, and the one of HEAD that goes with it. */
import * as v from 'valibot';
import { describe, type Code } from '../../shared/errors.ts';
import { codesOf, scopesOf, type Bodies, type Route } from './route.ts';
import { headersOfProblem, requestHeaders, undescribable, type ResponseHeaderName } from './headers.ts';
import { exampleOf, schemaOf, type JsonSchema } from './schemas.ts';
import { tagOf } from './tags.ts';

type Response = { description: string; headers: JsonSchema; content?: JsonSchema; links?: JsonSchema };

const binary = { type: 'string', format: 'binary' };

/** The path of a route as OpenAPI writes it. */
export function pathOf({ path }: Route): string {
  return path.replaceAll(/:(\w+)/g, '{$1}');
}

/** The operations of a route by method: HEAD comes with a GET that responds with bytes. */
export function operationsOf(route: Route): Record<string, JsonSchema> {
  const operation = describeRoute(route);
  if (route.method !== 'get' || !Object.values(route.responses[200] ?? {}).includes(null))
    return { [route.method]: operation };
  return { get: operation, head: headOf(operation) };
}

function describeRoute(route: Route): JsonSchema {
  const { who, operationId, summary, body, optionalBody } = route;
  const parameters = parametersOf(route);
  return {
    ...(operationId === undefined ? {} : { operationId }),
    tags: [tagOf(route.path)],
    summary,
    description: descriptionOf(route),
    security: who === 'anybody' || who === 'address' ? [] : [{ [who]: scopesOf(route) ?? [] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: contentOf(body) } }),
    ...(optionalBody === undefined ? {} : { requestBody: { required: false, content: contentOf(optionalBody) } }),
    responses: responsesOf(route),
  };
}

/** The same headers without a body (RFC 9110 section 9.3.2), problems included. */
function headOf({ operationId, summary, responses, ...rest }: JsonSchema): JsonSchema {
  const all = Object.entries(responses as Record<string, Response>);
  return {
    ...(typeof operationId === 'string' ? { operationId: operationId.replace(/^get/, 'head') } : {}),
    ...rest,
    summary: `${String(summary)}: the headers alone`,
    responses: Object.fromEntries(
      all
        .filter(([status]) => status !== '206')
        .map(([status, { description, headers }]) => [status, { description, headers }]),
    ),
  };
}

const access: Record<Route['who'], string> = {
  anybody: 'Needs no credentials.',
  address: 'Needs no credentials; requests are limited by address.',
  operator: 'Needs the token of the operator.',
  monitor: 'Needs the token for metrics.',
  key: 'Needs an API key',
};

function descriptionOf(route: Route): string {
  const { who, description, headers } = route;
  const needed = (scopesOf(route) ?? []).map((scope) => `\`${scope}\``);
  const scope = who !== 'key' ? '' : needed.length === 0 ? '.' : ` with the scope ${needed.join(' and ')}.`;
  const accept = headers?.['Accept'];
  return [
    ...(description === undefined ? [] : [description]),
    ...(accept === undefined ? [] : [`\`Accept\`: ${accept}.`]),
    `${access[who]}${scope}`,
  ].join('\n\n');
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
  return { name, in: place, ...(description === undefined ? {} : { description }), schema };
}

/** A parameter of the query as its client sees it: what its text means, and what it is by default. */
function ofQuery(shape: v.GenericSchema): JsonSchema {
  const { default: _text, ...schema } = schemaOf(shape, { typeMode: 'output' });
  const missing = v.safeParse(shape, undefined);
  return missing.success && missing.output !== undefined ? { ...schema, default: missing.output } : schema;
}

function contentOf(types: Bodies): JsonSchema {
  return Object.fromEntries(
    Object.entries(types).map(([type, shape]) => {
      if (shape === null) return [type, { schema: type.endsWith('json') ? { type: 'object' } : binary }];
      const schema = schemaOf(shape);
      return [type, { schema, example: exampleOf(schema) }];
    }),
  );
}

/** Results and problems by status; one status may have both, by media type, and the result comes first. */
function responsesOf(route: Route): Record<string, Response> {
  const codes = codesOf(route);
  const byStatus = Map.groupBy(codes, (code) => describe(code).status);
  const statuses = new Set([...Object.keys(route.responses).map(Number), ...byStatus.keys()]);
  return Object.fromEntries(
    [...statuses]
      .sort((a, b) => a - b)
      .map((status) => [String(status), responseOf(route, status, byStatus.get(status) ?? [])]),
  );
}

function responseOf(route: Route, status: number, codes: readonly Code[]): Response {
  const { summary, responses, responseHeaders = {}, links } = route;
  const isResult = responses[status] !== undefined;
  const content = { ...contentOf(responses[status] ?? {}), ...(codes.length > 0 && problemsOf(codes)) };
  const lines = codes.map((code) => `\`${code}\`: ${describe(code).title}`);
  return {
    description: [...(isResult ? [summary] : []), ...lines].join('; '),
    headers: references('headers', [
      ...(responseHeaders[status] ?? []),
      ...headersOfProblem(codes),
      ...headersOfRoute(route),
      'X-Request-Id',
    ]),
    ...(Object.keys(content).length === 0 ? {} : { content }),
    ...(status < 300 && links !== undefined ? { links: linksOf(links) } : {}),
  };
}

function problemsOf(codes: readonly Code[]): JsonSchema {
  const schema = { $ref: '#/components/schemas/Problem' };
  return { 'application/problem+json': { schema, examples: references('examples', codes) } };
}

function references(kind: 'headers' | 'examples', names: readonly (ResponseHeaderName | Code)[]): JsonSchema {
  return Object.fromEntries([...new Set(names)].map((name) => [name, { $ref: `#/components/${kind}/${name}` }]));
}

function linksOf(links: NonNullable<Route['links']>): JsonSchema {
  return Object.fromEntries(
    Object.entries(links).map(([operationId, pointers]) => [
      operationId,
      {
        operationId,
        parameters: Object.fromEntries(
          Object.entries(pointers).map(([name, pointer]) => [name, `$response.body#${pointer}`]),
        ),
      },
    ]),
  );
}

/** The names of the headers of every response of a route. */
function headersOfRoute({ who, commonHeaders = [] }: Route): ResponseHeaderName[] {
  return [...commonHeaders, ...(who === 'anybody' ? [] : (['RateLimit-Policy'] as const))];
}
