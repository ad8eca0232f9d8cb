/** Objects whose members have names of the sender's. */
import * as v from 'valibot';

/**
 * Names that the library leaves out of a record without a fault, since they are those of an
 * object's prototype.
 */
const dropped = ['__proto__', 'constructor', 'prototype'];

/** The attributes that an assignment gives a member. */
const member = { enumerable: true, writable: true, configurable: true };

/** A record that keeps every name that its schema allows. */
export function namedRecord<K extends v.GenericSchema<string, string>, V extends v.GenericSchema>(key: K, value: V) {
  const schema = v.record(key, value);
  const run = schema['~run'].bind(schema);
  const runAll: typeof run = (dataset, config) => {
    const input = dataset.value;
    const output = run(dataset, config);
    if (typeof input !== 'object' || input === null) return output;
    for (const name of dropped) {
      const given: unknown = Object.getOwnPropertyDescriptor(input, name)?.value;
      if (given === undefined) continue;
      const parsed = value['~run']({ value: given }, config);
      const issues = [...(key['~run']({ value: name }, config).issues ?? []), ...(parsed.issues ?? [])];
      const item = { type: 'object', origin: 'value', input, key: name, value: given };
      for (const issue of issues) Object.assign(issue, { path: [item, ...(issue.path ?? [])] });
      if (issues.length > 0) Object.assign(output, { typed: false, issues: [...(output.issues ?? []), ...issues] });
      // An assignment to `__proto__` would set the prototype.
      else Object.defineProperty(output.value, name, { ...member, value: parsed.value });
    }
    return output;
  };
  return Object.assign(schema, { '~run': runAll });
}
