/** `GET /v1/openapi.json`: the API's description, made of the validators that run and the table of codes. */
import type * as v from 'valibot';
import { describe, problemType, type Code } from '../../shared/errors.ts';
import { Problem } from '../../shared/api.ts';
import type { Ctx } from '../http/app.ts';
import { operations, type Operation } from './table.ts';
import { jsonSchema, type JsonSchema } from './json-schema.ts';
import { version } from '../env.ts';

type Response = { description: string; content?: JsonSchema };

/** Codes that every route may answer with. */
const always: readonly Code[] = ['invalid_request', 'internal', 'misconfigured', 'method_not_allowed'];
/** What a guard adds. */
const guarded: Record<Operation['who'], readonly Code[]> = {
  anybody: [],
  address: ['rate_limited', 'overloaded'],
  operator: ['not_found', 'unauthorized', 'rate_limited', 'overloaded'],
  key: ['unauthorized', 'insufficient_scope', 'rate_limited', 'overloaded'],
};

/** All codes that an operation may answer with. */
export function codesOf({ who, codes }: Operation): Code[] {
  return [...new Set([...guarded[who], ...codes, ...always])];
}

let document: JsonSchema | undefined;

export function openapi(c: Ctx): globalThis.Response {
  document ??= {
    openapi: '3.1.0',
    info: { title: 'Sealpin', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    paths: paths(),
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'an API key: sp_…' },
        operator: { type: 'http', scheme: 'bearer', description: 'the operator’s token' },
      },
      schemas: { Problem: jsonSchema(Problem) },
      examples: examples(),
    },
  };
  return c.json(document, 200, { 'Cache-Control': 'no-store' });
}

/** What the `type` of each problem leads to. */
function examples(): JsonSchema {
  const all = [...new Set(operations.flatMap((operation) => codesOf(operation)))].sort();
  return Object.fromEntries(
    all.map((code) => {
      const { status, title, hint } = describe(code);
      return [code, { summary: title, value: { type: problemType(code), title, status, code, ...(hint && { hint }) } }];
    }),
  );
}

function paths(): JsonSchema {
  const all: Record<string, JsonSchema> = {};
  for (const operation of operations) {
    const path = operation.path.replaceAll(/:(\w+)/g, '{$1}');
    (all[path] ??= {})[operation.method] = described(operation);
  }
  return all;
}

function described(operation: Operation): JsonSchema {
  const { who, summary, scope, query, queries = {}, headers = {}, body, answers, path } = operation;
  const parameters = [
    ...[...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...Object.entries(query === undefined ? {} : (jsonSchema(query)['properties'] as Record<string, JsonSchema>)).map(
      ([name, schema]) => ({ name, in: 'query', schema }),
    ),
    ...inWords('query', queries),
    ...inWords('header', headers),
  ];
  return {
    summary: scope === undefined ? summary : `${summary} (scope: ${scope})`,
    security: who === 'key' ? [{ key: [] }] : who === 'operator' ? [{ operator: [] }] : [],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: content(body) } }),
    responses: responses(summary, answers, problems(codesOf(operation))),
  };
}

/** Answers and problems by status; a status may be both, by media type. */
function responses(
  summary: string,
  answers: Operation['answers'],
  problems: Record<string, Response>,
): Record<string, Response> {
  const all = { ...problems };
  for (const [status, types] of Object.entries(answers)) {
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

function content(types: Record<string, v.GenericSchema | null>): JsonSchema {
  return Object.fromEntries(
    Object.entries(types).map(([type, shape]) => [type, shape === null ? {} : { schema: jsonSchema(shape) }]),
  );
}

/** The problems of an operation, by status. */
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
