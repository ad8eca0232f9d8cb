/** No text of a service, a file or a client of the embedded node costs more than its length. */
import { expect, test } from 'vitest';
import { growth, linear, repeated } from '../../testkit/growth.ts';
import { boundaryOf, parts } from '../local/node/multipart.ts';
import { visible } from '../terminal/output.ts';

/** Reads a multipart body to its end or fault, in pieces of so many bytes. */
const multipart = (pieceBytes: number) => async (text: string) => {
  async function* body(): AsyncGenerator<Buffer> {
    for (let at = 0; at < text.length; at += pieceBytes) yield Buffer.from(text.slice(at, at + pieceBytes));
  }
  for await (const _ of parts(body(), 'x'));
};
const head = '--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n';

const cases: [string, (characters: number) => string, (text: string) => unknown][] = [
  ['a service’s sentence', repeated('', '\u001b'), visible],
  ['a service’s sentence of letters', repeated('', 'a'), visible],
  ['a boundary: parameters', repeated('multipart/form-data', ';a=b'), boundaryOf],
  ['a boundary: spaces', repeated('multipart/form-data;', ' ', 'x'), boundaryOf],
  ['a boundary: semicolons and spaces', repeated('multipart/form-data', '; '), boundaryOf],
  ['a boundary: almost names', repeated('multipart/form-data', ';boundary'), boundaryOf],
  ['a boundary without an end', repeated('multipart/form-data;boundary="', 'x'), boundaryOf],
  ['a multipart body: line breaks', repeated(head, '\r'), multipart(65_536)],
  ['a multipart body: almost delimiters', repeated(head, '\r\n--'), multipart(65_536)],
  ['a multipart body: parts', repeated('', head), multipart(65_536)],
  ['a multipart body: parts in small pieces', repeated('', `${head}\r\n`), multipart(7)],
  ['a multipart body: headers', repeated('--x\r\n', 'a: b\r\n'), multipart(65_536)],
  ['a multipart body: semicolons', repeated('--x\r\nContent-Disposition: a', '; '), multipart(65_536)],
];

test.each(cases)('%s takes time in proportion to its length', async (_, input, work) => {
  expect(await growth(input, work)).toBeLessThan(linear);
});
