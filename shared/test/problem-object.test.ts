import { expect, test } from 'vitest';
import { codes, SealpinError } from '../errors.ts';
import { problemType, toProblem } from '../problem-object.ts';

test('a problem object has what the caller allows its reader to see', () => {
  const error = new SealpinError('not_found', 'no file has this ID', { hint: 'list the files' });
  expect(toProblem(error, { detail: undefined, hint: undefined })).toEqual({
    type: 'about:blank',
    title: 'Not found',
    status: 404,
    code: 'not_found',
  });
  expect(
    toProblem(error, { type: problemType(error.code), detail: error.message, hint: error.hint, requestId: 'r' }),
  ).toEqual({
    type: '/v1/openapi.json#/components/examples/not_found',
    title: 'Not found',
    status: 404,
    detail: 'no file has this ID',
    code: 'not_found',
    hint: 'list the files',
    requestId: 'r',
  });
});

test('the message of an error without details is the title of its code, in lower case', () => {
  expect(new SealpinError('usage').message).toBe('invalid usage');
  for (const code of codes) expect(new SealpinError(code).message).toMatch(/^[a-z]/);
});
