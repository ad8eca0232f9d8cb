/** A pattern in an expected object is compared with the text that is found. */
import { expect, test } from 'vitest';

test('a pattern matches a text that it describes, at any depth, and no other', () => {
  const found = { stderr: 'no such file', findings: [{ text: 'wrong key' }] };
  expect(found).toMatchObject({ stderr: /such/, findings: [{ text: /key$/ }] });
  expect(found).toEqual({ stderr: /^no/, findings: [{ text: /wrong/ }] });
  for (const other of [{ stderr: /folder/ }, { findings: [{ text: /^key/ }] }])
    expect(() => expect(found).toMatchObject(other)).toThrow('to match object');
});
