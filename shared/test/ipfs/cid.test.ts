import { describe, expect, it } from 'vitest';
import { SealpinError } from '../../errors.ts';
import { cidFromV0, isCid, parseCid } from '../../ipfs/index.ts';

const raw = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku';

describe('parseCid', () => {
  it('takes CIDv1 in base32 with sha2-256, raw and dag-pb', () => {
    expect(parseCid(raw)).toMatchObject({ text: raw, codec: 'raw' });
    expect(parseCid(raw).digest).toHaveLength(32);
    expect(isCid(raw)).toBe(true);
    expect(parseCid('bafybeigmix7t42i6jacydtquhet7srwvgpizfg7gjbq7627d35mjomtu64').codec).toBe('dag-pb');
  });

  it.each([
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
  ])('S66: refuses %s', (_, text) => {
    expect(() => parseCid(text)).toThrow(SealpinError);
    expect(isCid(text)).toBe(false);
    expect(() => parseCid(text)).toThrow(expect.objectContaining({ code: 'invalid_cid' }));
  });

  it('S66: does not repeat what is absurdly long', () => {
    expect(() => parseCid('b'.repeat(100_000))).toThrow('The blob ID is not valid');
  });
});

describe('cidFromV0', () => {
  it('is the CIDv1 of the same block', () => {
    // As `ipfs cid base32` of Kubo 0.42 prints it.
    const v1 = 'bafybeihykld7uyxzogax6vgyvag42y7464eywpf55gxi5qpoisibh3c5wa';
    expect(cidFromV0('Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD')).toEqual(parseCid(v1));
  });

  it.each([
    raw,
    'Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyf0',
    'Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfDD',
    '',
  ])('is none of %j', (text) => expect(cidFromV0(text)).toBeUndefined());
});
