/**
 * `GET /v1/openapi.json`: the API's description, generated from the routes, their validators and the table of codes.
 */
import { toJsonSchema } from '@valibot/to-json-schema';
import type * as v from 'valibot';
import { describe, problemType, type Code } from '../../shared/errors.ts';
import { Problem } from '../../shared/api.ts';
import type { Ctx } from '../http/app.ts';
import { codesOf, type Bodies, type Route } from './route.ts';
import { version } from '../../package.json';

type JsonSchema = { [key: string]: unknown };
type Response = { description: string; content?: JsonSchema };

/**
 * The handler that describes routes.
 * @param routes the table, which has the handler itself as a row
 */
export function openapi(routes: () => readonly Route[]): (c: Ctx) => globalThis.Response {
  let document: JsonSchema | undefined;
  return (c) => {
    document ??= describeApi(routes());
    return c.json(document, 200, { 'Cache-Control': 'no-store' });
  };
}

function describeApi(routes: readonly Route[]): JsonSchema {
  return {
    openapi: '3.1.0',
    info: { title: 'Sealpin', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    paths: describePaths(routes),
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'an API key: sp_…' },
        operator: { type: 'http', scheme: 'bearer', description: 'the operator’s token' },
      },
      schemas: { Problem: jsonSchema(Problem) },
      examples: examples(routes),
    },
  };
}

/** An example of each problem, to which its `type` points. */
function examples(routes: readonly Route[]): JsonSchema {
  const all = [...new Set(routes.flatMap((route) => codesOf(route)))].sort();
  return Object.fromEntries(
    all.map((code) => {
      const { status, title, hint } = describe(code);
      return [code, { summary: title, value: { type: problemType(code), title, status, code, ...(hint && { hint }) } }];
    }),
  );
}

function describePaths(routes: readonly Route[]): JsonSchema {
  const paths: Record<string, JsonSchema> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    (paths[path] ??= {})[route.method] = describeRoute(route);
  }
  return paths;
}

function describeRoute(route: Route): JsonSchema {
  const { who, summary, query, queries = {}, headers = {}, body, optionalBody, responses, path } = route;
  const scope = route.who === 'key' ? route.scope : undefined;
  const parameters = [
    ...[...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...Object.entries(query?.entries ?? {}).map(([name, shape]) => ({
      name,
      in: 'query',
      schema: jsonSchema(shape),
    })),
    ...inWords('query', queries),
    ...inWords('header', headers),
  ];
  return {
    summary: scope === undefined ? summary : `${summary} (scope: ${scope})`,
    security: who === 'key' ? [{ key: [] }] : who === 'operator' ? [{ operator: [] }] : [],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: content(body) } }),
    ...(optionalBody === undefined ? {} : { requestBody: { required: false, content: content(optionalBody) } }),
    responses: describeResponses(summary, responses, problems(codesOf(route))),
  };
}

/** Results and problems by status; one status may have both, by media type. */
function describeResponses(
  summary: string,
  results: Route['responses'],
  problems: Record<string, Response>,
): Record<string, Response> {
  const all = { ...problems };
  for (const [status, types] of Object.entries(results)) {
    const { description, content: problem } = all[status] ?? { description: summary };
    const both = { ...problem, ...(types === null ? {} : content(types)) };
    all[status] = { description, ...(Object.keys(both).length === 0 ? {} : { content: both }) };
  }
  return all;
}

function inWords(place: string, texts: Record<string, string>): JsonSchema[] {
  return Object.entries(texts).map(([name, description]) => ({
    name,
    in: place,
    description,
    schema: { type: 'string' },
  }));
}

function content(types: Bodies): JsonSchema {
  return Object.fromEntries(
    Object.entries(types).map(([type, shape]) => [type, shape === null ? {} : { schema: jsonSchema(shape) }]),
  );
}

/** The problems of a route, by status. */
function problems(codes: readonly Code[]): Record<string, Response> {
  const statuses = [...new Set(codes.map((code) => describe(code).status))].sort((a, b) => a - b);
  return Object.fromEntries(
    statuses.map((status) => {
      const those = codes.filter((code) => describe(code).status === status);
      const schema = { allOf: [{ $ref: '#/components/schemas/Problem' }, { properties: { code: { enum: those } } }] };
      return [
        status,
        {
          description: those.map((code) => `${code}: ${describe(code).title}`).join('; '),
          content: { 'application/problem+json': { schema } },
        },
      ];
    }),
  );
}

/**
 * The JSON Schema (2020-12, as OpenAPI 3.1 takes it) of a validator.
 * @throws Error for a part without an equivalent: a document that leaves something out would lie
 */
function jsonSchema(shape: v.GenericSchema): JsonSchema {
  const { $schema: _dialect, ...schema } = toJsonSchema(shape, {
    target: 'draft-2020-12',
    // The only check of ours on the items of a list is that none comes twice.
    overrideAction: ({ valibotAction, jsonSchema: schema }) =>
      valibotAction.type === 'check_items' ? { ...schema, uniqueItems: true } : undefined,
  });
  return schema;
}
