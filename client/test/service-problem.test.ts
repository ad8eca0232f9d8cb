/** Problem documents as a client reads them. */
import { describe, expect, it } from 'vitest';
import { bareRefusal, codeOf, parseProblem, problemError } from '../service-problem.ts';

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
    const late = { retryAfter: '1764421200' };
    for (const refusal of [
      problemError(problem(), late),
      bareRefusal('host', 503, late),
      bareRefusal('host', 500, late),
    ])
      expect(refusal.retryAfterSeconds).toBe(3600);
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

it('tells a status of a proxy that does not reach the service from one of another program', () => {
  const codes = Object.groupBy(
    Array.from({ length: 200 }, (_, index) => 400 + index),
    (status) => bareRefusal('host', status, { retryAfter: null }).code,
  );
  const ofCloudflare = Array.from({ length: 11 }, (_, index) => 520 + index);
  expect(codes).toMatchObject({
    forbidden: [401, 403, 407],
    too_large: [413],
    service_unreachable: [502, 503, 504, ...ofCloudflare],
  });
  expect(bareRefusal('host', 502, { retryAfter: '7' })).toMatchObject({
    message: 'host cannot be reached: a program in front of it says 502',
    retryAfterSeconds: 7,
  });
});
