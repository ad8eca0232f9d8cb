import { cidFromV0, isCid, parseCid } from '../../../ipfs/index.ts';
import { equal, failedWith, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { present } from '../../../../testkit/present.ts';

const raw = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku';

const refused: readonly (readonly [what: string, text: string])[] = [
  ['nothing', ''],
  ['CIDv0', 'QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH'],
  ['upper case', raw.toUpperCase()],
  ['mixed case', raw.replace('d', 'D')],
  ['base58btc', 'zb2rhe5P4gXftAwvA4eXQ5HJwsER2owDyS9sKaQRRVQPn93bA'],
  ['base16', 'f01551220e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
  ['the identity CID', 'bafkqaaa'],
  ['dag-cbor', 'bafyreieqdd2ktomsknbq35kc6xpm4hzbpzqxxkxvk35bbh3ez7ir7bj6mi'],
  [
    'sha2-512',
    'bafkrgqgxubhxe4b2vzxjwqgqhrwwkqtmc7hhvzt3hh6qs4gfqrvyxghsvlyfrfxvbafnk3mhkugwvhrpvwjlcl3gdcctkmqcrerxoz6i',
  ],
  ['one character less', raw.slice(0, -1)],
  ['one character more', `${raw}a`],
  ['padding', `${raw}=`],
  ['a path', `${raw}/file`],
  ['a traversal', `${raw}/../../etc`],
  ['an /ipfs/ path', `/ipfs/${raw}`],
  ['a query', `${raw}?format=raw`],
  ['spaces around', ` ${raw} `],
  ['a digit that base32 lacks', raw.replace('h', '1')],
  ['another spelling of the same bytes', `${raw.slice(0, -1)}v`],
  ['a NUL', `${raw.slice(0, -1)}\0`],
];

/** The text of CIDs, of version 1 and 0. */
export function cids(tool: Tool): void {
  tool.test('parseCid takes CIDv1 in base32 with sha2-256, raw and dag-pb', () => {
    const { text, codec, digest } = parseCid(raw);
    equal([text, codec, digest.length], [raw, 'raw', 32]);
    ok(isCid(raw), 'it is a CID');
    equal(parseCid('bafybeigmix7t42i6jacydtquhet7srwvgpizfg7gjbq7627d35mjomtu64').codec, 'dag-pb');
  });

  for (const [what, text] of refused)
    tool.test(`S66: parseCid refuses ${what}`, async () => {
      await fails('invalid_cid', () => parseCid(text));
      ok(!isCid(text), 'it is no CID');
    });

  tool.test('S66: parseCid does not repeat what is absurdly long', () => {
    let error: unknown;
    try {
      parseCid('b'.repeat(100_000));
    } catch (thrown) {
      error = thrown;
    }
    failedWith('invalid_cid', error);
    ok(!String(error).includes('bbbb'), 'the message does not repeat it');
  });

  tool.test('cidFromV0 is the CIDv1 of the same block', () => {
    // As `ipfs cid base32` of Kubo 0.42 prints it.
    const v1 = parseCid('bafybeihykld7uyxzogax6vgyvag42y7464eywpf55gxi5qpoisibh3c5wa');
    const converted = present(cidFromV0('Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD'));
    equal([converted.text, converted.codec], [v1.text, v1.codec]);
    equal(converted.digest, v1.digest);
  });

  for (const text of [
    raw,
    'Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyf0',
    'Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfDD',
    '',
  ])
    tool.test(`cidFromV0 is none of "${text}"`, () => ok(cidFromV0(text) === undefined, 'it is a CIDv0'));
}
