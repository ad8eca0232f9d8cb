/** The OpenAPI 3.1 document, written from the routes, their validators and the table of codes. */
import { describe } from '../../shared/errors.ts';
import { problemType } from '../../shared/problem-object.ts';
import { version } from '../../package.json';
import { codesOf, type Route } from './route.ts';
import { responseHeaders } from './headers.ts';
import { operationsOf, pathOf } from './operation.ts';
import { referencedSchemas, type JsonSchema } from './schemas.ts';
import { tagsOf } from './tags.ts';

/** Describes an API. @param routes all of its routes */
export function describeApi(routes: readonly Route[]): JsonSchema {
  const paths: Record<string, JsonSchema> = {};
  for (const route of routes) Object.assign((paths[pathOf(route)] ??= {}), operationsOf(route));
  const responses = shareProblems(paths);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sealpin',
      version,
      description:
        'Stores files on IPFS, encrypted to the public key of an account or unchanged. Problems are those of RFC 9457, ' +
        'with a `code` of a closed list; under each status, `examples` names the codes that it can have. ' +
        'Every GET answers HEAD, too.',
      contact: { name: 'The operator of the service, with the `requestId` of a problem' },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The service that this document comes from' }],
    tags: tagsOf(routes.map(({ path }) => path)),
    paths,
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'an API key: `sp_…`' },
        operator: { type: 'http', scheme: 'bearer', description: 'the token of the operator' },
        monitor: { type: 'http', scheme: 'bearer', description: 'the token for metrics' },
      },
      responses,
      schemas: referencedSchemas([paths, responses]),
      headers: referencedHeaders([paths, responses]),
      examples: problemExamples(routes),
    },
  };
}

type Operation = { responses: Record<string, JsonSchema> };

/** Replaces each response with problems alone that several operations have by a reference. @returns these responses */
function shareProblems(paths: Record<string, JsonSchema>): JsonSchema {
  const operations = Object.values(paths).flatMap((path) => Object.values(path) as Operation[]);
  const all = operations.flatMap(({ responses }) =>
    Object.entries(responses).map(([status, value]) => ({ responses, status, value })),
  );
  const problems = all.filter(({ status, value }) => Number(status) >= 400 && isOfProblems(value));
  const shared: JsonSchema = {};
  for (const [text, same] of Map.groupBy(problems, ({ value }) => JSON.stringify(value))) {
    const [first] = same;
    if (first === undefined || same.length === 1) continue;
    const number = Object.keys(shared).filter((name) => name.startsWith(`Problem${first.status}`)).length;
    const name = `Problem${first.status}${number === 0 ? '' : `-${number + 1}`}`;
    shared[name] = JSON.parse(text) as JsonSchema;
    for (const { responses, status } of same) responses[status] = { $ref: `#/components/responses/${name}` };
  }
  return shared;
}

function isOfProblems({ content }: JsonSchema): boolean {
  return Object.keys((content ?? {}) as JsonSchema).every((type) => type === 'application/problem+json');
}

/** The headers that some response refers to. */
function referencedHeaders(paths: unknown): JsonSchema {
  const text = JSON.stringify(paths);
  return Object.fromEntries(
    Object.entries(responseHeaders).filter(([name]) => text.includes(`"#/components/headers/${name}"`)),
  );
}

/** An example of each problem, to which its `type` points. */
function problemExamples(routes: readonly Route[]): JsonSchema {
  const codes = [...new Set(routes.flatMap((route) => codesOf(route)))].sort();
  return Object.fromEntries(
    codes.map((code) => {
      const { status, title, hint } = describe(code);
      return [code, { summary: title, value: { type: problemType(code), title, status, code, ...(hint && { hint }) } }];
    }),
  );
}
