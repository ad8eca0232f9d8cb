/**
 * Errors of JSON bodies and queries in our own words: those of the validation library name its
 * internals and repeat values.
 */
import type * as v from 'valibot';
import { isBase64, type UploadDetails } from '../../shared/api.ts';
import { SealpinError, type Fault } from '../../shared/errors.ts';
import { isTime } from '../../shared/time.ts';
import type { FileDetails } from '../objects/account/files/file-rows.ts';
import { detailColumns } from '../objects/account/tables.ts';
import { given } from '../objects/columns.ts';

/** Faults that one error names. */
const maxFaults = 3;
/** Characters of a member's name that an error repeats. */
const maxNameChars = 40;

/**
 * The error for a JSON body or query of another shape. It names members and never repeats a value.
 * @param place where its faults point to
 * @param issues at least one
 */
export function invalidRequest(place: 'body' | 'query', issues: readonly v.BaseIssue<unknown>[]): SealpinError {
  const faults = issues
    .slice(0, maxFaults)
    .map((issue) => ({ ...faultPlace(place, issue), detail: describeFault(issue) }));
  const details = new Set(faults.map(({ detail }) => detail));
  return new SealpinError('invalid_request', [...details].join('; '), { faults });
}

/**
 * A time in the future, in ms. @param text of a member or parameter `expiresAt`
 * @throws invalid_request
 */
export function parseFutureTime(text: string, nowMs: number): number {
  if (!isTime(text)) throw new SealpinError('invalid_request', 'expiresAt must be a time such as 2030-01-31T00:00:00Z');
  const time = Date.parse(text);
  if (time <= nowMs) throw new SealpinError('invalid_request', 'expiresAt must be a time in the future');
  return time;
}

/**
 * Details of a file that begins, as its rows have them.
 * @throws invalid_request for an end in the past
 */
export function parseDetails(details: UploadDetails): FileDetails {
  if (details.expiresAt !== undefined) parseFutureTime(details.expiresAt, Date.now());
  return given(detailColumns, details);
}

function faultPlace(place: 'body' | 'query', { path }: v.BaseIssue<unknown>): Omit<Fault, 'detail'> {
  const names = (path ?? []).map(({ key }) => String(key));
  if (place === 'query') return { parameter: names.join('.') };
  return { pointer: `#${names.map((name) => `/${pointerToken(name)}`).join('')}` };
}

/** A name in a JSON pointer that is a URI fragment (RFC 6901 sections 3 and 6). */
function pointerToken(name: string): string {
  const escaped = name.slice(0, maxNameChars).toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1');
  return encodeURIComponent(escaped);
}

function describeFault(issue: v.BaseIssue<unknown>): string {
  const { type, expected, received, requirement, message, input } = issue;
  const name = memberName(issue);
  if (requirement === isBase64) return `${name} must be base64`;
  // These carry a sentence of ours (shared/api.ts).
  if (type === 'regex' || type === 'check' || type === 'check_items') return message;
  if (type === 'strict_object' && expected === 'never') return `there is no member ${name}`;
  if (issue.path !== undefined && received === 'undefined') return `${name} is missing`;
  return `${name} must be ${describeExpected(type, expected, requirement, Array.isArray(input))}`;
}

function describeExpected(type: string, expected: string | null, requirement: unknown, isList: boolean): string {
  if (type === 'min_length') return `at least ${String(requirement)} character long`;
  if (type === 'max_length' && isList) return `a list of at most ${String(requirement)}`;
  if (type === 'max_length') return `at most ${String(requirement)} characters long`;
  if (type === 'non_empty') return 'a list that is not empty';
  if (type === 'iso_timestamp') return 'a time such as 2030-01-31T00:00:00Z';
  if (type === 'min_value') return `at least ${String(requirement)}`;
  if (type === 'safe_integer') return 'a whole number';
  if (type === 'uuid') return 'a UUID';
  if (type === 'min_entries') return 'an object that is not empty';
  if (type === 'max_entries') return `an object of at most ${String(requirement)} members`;
  if (type === 'array') return 'a list';
  if (type === 'record' || type === 'object' || type === 'strict_object') return 'an object';
  if (type === 'picklist')
    return (expected ?? '').replaceAll('""', 'empty').replaceAll(/[()"]/g, '').replaceAll(' | ', ' or ');
  return `a ${type}`;
}

/** The place of a fault: `label`, `scopes[1]`, or `the body` as a whole. */
function memberName({ path }: v.BaseIssue<unknown>): string {
  if (path === undefined) return 'the body';
  const name = path
    .map(({ key }, index) => (typeof key === 'number' ? `[${key}]` : `${index === 0 ? '' : '.'}${String(key)}`))
    .join('');
  const short = name.length > maxNameChars ? `${name.slice(0, maxNameChars)}…` : name;
  return /^[\w.[\]-]+$/.test(name) ? short : JSON.stringify(short.toWellFormed());
}
