/** The reader of JSON uploads, and the base64 inside them. */
import { describe, expect, it } from 'vitest';
import { JsonUploadReader } from '../../upload/json-upload-reader.ts';
import { isSealpinError, type Code } from '../../../shared/errors.ts';

const encoder = new TextEncoder();

/** Feeds a body in pieces of that many bytes. */
function read(body: string | Uint8Array, pieceBytes = 1 << 20): { data: Uint8Array; filename: string | undefined } {
  const bytes = typeof body === 'string' ? encoder.encode(body) : body;
  const reader = new JsonUploadReader();
  const out: number[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    for (const piece of reader.write(bytes.subarray(at, at + pieceBytes))) out.push(...piece);
  }
  return { data: Uint8Array.from(out), ...reader.finish() };
}

function failure(body: string | Uint8Array, pieceBytes?: number): { code: Code; message: string } {
  try {
    read(body, pieceBytes);
  } catch (error) {
    if (isSealpinError(error)) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error('it was read');
}

describe('a JSON upload', () => {
  it('is read in any order, with white space and escapes, whatever the cut', () => {
    const data = crypto.getRandomValues(new Uint8Array(1000));
    const text = data.toBase64();
    const bodies = [
      `{"filename":"né.txt","data":"${text}"}`,
      `{"data":"${text}","filename":"n\\u00e9.txt"}`,
      ` {\t"data" :\r\n "${text.replaceAll('/', '\\/')}" , "filename":"n\\u00E9.txt" } \n`,
      `{"d\\u0061ta":"${text.replaceAll('a', '\\u0061').replaceAll('+', '\\u002B')}","filename":"né.txt"}`,
    ];
    for (const body of bodies) {
      for (const pieceBytes of [1, 2, 3, 5, 7, 64, 1023, 1 << 20]) {
        expect(read(body, pieceBytes)).toEqual({ data, filename: 'né.txt' });
      }
    }
  });

  it('accepts every name that UTF-8 can write, whole and cut at every byte', () => {
    const names = [
      'é',
      'ā.txt',
      '€uro.txt',
      '日本語.txt',
      '😀.txt',
      '“q”.txt',
      'файл.txt',
      'العربية.txt',
      '한국어.txt',
      '\u2028x',
      '\ufeffx',
      '\u007f\u0080\u009f\u00a0\u00ff\u0100\u07ff\u0800\uffff\u{10000}\u{10ffff}',
      'a😀b€c'.repeat(100),
    ];
    for (const filename of names) {
      for (const body of [JSON.stringify({ filename, data: 'AAAA' }), JSON.stringify({ data: 'AAAA', filename })]) {
        const bytes = encoder.encode(body);
        for (let cut = 0; cut <= bytes.length; cut += 1) {
          const reader = new JsonUploadReader();
          const out = [...reader.write(bytes.subarray(0, cut)), ...reader.write(bytes.subarray(cut))];
          expect(out.reduce((sum, piece) => sum + piece.length, 0)).toBe(3);
          expect(reader.finish().filename, JSON.stringify(cut)).toEqual(filename);
        }
        expect(read(body, 1).filename).toBe(filename);
      }
    }
  });

  it('accepts every length of data, also none', () => {
    for (let length = 0; length < 70; length += 1) {
      const data = crypto.getRandomValues(new Uint8Array(length));
      for (const pieceBytes of [1, 4, 5, 100])
        expect(read(`{"data":"${data.toBase64()}"}`, pieceBytes).data).toEqual(data);
    }
  });

  it('names the byte where the JSON is wrong', () => {
    const cases: [string, number][] = [
      ['', 0],
      ['[', 0],
      ['{', 1],
      ['{"data":"AAAA"', 14],
      ['{"data":"AAAA"}x', 15],
      ['{"data":"AAAA",}', 15],
      ['{"data":1}', 8],
      ['{"data":NaN}', 8],
      ['{"data":{"data":{}}}', 8],
      ['{"data":"AA\\x41A"}', 11],
      ['\ufeff{}', 0],
    ];
    for (const [body, offset] of cases) {
      const { code, message } = failure(body);
      expect(code, body).toBe('invalid_json');
      expect(message, body).toEqual(expect.stringContaining(`at byte ${offset}:`));
    }
  });

  it('S83: refuses duplicate and unknown members, nesting, wrong types and endless names', () => {
    const bodies = [
      '{"data":"AAAA","data":"AAAA"}',
      '{"data":"AAAA","d\\u0061ta":"AAAA"}',
      '{"__proto__":{"a":1},"data":"AAAA"}',
      '{"constructor":"x","data":"AAAA"}',
      `{"data":"AAAA","extra":${'['.repeat(100_000)}`,
      `{"filename":"${'a'.repeat(10_000_000)}","data":"AAAA"}`,
      `{"${'a'.repeat(10_000_000)}":1}`,
      '{"filename":null,"data":"AAAA"}',
      '{"filename":["a"],"data":"AAAA"}',
      '{"filename":"a\nb","data":"AAAA"}',
      '{"filename":"a"}',
      'null',
    ];
    for (const body of bodies) expect(failure(body).code, body.slice(0, 40)).toBe('invalid_json');
    expect({}.constructor).toBe(Object);
  });

  it('refuses a name that is not UTF-8', () => {
    const body = Uint8Array.of(...encoder.encode('{"filename":"'), 0xff, ...encoder.encode('","data":"AAAA"}'));
    expect(failure(body).code).toBe('invalid_json');
  });
});

describe('the base64 of an upload', () => {
  it('is refused at the first character that is wrong, whatever the cut', () => {
    const good = 'A'.repeat(40);
    const cases: [string, number][] = [
      [`${good}!AAA`, 40],
      [`${good}AA-A`, 42],
      [`${good}AA_A`, 42],
      [`${good} AAA`, 40],
      [`${good}AAAAAAA\tAAAA`, 47],
      [`${good}AA==AAAA`, 44],
      [`${good}A=AA`, 41],
      [`${good}AA=A`, 42],
      [`${good}====`, 40],
      [`${good}A===`, 41],
      [`${good}AAA`, 43],
      [`${good}A`, 41],
      [`${good}AB==`, 41],
      [`${good}AAB=`, 42],
      [`${good}é`, 40],
      [`${good}AA==A`, 44],
    ];
    for (const [data, offset] of cases) {
      for (const pieceBytes of [1, 3, 10, 1 << 20]) {
        const { code, message } = failure(`{"data":"${data}"}`, pieceBytes);
        expect(code, `${data} ${pieceBytes}`).toBe('invalid_base64');
        expect(message, `${data} ${pieceBytes}`).toEqual(expect.stringContaining(`at character ${offset}:`));
      }
    }
  });
});
