/** `Content-Digest`, `Repr-Digest` and `Want-Repr-Digest` as RFC 9530 and RFC 9651 have them. */
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { digestField, parseDigests, parseWanted } from '../../http/digest-fields.ts';
import { present } from '../../../testkit/present.ts';

const sha256 = createHash('sha256').update('hello').digest();
const sha512 = createHash('sha512').update('hello').digest();
const of256 = digestField('sha-256', sha256);
const of512 = digestField('sha-512', sha512);

describe.each(['Content-Digest', 'Repr-Digest'])('%s', (field) => {
  const parse = (text: string | undefined) => parseDigests(new Headers(text === undefined ? {} : { [field]: text }));

  it.each([
    ['', []],
    [undefined, []],
    [of256, ['sha-256']],
    [`${of256},${of512}`, ['sha-256', 'sha-512']],
    [` ${of512} ,\t${of256};a=1; b="x y";c `, ['sha-512', 'sha-256']],
    ['md5=:XUFAKrxLKna5cZ2REBfFkg==:, crc32c=:4waSgw==:', []],
    // The last one of a name counts.
    [`sha-256=:${Buffer.alloc(32).toString('base64')}:, ${of256}`, ['sha-256']],
  ])('%j names %j', (text, names) => {
    const digests = parse(text);
    expect([...digests.keys()]).toEqual(names);
    if (digests.has('sha-256')) expect(Buffer.from(present(digests.get('sha-256')))).toEqual(sha256);
  });

  it.each([
    'sha-256',
    'sha-256=1',
    `sha-256=${sha256.toString('base64')}`,
    `sha-256=${sha256.toString('hex')}`,
    `sha-256="${sha256.toString('base64')}"`,
    of256.slice(0, -1),
    `${of256},`,
    `SHA-256=:${sha256.toString('base64')}:`,
    `sha-256=:${sha256.toString('base64')}`,
    'sha-256=::',
    'sha-256=:aGVsbG8=:',
    'md5=:a:',
    `sha-512=:${sha256.toString('base64')}:`,
    `sha-256 = :${sha256.toString('base64')}:`,
  ])('%j is refused, and not repeated', (text) => {
    let error: unknown;
    try {
      parse(text);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ code: 'invalid_request' });
    expect(String(error)).not.toContain(sha256.toString('base64'));
  });

  it('is the same in both fields, or refused', () => {
    const both = (one: string, other: string) =>
      parseDigests(new Headers({ 'Content-Digest': one, 'Repr-Digest': other }));
    expect([...both(of256, of512).keys()]).toEqual(['sha-256', 'sha-512']);
    expect([...both(of256, of256).keys()]).toEqual(['sha-256']);
    expect(() => both(of256, digestField('sha-256', Buffer.alloc(32)))).toThrow(
      expect.objectContaining({ code: 'digest_mismatch' }),
    );
  });

  it('is read in linear time', () => {
    const startedAt = performance.now();
    for (const text of [`a=1${';a'.repeat(50_000)}\u0001`, `a=:${'A'.repeat(100_000)}`, 'a='.repeat(50_000)])
      expect(() => parse(text)).toThrow(/cannot be read/);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });
});

describe('Want-Repr-Digest', () => {
  it.each([
    [undefined, undefined],
    ['sha-256=1', 'sha-256'],
    ['sha-512=3, sha-256=10, unixsum=9', 'sha-256'],
    ['sha-256=3, sha-512=10', 'sha-512'],
    ['sha-256=0', undefined],
    ['md5=10', undefined],
  ])('%j wants %j', (text, wanted) => expect(parseWanted(text)).toBe(wanted));

  it.each(['sha-256', 'sha-256=11', 'sha-256=-1', 'sha-256=1.5', 'sha-256=:AA==:', '=1', 'sha-256=1,,'])(
    '%j is refused',
    (text) => expect(() => parseWanted(text)).toThrow(/cannot be read/),
  );
});
