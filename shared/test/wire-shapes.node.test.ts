/** The validators of what others send: text of any length, and names that every object inherits. */
import * as v from 'valibot';
import { expect, test } from 'vitest';
import * as shapes from '../api.ts';

type Part = { readonly type?: unknown; readonly requirement?: unknown; readonly kind?: unknown };

/** Every schema and action in the shapes of the API. */
function parts(): Map<Part, string> {
  const found = new Map<Part, string>();
  const walk = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null || value instanceof RegExp || found.has(value)) return;
    if ('kind' in value) found.set(value, path);
    for (const [name, inner] of Object.entries(value)) if (name !== '~standard') walk(inner, `${path}.${name}`);
  };
  for (const [name, shape] of Object.entries(shapes)) walk(shape, name);
  return found;
}

test('no validator of the API overflows the stack for a long text', () => {
  const found = [...parts()];
  expect(found.length).toBeGreaterThan(100);
  // The longest response that clients read. A pattern that fails at its end has tried everything.
  const long = 'A'.repeat(16 * 2 ** 20);
  const tried = new Set<string>();
  for (const [part, path] of found) {
    const { requirement } = part;
    // The body of an upload is parsed as a stream: its shape only describes it.
    if (path.startsWith('JsonUpload') || path.startsWith('EncryptedJsonUpload')) continue;
    expect(part.type, path).not.toBe('base64');
    // One character as often as may be takes no stack; a group does.
    if (!(requirement instanceof RegExp) || !/\)[*+{]/.test(requirement.source) || tried.has(requirement.source))
      continue;
    tried.add(requirement.source);
    for (const text of [long, long.toLowerCase()]) expect(() => requirement.test(`${text}!`), path).not.toThrow();
  }
});

test('a long record of a share is taken, and what is not base64 refused', () => {
  const record = 'AAAA'.repeat(3 * 2 ** 20);
  expect(shapes.parseResponse(shapes.OpenedShare, { record, opensLeft: 0 }).record).toHaveLength(record.length);
  for (const wrong of [`${record}!`, 'AAA', 'A===', '=AAA', 'AA=A', 'AA\n='])
    expect(() => shapes.parseResponse(shapes.OpenedShare, { record: wrong, opensLeft: 0 })).toThrow('unexpected shape');
  for (const right of ['', 'AAA=', 'AA==', 'a+/9']) expect(shapes.isBase64(right)).toBe(true);
});

test('the error for a response of another shape names a member, and repeats no value', () => {
  const shape = v.object({ keys: v.array(v.pipe(v.string(), v.regex(/^sp_[0-9]$/))) });
  for (const { wrong, place } of [
    { wrong: { keys: ['sp_1', 'sp_secret'] }, place: 'keys.1' },
    { wrong: { keys: 'sp_secret' }, place: 'keys' },
    { wrong: 'sp_secret', place: 'its top' },
  ])
    expect(() => shapes.parseResponse(shape, wrong)).toThrow(new RegExp(` at ${place}$`));
});

test('a record of names keeps those that every object inherits', () => {
  const shape = shapes.namedRecord(v.string(), v.pipe(v.array(v.string()), v.minLength(1)));
  const json = '{"ann":["a"],"constructor":["b"],"prototype":["c"],"__proto__":["d"],"toString":["e"]}';
  const parsed = v.parse(shape, JSON.parse(json));
  expect(new Map(Object.entries(parsed))).toEqual(new Map(Object.entries(JSON.parse(json) as object)));
  expect(Object.getPrototypeOf(parsed)).toBe(Object.prototype);
  for (const wrong of ['{"constructor":[]}', '{"__proto__":"x"}', '{"ann":1}', 'null', '1'])
    expect(v.is(shape, JSON.parse(wrong)), wrong).toBe(false);
});
