/** What is wrong with a request, in our own words: those of the validators' library are about its internals, and repeat what was sent. */
import type * as v from 'valibot';
import { SealpinError } from '../../shared/errors.ts';

/** Faults that one answer names. */
const maxFaults = 3;
/** Characters of a member's name that an answer repeats. */
const maxNameChars = 40;

/** The error for a JSON body or query that does not fit its shape. It names members, and never repeats a value. */
export function invalidRequest(issues: readonly v.BaseIssue<unknown>[]): SealpinError {
  const faults = new Set(issues.slice(0, maxFaults).map((issue) => faultOf(issue)));
  return new SealpinError('invalid_request', [...faults].join('; '));
}

function faultOf(issue: v.BaseIssue<unknown>): string {
  const { type, expected, received, requirement, message } = issue;
  const name = nameOf(issue);
  // These carry a sentence of ours (shared/api.ts).
  if (type === 'regex' || type === 'check_items') return message;
  if (type === 'strict_object' && expected === 'never') return `there is no member ${name}`;
  if (issue.path !== undefined && received === 'undefined') return `${name} is missing`;
  return `${name} has to be ${wanted(type, expected, requirement)}`;
}

function wanted(type: string, expected: string | null, requirement: unknown): string {
  if (type === 'min_length') return `at least ${String(requirement)} character long`;
  if (type === 'max_length') return `at most ${String(requirement)} characters long`;
  if (type === 'non_empty') return 'a list that is not empty';
  if (type === 'iso_timestamp') return 'a time such as 2030-01-31T00:00:00Z';
  if (type === 'array') return 'a list';
  if (type === 'object' || type === 'strict_object') return 'an object';
  if (type === 'picklist') return (expected ?? '').replaceAll(/[()"]/g, '').replaceAll(' | ', ' or ');
  return `a ${type}`;
}

/** `label`, `scopes[1]`; `the body` for all of it. */
function nameOf({ path }: v.BaseIssue<unknown>): string {
  if (path === undefined) return 'the body';
  const name = path
    .map(({ key }, index) => (typeof key === 'number' ? `[${key}]` : `${index === 0 ? '' : '.'}${String(key)}`))
    .join('');
  const short = name.length > maxNameChars ? `${name.slice(0, maxNameChars)}…` : name;
  return /^[\w.[\]-]+$/.test(name) ? short : JSON.stringify(short.toWellFormed());
}
