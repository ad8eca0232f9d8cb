import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { boundaryOf, MultipartError, parts } from '../../local/node/multipart.ts';
import { first, itemOf } from '../../../testkit/present.ts';

/** The chunks of a body, all in the same memory. */
async function* cut(body: Buffer, size: number): AsyncGenerator<Buffer> {
  const memory = Buffer.alloc(size);
  for (let at = 0; at < body.length; at += size) yield memory.subarray(0, body.copy(memory, 0, at, at + size));
}

/** The parts of a body, and whether the closing boundary came. */
async function read(body: Buffer, size = body.length || 1, boundary = 'xyz') {
  const files: { name: string; filename: string; type: string; bytes: Buffer }[] = [];
  let closed = false;
  for await (const event of parts(cut(body, size), boundary)) {
    if (event.kind === 'part')
      files.push({ name: event.name, filename: event.filename, type: event.type, bytes: Buffer.alloc(0) });
    else if (event.kind === 'bytes') itemOf(files, -1).bytes = Buffer.concat([itemOf(files, -1).bytes, event.bytes]);
    else closed = true;
  }
  return { files, closed };
}

const file = (bytes: Buffer | string) =>
  Buffer.concat([
    Buffer.from(
      '--xyz\r\nContent-Disposition: form-data; name="file"; filename="a b"\r\nContent-Type: text/plain\r\n\r\n',
    ),
    Buffer.from(bytes),
    Buffer.from('\r\n'),
  ]);
const end = Buffer.from('--xyz--\r\n');

describe('parts', () => {
  test('come out whole, whatever the cut', async () => {
    const bytes = randomBytes(5000);
    const body = Buffer.concat([
      Buffer.from('preamble\r\n'),
      file(bytes),
      file('second'),
      end,
      Buffer.from('epilogue'),
    ]);
    for (let size = 1; size < 200; size += 1) {
      const { files, closed } = await read(body, size);
      expect(files).toEqual([
        { name: 'file', filename: 'a b', type: 'text/plain', bytes },
        { name: 'file', filename: 'a b', type: 'text/plain', bytes: Buffer.from('second') },
      ]);
      expect(closed).toBe(true);
    }
  });

  test('may look like the boundary without being it', async () => {
    const bytes = Buffer.from('\r\r\n\r\n-\r\n--\r\n--x\r\n--xy\r\n--xx\r\nxyz--xyz\r\n-');
    for (const size of [1, 2, 3, 7, 1000])
      expect(first((await read(Buffer.concat([file(bytes), end]), size)).files).bytes).toEqual(bytes);
  });

  test('may be empty, and may have no headers', async () => {
    expect((await read(Buffer.concat([file(''), Buffer.from('--xyz\r\n\r\nbare\r\n'), end]), 3)).files).toEqual([
      { name: 'file', filename: 'a b', type: 'text/plain', bytes: Buffer.alloc(0) },
      { name: '', filename: '', type: '', bytes: Buffer.from('bare') },
    ]);
  });

  test('fail when the body ends anywhere before the closing boundary', async () => {
    const body = Buffer.concat([file('some bytes'), Buffer.from('--xyz--')]);
    for (let length = 0; length < body.length; length += 1) {
      await expect(read(body.subarray(0, length), 5), `${length} bytes`).rejects.toThrow(MultipartError);
    }
    expect((await read(body)).closed).toBe(true);
  });

  test('fail on headers without an end and on text after a boundary', async () => {
    await expect(read(Buffer.concat([Buffer.from('--xyz\r\n'), Buffer.alloc(40_000, 'a'), end]), 1000)).rejects.toThrow(
      'too long',
    );
    await expect(read(Buffer.from('--xyzzy\r\n\r\nx\r\n--xyz--'))).rejects.toThrow('something follows a boundary');
  });
});

test('the boundary is taken from the header, quoted or not', () => {
  expect(boundaryOf('multipart/form-data; boundary=abc')).toBe('abc');
  expect(boundaryOf('Multipart/Form-Data; charset=utf-8; boundary="a b:c"')).toBe('a b:c');
  for (const wrong of [
    undefined,
    '',
    'application/json',
    'multipart/form-data',
    'multipart/form-data; boundary=',
    `multipart/form-data; boundary=${'a'.repeat(71)}`,
  ]) {
    expect(() => boundaryOf(wrong), String(wrong)).toThrow(MultipartError);
  }
});
