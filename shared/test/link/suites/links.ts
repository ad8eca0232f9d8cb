import * as fc from 'fast-check';
import vectors from '../../vectors/links/links.json' with { type: 'json' };
import { newAccountId, newApiKey, generateKeyPair, type CryptoProvider } from '../../../crypto/index.ts';
import { encodeBase62 } from '../../../crypto/keys/base62.ts';
import { isSealpinError } from '../../../errors.ts';
import { cidOf } from '../../../ipfs/index.ts';
import { isShareId, parseLink, printLink, type Link } from '../../../link/index.ts';
import { equal, failedWith, ok, type Tool } from '../../../../testkit/assertions.ts';
import { fromHex, hex } from '../../crypto/streams.ts';

/** A link with its bytes in hex, so that two of them can be compared. */
const shown = (link: Link): Record<string, string> =>
  Object.fromEntries(
    Object.entries(link)
      .map(([name, value]): [string, string] => [name, value instanceof Uint8Array ? hex(value) : value])
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );

/**
 * Returns the result of parsing a text: the link, printed, or the code and reason of the failure.
 */
function outcome(text: string): string {
  try {
    return printLink(parseLink(text).link);
  } catch (error) {
    if (!isSealpinError(error)) throw error;
    return [error.code, error.reason].join(' ');
  }
}

const incomplete = 'link_invalid incomplete';
const notALink = 'link_invalid not_a_link';

/** The grammar of links. */
export function links(tool: Tool, provider: CryptoProvider): void {
  const numRuns = tool.long ? 20_000 : 300;

  const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
  const service = fc.constantFrom('https://sealpin.example/', 'http://127.0.0.1:7420/', 'https://example.org/a/b-c/');
  const cid = fc.tuple(fc.constantFrom('raw', 'dag-pb'), bytes(32)).map(([codec, digest]) => cidOf(codec, digest).text);
  /** Links of all kinds; API keys and recipients take too long to be made for each. */
  const anyLink = async (): Promise<fc.Arbitrary<Link>> => {
    const inboxes = await Promise.all(
      [1, 2, 3].map(async () => ({
        kind: 'inbox' as const,
        apiKey: (await newApiKey(newAccountId(provider), provider)).text,
        recipient: (await generateKeyPair(provider)).recipient,
      })),
    );
    return fc.oneof(
      fc.record({ kind: fc.constant('share'), service, id: bytes(16).map(encodeBase62), secret: bytes(32) }),
      fc.record({ kind: fc.constant('blob'), service, cid }),
      fc.record({ kind: fc.constant('blob'), service, cid, fileKey: fc.oneof(bytes(16), bytes(32)) }),
      fc.tuple(fc.constantFrom(...inboxes), service).map(([inbox, service]) => ({ ...inbox, service })),
      fc
        .tuple(fc.constantFrom(...inboxes), service)
        .map(([{ apiKey }, service]) => ({ kind: 'invitation', apiKey, service })),
    ) as fc.Arbitrary<Link>;
  };

  tool.test(`link vectors: ${vectors.links.length} are printed and parsed`, () => {
    for (const { link, ...parts } of vectors.links) {
      const expected = {
        ...parts,
        ...('secret' in parts && { secret: fromHex(parts.secret) }),
        ...('fileKey' in parts && { fileKey: fromHex(parts.fileKey) }),
      } as Link;
      equal(printLink(expected), link);
      const { link: parsed, exposed } = parseLink(link);
      equal(shown(parsed), shown(expected), link);
      equal(exposed, false);
    }
  });

  tool.test(`link vectors: ${vectors.read.length} that were changed on their way are read`, () => {
    for (const { why, text, link, exposed } of vectors.read) {
      equal(outcome(text), link, why);
      equal(parseLink(text).exposed, exposed ?? false, why);
    }
  });

  tool.test(`link vectors: ${vectors.refused.length} are refused`, () => {
    for (const { why, text, reason, code } of vectors.refused)
      equal(outcome(text), reason === undefined ? `${code} ` : `link_invalid ${reason}`, why);
  });

  tool.test('what is printed is parsed to the same link', async () => {
    fc.assert(
      fc.property(await anyLink(), (link) => {
        const { link: parsed, exposed } = parseLink(printLink(link));
        equal(shown(parsed), shown(link));
        equal(exposed, false);
      }),
      { numRuns },
    );
  });

  tool.test(
    'a fragment has letters, digits, a dot and the underscore of an API key, and the length of its kind',
    async () => {
      const forms = {
        share: /^1[0-9A-Za-z]{71}$/,
        blob: /^b[a-z2-7]{58}(?:\.(?:[0-9A-Za-z]{28}|[0-9A-Za-z]{49}))?$/,
        inbox: /^sp_[0-9A-Za-z]{71}\.age1tag1[0-9a-z]{59}$/,
        invitation: /^sp_[0-9A-Za-z]{71}$/,
      };
      fc.assert(
        fc.property(await anyLink(), (link) => {
          const [, fragment = ''] = printLink(link).split('#');
          ok(forms[link.kind].test(fragment), fragment);
        }),
        { numRuns },
      );
    },
  );

  tool.test(
    'S85: a link that was cut off at any length is refused, or it is the blob ID that it begins with',
    async () => {
      fc.assert(
        fc.property(await anyLink(), fc.nat(), (link, at) => {
          const whole = printLink(link);
          const cut = whole.slice(0, at % whole.length);
          const bare =
            link.kind === 'blob' ? printLink({ kind: 'blob', service: link.service, cid: link.cid }) : undefined;
          const isBare = cut === bare || cut === `${bare}.`;
          ok([isBare ? bare : incomplete, isBare ? bare : notALink].includes(outcome(cut)), `${cut}: ${outcome(cut)}`);
        }),
        { numRuns },
      );
    },
  );

  tool.test(
    'S85: a link with a character replaced, dropped, doubled or in the other case is never another link',
    async () => {
      const letter = fc.constantFrom(...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'.split(''));
      const change = fc.oneof(
        letter.map((other) => () => other),
        fc.constantFrom(
          () => '',
          (character: string) => character + character,
          (character: string) =>
            character === character.toLowerCase() ? character.toUpperCase() : character.toLowerCase(),
        ),
      );
      fc.assert(
        fc.property(await anyLink(), fc.nat(), change, (link, position, change) => {
          const whole = printLink(link);
          const start = whole.indexOf('#') + 1;
          const at = start + (position % (whole.length - start));
          const changed = whole.slice(0, at) + change(whole.charAt(at)) + whole.slice(at + 1);
          // A bare blob ID has no checksum: a letter of it that is replaced gives another one.
          const isOtherBlob = link.kind === 'blob' && link.fileKey === undefined && changed.length === whole.length;
          const found = outcome(changed);
          ok(
            found === incomplete ||
              found === 'unsupported_version ' ||
              found === whole ||
              (isOtherBlob && found === changed),
            `${changed}: ${found}`,
          );
          ok(found !== whole || changed === whole || changed.startsWith(whole), `${changed} is taken for ${whole}`);
        }),
        { numRuns },
      );
    },
  );

  tool.test('S85: a link in all capitals, or all small letters, is never another link', async () => {
    fc.assert(
      fc.property(await anyLink(), fc.boolean(), (link, capitals) => {
        const whole = printLink(link);
        const changed = capitals ? whole.toUpperCase() : whole.toLowerCase();
        ok([whole, incomplete, notALink].includes(outcome(changed)), `${changed}: ${outcome(changed)}`);
      }),
      { numRuns },
    );
  });

  tool.test(
    'S85: what surrounds a link, or was appended to it, does not change it; an encoded # is reported',
    async () => {
      const before = fc.constantFrom('', ' ', '\n\t', '<', '"', '“', '„', '«', '(', '[', '[(', '>> ', '* ');
      const appended = fc.constantFrom(
        '',
        '&utm_source=a&utm_medium=b',
        '&fbclid=IwAR0_x',
        '&amp;x=1',
        '?x=1',
        '/',
        '#x',
        '%20',
      );
      const after = fc.constantFrom(
        '',
        ' ',
        '\r\n',
        '>',
        '"',
        '”',
        '»',
        ')',
        '].',
        '.',
        '…',
        ', and more',
        '!\n-- \nAnn',
      );
      const mark = fc.constantFrom('#', '%23', '?utm_source=a#', '/#');
      fc.assert(
        fc.property(await anyLink(), before, mark, appended, after, (link, before, mark, appended, after) => {
          const whole = printLink(link);
          const text = `${before}${whole.replace('#', mark)}${appended}${after}`;
          equal(outcome(text), whole, JSON.stringify(text));
          equal(parseLink(text).exposed, mark === '%23', text);
        }),
        { numRuns },
      );
    },
  );

  tool.test('no text makes the reader of links throw anything but its codes', () => {
    const part = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('https://', 'a.example', '/s', '/b', '#', '%23', '1'),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
        try {
          parseLink(parts.join(''));
        } catch (error) {
          failedWith(['link_invalid', 'unsupported_version'], error);
        }
      }),
      { numRuns: tool.long ? numRuns * 5 : numRuns },
    );
    equal(outcome('https://a.example/s#'.padEnd(8193, '1')), notALink, 'a text that is too long');
  });

  tool.test('a refusal does not repeat any of the link', () => {
    const secret = 'Zz9Zz9Zz9Zz9Zz9';
    for (const text of [`https://a.example/s#1${secret}`, `https://a.example/${secret}`, secret]) {
      try {
        parseLink(text);
      } catch (error) {
        ok(!String(error).includes(secret) && isSealpinError(error), String(error));
        continue;
      }
      throw new Error('it is read');
    }
  });

  tool.test('a link with malformed parts is not printed', () => {
    const [share] = vectors.links as unknown as [{ id: string }];
    const good = { kind: 'share', service: 'https://a.example/', id: share.id, secret: new Uint8Array(32) } as const;
    const { cid } = vectors.links.find(({ kind }) => kind === 'blob') as { cid: string };
    const inbox = vectors.links.find(({ kind }) => kind === 'inbox') as unknown as Link & { kind: 'inbox' };
    ok(printLink(good) !== '', 'the good one');
    for (const link of [
      { ...good, id: good.id.slice(1) },
      { ...good, id: 'z'.repeat(22) },
      { ...good, secret: new Uint8Array(31) },
      { ...good, secret: new Uint8Array(33) },
      ...[
        'https://a.example',
        'https://a.example/?x',
        'https://a.example/#',
        'ftp://a.example/',
        'https://u@a.example/',
        'x',
      ].map((service) => ({ ...good, service })),
      { kind: 'blob', service: good.service, cid: cid.slice(1) },
      { kind: 'blob', service: good.service, cid, fileKey: new Uint8Array(31) },
      { ...inbox, apiKey: inbox.apiKey.slice(1) },
      { ...inbox, kind: 'invitation', apiKey: inbox.apiKey.slice(1) },
      { ...inbox, kind: 'invitation', apiKey: inbox.apiKey.replace('R9vns', 'R9vnt') },
      { ...inbox, recipient: 'age1x' },
      { ...inbox, recipient: inbox.recipient.toUpperCase() },
    ] as Link[]) {
      try {
        printLink(link);
      } catch (error) {
        ok(error instanceof TypeError, String(error));
        continue;
      }
      throw new Error(`${JSON.stringify(link)} is printed`);
    }
  });

  tool.test('the ID of a share has 128 bits in 22 characters', () => {
    ok(isShareId(encodeBase62(new Uint8Array(16).fill(255))), 'the highest');
    for (const text of ['', '0'.repeat(21), '0'.repeat(23), 'z'.repeat(22), `${'0'.repeat(21)}-`])
      ok(!isShareId(text), text);
  });
}
