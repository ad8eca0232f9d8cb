/** Filenames in headers, and what a client accepts. */
import { expect, it } from 'vitest';
import { negotiate } from '../../http/accept.ts';
import { parseFilename } from '../../../shared/filename.ts';
import { attachment, parseDisposition } from '../../http/content-disposition.ts';
import { isSealpinError } from '../../../shared/errors.ts';

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (isSealpinError(error)) return error.code;
    throw error;
  }
  return 'none';
}

it('keeps a filename in Content-Disposition unchanged', () => {
  for (const name of [
    'a',
    'Bericht (März) 100%.pdf',
    'it\'s; a "test".txt',
    '日本語.txt',
    '🔑',
    '👩\u200d💻',
    'می\u200cخواهم',
    'x'.repeat(255),
  ]) {
    expect(parseDisposition(attachment(name))).toBe(name);
    expect(attachment(name)).toMatch(/^[ -~]+$/);
  }
});

it('reads the forms of RFC 6266, the extended one first', () => {
  expect(parseDisposition(null)).toBeUndefined();
  expect(parseDisposition('attachment')).toBeUndefined();
  expect(parseDisposition('attachment; filename=plain.txt')).toBe('plain.txt');
  expect(parseDisposition('attachment; filename="a \\"b\\".txt"')).toBe('a "b".txt');
  expect(parseDisposition('form-data; filename="x"; FileName*=utf-8\'en\'%e2%82%ac')).toBe('€');
});

it('refuses a malformed Content-Disposition', () => {
  for (const header of [
    '',
    ';',
    'attachment; filename',
    'attachment; filename="a',
    "attachment; filename*=iso-8859-1''a",
    "attachment; filename*=UTF-8''%ff",
    'attachment; filename=a; filename=b',
    'attachment; filename=a b',
  ]) {
    expect(
      codeOf(() => parseDisposition(header)),
      header,
    ).toBe('invalid_filename');
  }
});

it('refuses names that are paths, too long, or hold control characters', () => {
  for (const name of [
    '',
    '.',
    '..',
    'a/b',
    '../../x',
    '/etc/x',
    'C:\\x',
    'a\0',
    'a\nb',
    'a\u007f',
    'a\u0085',
    'é'.repeat(128),
    '\ud800',
    ...['\u202e', '\u061c', '\u200b', '\u200e', '\u200f', '\ufeff'].map((mark) => `a${mark}txt.exe`),
  ]) {
    expect(
      codeOf(() => parseFilename(name)),
      name,
    ).toBe('invalid_filename');
  }
});

it('chooses what the client accepts', () => {
  const offered = ['application/json', 'application/octet-stream', 'application/vnd.sealpin'] as const;
  expect(negotiate(null, offered)).toBe('application/json');
  expect(negotiate('*/*', offered)).toBe('application/json');
  expect(negotiate('application/octet-stream', offered)).toBe('application/octet-stream');
  expect(negotiate('application/*;q=0.5, application/vnd.sealpin', offered)).toBe('application/vnd.sealpin');
  expect(negotiate('application/json;q=0, */*', offered)).toBe('application/octet-stream');
  // A weight that is none does not count.
  expect(negotiate('application/octet-stream;q=2, application/json;q=0.9', offered)).toBe('application/octet-stream');
  expect(negotiate('application/octet-stream;q=x', offered)).toBe('application/octet-stream');
  expect(codeOf(() => negotiate('image/png', offered))).toBe('not_acceptable');
  expect(codeOf(() => negotiate('application/json;q=0', offered))).toBe('not_acceptable');
});
