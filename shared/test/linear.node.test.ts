/** No untrusted text costs the shared rooms more than its length. */
import { expect, it } from 'vitest';
import { open, parseApiKey, parseIdentities, parsePassword, parseRecipients } from '../crypto/index.ts';
import { parseCid } from '../ipfs/index.ts';
import { carReader } from '../ipfs/car-reader.ts';
import { parseFilename } from '../filename.ts';
import { parseLink, parseParcel } from '../link/index.ts';
import { growth, linear, repeated } from '../../testkit/growth.ts';
import { present } from '../../testkit/present.ts';

const streamOf = (text: string): ReadableStream<Uint8Array> => new Blob([text]).stream();
const container = async (text: string): Promise<void> => {
  const opened = await open(streamOf(text));
  if (opened.kind === 'age') await opened.decrypt(parseIdentities('x'));
};
const header = 'age-encryption.org/v1\n';
const password = (text: string): string => parsePassword(new TextEncoder().encode(text));
const parcel = (text: string): unknown => parseParcel(new TextEncoder().encode(text));
/** A CAR whose header is this text, after its length as a varint of three bytes. */
const car = (text: string): Promise<unknown> => {
  const { length } = text;
  const varint = Uint8Array.of((length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80, length >> 14);
  return carReader(new Blob([varint, text]).stream()).next();
};

const cases: [string, (characters: number) => string, (text: string) => unknown][] = [
  ['a blob ID', repeated('b', 'a'), parseCid],
  ['a blob ID with a wrong end', repeated('b', 'a', '!'), parseCid],
  ['an API key', repeated('sp_', '0'), parseApiKey],
  ['a private key: one line', repeated('', 'a'), parseIdentities],
  ['a private key: a PEM block', repeated('-----BEGIN PRIVATE KEY-----\n', 'A'), parseIdentities],
  ['a private key: beginnings', repeated('', '-----BEGIN A-----\n'), parseIdentities],
  ['a private key: almost beginnings', repeated('', '-----BEGIN '), parseIdentities],
  ['a private key: blocks', repeated('', '-----BEGIN A-----\n-----END A-----\n'), parseIdentities],
  ['a private key: line breaks', repeated('', '\r', 'x'), parseIdentities],
  ['a private key: spaces', repeated('', ' ', 'x'), parseIdentities],
  ['a private key: comments', repeated('', '# recipient: x\n'), parseIdentities],
  ['a private key: Bech32', repeated('AGE-SECRET-KEY-1', 'Q'), parseIdentities],
  ['a public key: Bech32', repeated('age1', 'q'), parseRecipients],
  ['a public key: separators', repeated('age1', '1'), parseRecipients],
  ['a public key: almost private ones', repeated('', 'SEALPIN-SECRET-'), parseRecipients],
  ['a public key: lines', repeated('', 'age1q\n'), parseRecipients],
  ['a password', repeated('', '\r', 'x'), password],
  ['a password: line breaks', repeated('', '\n'), password],
  ['a container: nothing known', repeated('', 'a'), container],
  ['a container: spaces before armor', repeated('', ' '), container],
  ['a container: arguments', repeated(`${header}->`, ' a', '\n'), container],
  ['a container: arguments with a wrong end', repeated(`${header}->`, ' a', ' \n'), container],
  ['a container: one argument', repeated(`${header}-> `, 'a', '\u0001\n'), container],
  ['a container: stanzas', repeated(header, '-> a\n\n'), container],
  ['a container: lines of a body', repeated(`${header}-> a\n`, `${'A'.repeat(64)}\n`), container],
  ['a container: no line break', repeated(header, '-'), container],
  ['armor: lines', repeated('-----BEGIN AGE ENCRYPTED FILE-----\n', `${'A'.repeat(64)}\n`), container],
  ['armor: short lines', repeated('-----BEGIN AGE ENCRYPTED FILE-----\n', '\n'), container],
  ['the header of a CAR', repeated('', 'g'), car],
  ['a link', repeated('https://a.example/s#1', '0'), parseLink],
  ['a link: what is before it', repeated('', '<', 'https://a.example/s#1'), parseLink],
  ['a link: encoded marks', repeated('https://a.example/', '%2'), parseLink],
  ['a link: a path', repeated('https://a.example', '/', 's#'), parseLink],
  ['a link: a query', repeated('https://a.example/s?', '%23?'), parseLink],
  ['a link: dots', repeated('https://a.example/b#b', '.'), parseLink],
  ['a filename', repeated('', 'a', '/'), parseFilename],
  ['a parcel: no JSON', repeated('', '['), parcel],
  ['a parcel: files', repeated('{"v":1,"files":[0', ',{}', ']}'), parcel],
  ['a parcel: a note', repeated('{"v":1,"files":[0],"note":"', 'a', '"}'), parcel],
];

it.each(cases)('%s takes time in proportion to its length', async (_, input, work) => {
  expect(await growth(input, work)).toBeLessThan(linear);
});

it('a container that arrives byte by byte takes time in proportion to its length', async () => {
  const pieces = (text: string): ReadableStream<Uint8Array> => {
    const bytes = new TextEncoder().encode(text);
    let at = 0;
    return new ReadableStream({
      pull(controller) {
        if (at === bytes.length) controller.close();
        else controller.enqueue(bytes.subarray(at, (at += 1)));
      },
    });
  };
  expect(await growth(repeated(`${header}-> `, 'a'), (text) => open(pieces(text)))).toBeLessThan(linear);
});

it('a container that arrives byte by byte keeps no buffer for each byte', async () => {
  const text = new TextEncoder().encode(`${header}-> ${'a'.repeat(4000)}`);
  const before = process.memoryUsage().arrayBuffers;
  let after = 0;
  let at = 0;
  const bytes = new ReadableStream({
    type: 'bytes',
    pull(controller) {
      const { view } = present(controller.byobRequest);
      if (at === text.length) {
        after = process.memoryUsage().arrayBuffers;
        controller.close();
        return present(controller.byobRequest).respond(0);
      }
      (view as Uint8Array)[0] = present(text[at]);
      at += 1;
      return present(controller.byobRequest).respond(1);
    },
  });
  await expect(open(bytes)).rejects.toMatchObject({ code: 'header_invalid' });
  // A buffer of 64 KiB for each of 4,000 bytes is 250 MiB.
  expect(after - before).toBeLessThan(16 * 1024 * 1024);
});

// Work beside the small inputs makes the ratio smaller: one measurement in four must be
// undisturbed.
it('the measurement notices quadratic work', { retry: 3 }, async () => {
  const search = (text: string): number => {
    let sum = 0;
    for (let at = 0; at < text.length; at += 256) sum += text.indexOf('ab', at);
    return sum;
  };
  expect(await growth(repeated('', 'a'), search, { attempts: 2 })).toBeGreaterThan(linear);
});
