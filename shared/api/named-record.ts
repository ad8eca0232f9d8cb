/** Records whose names somebody else chose. */
import * as v from 'valibot';

/** What `v.record` drops without a word, although JSON may have it: names that every object inherits. */
const inherited = ['__proto__', 'prototype', 'constructor'];

/** A record of any names, also those that `v.record` drops. It is no record of the names that an object has anyway. */
export function namedRecord<K extends v.GenericSchema<string, string>, V extends v.GenericSchema>(
  key: K,
  value: V,
): v.RecordSchema<K, V, undefined> {
  const record = v.record(key, value);
  return {
    ...record,
    '~run'(dataset, config) {
      const input = dataset.value;
      const result = record['~run'](dataset, config);
      if (!result.typed || typeof input !== 'object' || input === null) return result;
      for (const [name, given] of Object.entries(input).filter(([name]) => inherited.includes(name))) {
        const checked = v.safeParse(v.tuple([key, value]), [name, given], config);
        if (!checked.success) return { typed: false, value: input, issues: checked.issues };
        // An assignment to __proto__ would set the prototype.
        Object.defineProperty(result.value, checked.output[0], {
          value: checked.output[1],
          enumerable: true,
          writable: true,
          configurable: true,
        });
      }
      return result;
    },
  };
}
