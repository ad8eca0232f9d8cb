/** The OpenAPI 3.1 documents, written from the routes, their validators and the table of codes. */
import { describe } from '../../shared/errors.ts';
import { problemType } from '../../shared/problem-object.ts';
import { version } from '../../package.json';
import { codesOf, commonCodes, guardCodes, type Route } from './route.ts';
import { responseHeaders } from './headers.ts';
import { operationsOf, openapiPath, problemsOf } from './operation.ts';
import { referencedSchemas, type JsonSchema } from './schemas.ts';
import { tagsOf } from './tags.ts';

const credentials = {
  key: 'an API key: `sp_…`; what is listed beside it are the scopes that it needs',
  operator: 'the token of the operator',
  monitor: 'the token for metrics',
} as const;

type Operation = { parameters?: JsonSchema[] & JsonSchema; responses: JsonSchema };

/** Describes routes. @param title of the document, @param routes all that it describes */
export function describeApi(title: string, routes: readonly Route[]): JsonSchema {
  const paths: Record<string, Record<string, JsonSchema>> = {};
  for (const route of routes) Object.assign((paths[openapiPath(route)] ??= {}), operationsOf(route));
  const operations = Object.values(paths).flatMap((path) => Object.values(path) as Operation[]);
  const lists = operations.flatMap(({ parameters }) => (parameters === undefined ? [] : [parameters]));
  const parameters = replaceSharedParts('parameters', lists, ({ name }) => String(name));
  const results = replaceSharedParts(
    'responses',
    operations.map(({ responses }) => responses),
    (_, status) => status,
  );
  const responses = { ...results, ...problemsOf(routes) };
  const callers = Object.entries(credentials).filter(([caller]) => routes.some(({ who }) => who === caller));
  return {
    openapi: '3.1.0',
    info: {
      title,
      version,
      description:
        'Stores files on IPFS, encrypted to the public key of an account or unchanged. Problems are ' +
        'those of RFC 9457, with a `code` of a closed list. `x-codes` names them: of an operation, of a ' +
        'security scheme for all operations that need it, of the document for all. Every response has ' +
        '`X-Request-Id`, and `RateLimit-Policy` where requests are limited. Every GET answers HEAD, too.',
      contact: { name: 'The operator of the service, with the `requestId` of a problem' },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The service that this document comes from' }],
    'x-codes': commonCodes,
    tags: tagsOf(routes.map(({ path }) => path)),
    paths,
    components: {
      securitySchemes: Object.fromEntries(
        callers.map(([who, description]) => [
          who,
          { type: 'http', scheme: 'bearer', description, 'x-codes': guardCodes(who as keyof typeof credentials) },
        ]),
      ),
      parameters,
      responses,
      schemas: referencedSchemas([paths, parameters, responses]),
      headers: referencedHeaders([paths, responses]),
      examples: problemExamples(routes),
    },
  };
}

/**
 * Replaces each part that several operations have by a reference.
 * @param holders objects and lists whose members are such parts
 * @param nameOf its name in `shared`, to which a letter is added where another part has it
 */
function replaceSharedParts(
  kind: string,
  holders: readonly JsonSchema[],
  nameOf: (part: JsonSchema, key: string) => string,
): JsonSchema {
  const all = holders.flatMap((holder) => Object.entries(holder).map(([key, part]) => ({ holder, key, part })));
  const shared: JsonSchema = {};
  for (const [text, same] of Map.groupBy(all, ({ part }) => JSON.stringify(part))) {
    const [first] = same;
    if (first === undefined || same.length === 1 || text.startsWith('{"$ref"')) continue;
    let name = nameOf(first.part as JsonSchema, first.key);
    while (name in shared) name += '_';
    shared[name] = first.part;
    for (const { holder, key } of same) holder[key] = { $ref: `#/components/${kind}/${name}` };
  }
  return shared;
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
      return [code, { value: { type: problemType(code), title, status, code, ...(hint && { hint }) } }];
    }),
  );
}
