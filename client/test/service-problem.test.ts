/** Problem documents as a client reads them. */
import { describe, expect, it } from 'vitest';
import { codeOf, parseProblem, problemError } from '../service-problem.ts';

const problem = (members: object = {}) => {
  const parsed = parseProblem(
    JSON.stringify({ type: 'about:blank', title: 'No', status: 500, code: 'internal', ...members }),
  );
  if (parsed === undefined) throw new Error('this is no problem');
  return parsed;
};

describe('a problem', () => {
  it('is none where another program wrote the body', () => {
    expect(['', '<html>', '[]', '{}', '{"code":"internal"}', 'null'].map(parseProblem)).toEqual(
      Array(6).fill(undefined),
    );
  });

  it('becomes an error with the words of the service, and tells when to try again', () => {
    const error = problemError(problem({ code: 'overloaded', detail: 'later', hint: 'wait' }), { retryAfter: '7' });
    expect(error).toMatchObject({ code: 'overloaded', message: 'later', hint: 'wait', retryAfterSeconds: 7 });
    expect(problemError(problem({ code: 'overloaded' }), { retryAfter: null }).retryAfterSeconds).toBeUndefined();
  });

  it('keeps the words of a code that this version does not know', () => {
    const unknown = problem({ code: 'too_new', detail: 'words' });
    expect(codeOf(unknown)).toBe('service_answer');
    expect(problemError(unknown, { retryAfter: null }).message).toBe('words');
  });

  it('names the request of an internal error, and no other', () => {
    const requestId = '5f2b1c9e-6a0d-4c38-9b7e-0d1f2a3b4c5d';
    const message = (code: string) => problemError(problem({ code, requestId }), { retryAfter: null }).message;
    expect(message('internal')).toBe(`No (request ${requestId})`);
    expect(message('not_found')).toBe('No');
  });

  it('shows every word of the service as the caller escapes it, and prefers the caller’s hint', () => {
    const show = (text: string): string => text.toUpperCase();
    const hostile = problem({ detail: 'bad', requestId: 'id', hint: 'theirs' });
    expect(problemError(hostile, { retryAfter: null, show })).toMatchObject({
      message: 'BAD (REQUEST ID)',
      hint: 'THEIRS',
    });
    expect(problemError(hostile, { retryAfter: null, hint: 'ours' }).hint).toBe('ours');
  });
});
