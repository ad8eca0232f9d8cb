/** JSON Schema (2020-12, as OpenAPI 3.1 takes it) of our validators, with names. */
import { toJsonSchema, toJsonSchemaDefs, type ConversionConfig } from '@valibot/to-json-schema';
import type * as v from 'valibot';
import * as shapes from '../../shared/api.ts';
import { isSeen } from '../../shared/filename.ts';
import { isTime } from '../../shared/time.ts';

export type JsonSchema = { [key: string]: unknown };

const schemaPrefix = '#/components/schemas/';

/**
 * The validators of objects and enumerations that other ones refer to: by the names under which
 * `shared/api.ts` exports them.
 */
const namedShapes: Record<string, v.GenericSchema> = Object.fromEntries(
  Object.entries(shapes)
    .filter((entry): entry is [string, v.GenericSchema & (typeof entry)[1]] => isNamed(entry[1]))
    .filter(([name]) => !name.endsWith('Query')),
);

const names = new Map(Object.entries(namedShapes).map(([name, shape]) => [shape, name]));

function isNamed(value: unknown): value is v.GenericSchema {
  if (typeof value !== 'object' || value === null || !('kind' in value) || !('type' in value)) return false;
  return value.kind === 'schema' && ['object', 'strict_object', 'intersect', 'picklist'].includes(String(value.type));
}

const config = {
  target: 'draft-2020-12',
  typeMode: 'input',
  overrideRef: ({ referenceId }) => `${schemaPrefix}${referenceId}`,
  overrideAction: ({ valibotAction, jsonSchema }) => {
    // The only check of ours on the items of a list is that none comes twice.
    if (valibotAction.type === 'check_items') return { ...jsonSchema, uniqueItems: true };
    // Its pattern says no more than the format.
    if (valibotAction.type === 'iso_timestamp') return { ...jsonSchema, format: 'date-time' };
    const { requirement } = valibotAction as { requirement?: unknown };
    // A pattern of JSON Schema matches code points in any case (section 6.4 of its core), among
    // which there are no surrogates.
    if (requirement instanceof RegExp && requirement.flags === 'u')
      return { ...jsonSchema, pattern: requirement.source.replace(String.raw`\ud800-\udfff`, '') };
    // No pattern that all readers know says which characters are seen.
    if (requirement === isSeen) return jsonSchema;
    if (requirement === shapes.isBase64) return { ...jsonSchema, contentEncoding: 'base64' };
    return requirement === isTime ? { ...jsonSchema, format: 'date-time' } : undefined;
  },
  overrideSchema: ({ valibotSchema, jsonSchema }) =>
    valibotSchema.type === 'nullable' ? withNull(jsonSchema as JsonSchema) : undefined,
} as const satisfies ConversionConfig;

let definitions: Record<string, unknown> | undefined;

/**
 * The schema of a validator: a reference to it where it has a name.
 * @param o.typeMode of a validator that transforms: what it takes (`input`, the default), or what
 * it makes of that
 * @throws Error for a part without an equivalent: a document that leaves something out would lie
 */
export function schemaOf(shape: v.GenericSchema, o: { typeMode?: 'input' | 'output' } = {}): JsonSchema {
  const name = names.get(shape);
  if (name !== undefined) return { $ref: `${schemaPrefix}${name}` };
  const { $schema: _dialect, ...schema } = toJsonSchema(shape, { ...config, ...o });
  return schema;
}

/**
 * Generators make a plain type of a list of types, and a type of its own of `anyOf`, which a
 * reference needs.
 */
function withNull(schema: JsonSchema): JsonSchema {
  const { anyOf, ...rest } = schema;
  const [inner] = anyOf as [JsonSchema];
  if ('$ref' in inner) return schema;
  return { ...rest, ...inner, type: [...new Set([inner['type'], 'null'].flat())] };
}

/** All named schemas that some schemas refer to, directly or through others. */
export function referencedSchemas(document: unknown): Record<string, JsonSchema> {
  const found = new Map<string, JsonSchema>();
  const collect = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return;
    const { $ref } = part as { $ref?: unknown };
    if (typeof $ref === 'string' && $ref.startsWith(schemaPrefix)) {
      const name = $ref.slice(schemaPrefix.length);
      if (found.has(name)) return;
      found.set(name, definitionOf(name));
      collect(found.get(name));
    } else for (const each of Object.values(part)) collect(each);
  };
  collect(document);
  return Object.fromEntries([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function definitionOf(name: string): JsonSchema {
  definitions ??= toJsonSchemaDefs(namedShapes, config);
  const schema = definitions[name];
  if (schema === undefined) throw new Error(`there is no schema ${name}`);
  return schema as JsonSchema;
}
