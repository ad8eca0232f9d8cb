/** What `toEqual` and `toMatchObject` take for equal. */
import { expect, test } from 'vitest';

test('a pattern matches a text that it describes, at any depth, and no other', () => {
  const found = { stderr: 'no such file', findings: [{ text: 'wrong key' }] };
  expect(found).toMatchObject({ stderr: /such/, findings: [{ text: /key$/ }] });
  expect(found).toEqual({ stderr: /^no/, findings: [{ text: /wrong/ }] });
  for (const other of [{ stderr: /folder/ }, { findings: [{ text: /^key/ }] }])
    expect(() => expect(found).toMatchObject(other)).toThrow('to match object');
});

test('a pattern matches nothing but texts, and itself', () => {
  for (const value of [undefined, null, 5, 5n, true, [], ['text'], {}, new String('text'), () => 'text', /text$/]) {
    expect(() => expect({ value }).toMatchObject({ value: /text/ })).toThrow('to match object');
    expect(() => expect({ value }).toEqual({ value: /text/ })).toThrow('to deeply equal');
    expect(() => expect({ value }).toEqual(expect.objectContaining({ value: /text/ }))).toThrow('to deeply equal');
  }
  expect(() => expect({}).toMatchObject({ value: /text/ })).toThrow('to match object');
  expect({ value: /text/ }).toMatchObject({ value: /text/ });
});

test('bytes are equal to the same bytes, at any depth, and to no others', () => {
  for (const of of [(bytes: number[]) => Buffer.from(bytes), (bytes: number[]) => Uint8Array.from(bytes)]) {
    expect({ bytes: [of([1, 2])] }).toEqual({ bytes: [of([1, 2])] });
    for (const other of [[1, 3], [1], [1, 2, 3], []]) expect([of([1, 2])]).not.toEqual([of(other)]);
  }
  expect(Buffer.from([1])).not.toEqual(Uint8Array.of(1));
});
