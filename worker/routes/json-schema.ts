/** JSON Schema (2020-12, as OpenAPI 3.1 takes it) of the validators that run. */
import type * as v from 'valibot';

export type JsonSchema = { [key: string]: unknown };
type Schema = v.GenericSchema & { readonly [key: string]: unknown };

/**
 * What a validator takes, as JSON Schema. It knows the parts of valibot that `shared/api.ts` is made of.
 * @throws TypeError for a part that it does not know: a document that leaves something out would lie
 */
export function jsonSchema(schema: v.GenericSchema): JsonSchema {
  const { type, pipe, entries, item, items, options, literal, wrapped } = schema as Schema & {
    pipe?: readonly Step[];
    entries?: Record<string, v.GenericSchema>;
    item?: v.GenericSchema;
    items?: readonly v.GenericSchema[];
    options?: readonly unknown[];
    literal?: unknown;
    wrapped?: v.GenericSchema;
  };
  if (pipe !== undefined) {
    const [first, ...steps] = pipe;
    return Object.assign(
      jsonSchema(first as unknown as v.GenericSchema & Step),
      ...steps.map((step) => constraint(step)),
    );
  }
  if (type === 'string' || type === 'number' || type === 'boolean') return { type };
  if (type === 'picklist') return { enum: options };
  if (type === 'literal') return { const: literal };
  if (type === 'array' && item !== undefined) return { type, items: jsonSchema(item) };
  if (type === 'optional' && wrapped !== undefined) return jsonSchema(wrapped);
  if (type === 'nullable' && wrapped !== undefined) return { anyOf: [jsonSchema(wrapped), { type: 'null' }] };
  if ((type === 'object' || type === 'strict_object') && entries !== undefined) {
    const names = Object.keys(entries);
    return {
      type: 'object',
      properties: Object.fromEntries(names.map((name) => [name, jsonSchema(entries[name]!)])),
      required: names.filter((name) => entries[name]!.type !== 'optional'),
      ...(type === 'strict_object' ? { additionalProperties: false } : {}),
    };
  }
  throw new TypeError(`no JSON Schema for ${type}${items === undefined ? '' : ' of items'}`);
}

type Step = { readonly type: string; readonly requirement?: unknown };

/** What a step of a pipe adds. */
function constraint({ type, requirement }: Step): JsonSchema {
  if (type === 'regex') return { pattern: (requirement as RegExp).source };
  if (type === 'uuid') return { format: 'uuid' };
  if (type === 'iso_timestamp') return { format: 'date-time' };
  if (type === 'base64') return { contentEncoding: 'base64' };
  if (type === 'safe_integer') return { type: 'integer' };
  if (type === 'min_value') return { minimum: requirement };
  if (type === 'min_length') return { minLength: requirement };
  if (type === 'max_length') return { maxLength: requirement };
  if (type === 'non_empty') return { minItems: 1 };
  if (type === 'check_items') return { uniqueItems: true };
  throw new TypeError(`no JSON Schema for ${type}`);
}
