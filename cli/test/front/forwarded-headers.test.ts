import { describe, expect, test } from 'vitest';
import { forwardedHeaders } from '../../local/front/forwarded-headers.ts';
import { parseProxies } from '../../local/front/proxies.ts';

const o = { hosts: ['files.example.com', 'files.example.com:443'], peer: '127.0.0.1', method: 'GET' };
const host = ['Host', 'files.example.com'];

/** Spellings of a name: letters in every case that differs, and hyphens as underscores. */
function spellings(name: string): string[] {
  const cases = [
    name,
    name.toLowerCase(),
    name.toUpperCase(),
    name.replace(/[a-z]/gi, (c, i: number) => (i % 2 === 0 ? c.toLowerCase() : c.toUpperCase())),
  ];
  return [...new Set(cases.flatMap((each) => [each, each.replaceAll('-', '_'), each.replace('-', '_')]))];
}

const speaking = [
  'CF-Connecting-IP',
  'CF-Connecting-IPv6',
  'CF-Ray',
  'CF-Visitor',
  'CF-IPCountry',
  'CF-Worker',
  'True-Client-IP',
  'X-Forwarded-For',
  'X-Forwarded-Host',
  'X-Forwarded-Proto',
  'X-Forwarded-Port',
  'X-Forwarded-By',
  'X-Forwarded',
  'Forwarded',
  'X-Real-IP',
  'MF-CF-Blob',
  'MF-Original-URL',
  'MF-Route-Override',
  'Sealpin-Front',
  'Sealpin-Control',
];
const ofConnections = [
  'Connection',
  'Keep-Alive',
  'Proxy-Connection',
  'Proxy-Authorization',
  'TE',
  'Trailer',
  'Upgrade',
];

describe('a header that speaks of the client', () => {
  test.each(speaking.filter((name) => name !== 'X-Forwarded-For').flatMap(spellings))('is removed as %s', (name) => {
    const forwarded = forwardedHeaders([...host, name, '192.0.2.66', 'Accept', '*/*', name, '192.0.2.67'], o);
    expect(forwarded).toMatchObject({
      headers: ['Host', 'files.example.com', 'Accept', '*/*', 'CF-Connecting-IP', '127.0.0.1'],
    });
  });

  test.each(ofConnections.flatMap(spellings))('of one connection is not passed on as %s', (name) => {
    const forwarded = forwardedHeaders([...host, name, 'x'], o);
    expect(forwarded).toMatchObject({ headers: [...host, 'CF-Connecting-IP', '127.0.0.1'] });
  });

  test('leaves those alone that only look like it', () => {
    const others = [
      'X-Forward',
      '1',
      'XF-A',
      '1',
      'My-CF-Ray',
      '1',
      'Sealpin-Password',
      '1',
      'X-HTTP-Method-Override',
      'PUT',
    ];
    expect(forwardedHeaders([...host, ...others], o)).toMatchObject({
      headers: [...host, ...others, 'CF-Connecting-IP', '127.0.0.1'],
    });
  });
});

describe('the address of a client', () => {
  test.each([
    [['X-Forwarded-For', '203.0.113.9'], '203.0.113.9'],
    [['x-forwarded-for', '10.9.9.9, 203.0.113.9'], '203.0.113.9'],
    [['X-Forwarded-For', 'unknown', 'X-Forwarded-For', '203.0.113.9'], '203.0.113.9'],
    [['X-Forwarded-For', '2001:db8::7'], '2001:db8::7'],
    [['X-Forwarded-For', '::ffff:203.0.113.9'], '203.0.113.9'],
    [['X_Forwarded_For', '203.0.113.66'], '127.0.0.1'],
    [[], '127.0.0.1'],
  ])('is the last that the proxy names: %j', (headers, address) => {
    expect(forwardedHeaders([...host, ...headers], o)).toMatchObject({ address });
  });

  test.each([
    '',
    ' ',
    'unknown',
    '203.0.113.9:4711',
    '[2001:db8::7]',
    '203.0.113.9,',
    '203.0.113',
    'fe80::1%eth0',
    '203.0.113.9 x',
    '203.0.113.09',
  ])('that is malformed is refused: %j', (value) => {
    expect(forwardedHeaders([...host, 'X-Forwarded-For', value], o)).toMatchObject({ status: 400 });
  });
});

describe('a Host', () => {
  test.each(['files.example.com', 'FILES.example.COM', 'files.example.com:443'])(
    'of the service is taken: %s',
    (value) => {
      expect(forwardedHeaders(['hOST', value], o)).toHaveProperty('headers');
    },
  );

  test.each([
    '127.0.0.1:7420',
    'localhost',
    '[::1]:7420',
    'evil.example',
    'files.example.com.',
    'files.example.com:80',
    'x.files.example.com',
    'files.example.com@evil.example',
    '',
  ])('of another one is refused: %j', (value) => {
    expect(forwardedHeaders(['Host', value], o)).toMatchObject({ status: 421 });
  });

  test('given twice, or not at all, is refused', () => {
    expect(forwardedHeaders([...host, ...host], o)).toMatchObject({ status: 421 });
    expect(forwardedHeaders([...host, 'HOST', 'evil.example'], o)).toMatchObject({ status: 421 });
    expect(forwardedHeaders([], o)).toMatchObject({ status: 421 });
  });
});

describe('--proxy', () => {
  test('is this machine by default, which the listener does not leave', () => {
    const { has, hosts } = parseProxies(undefined);
    expect(hosts).toEqual(['127.0.0.1', '::1']);
    expect(['127.0.0.1', '::1', '::ffff:127.0.0.1'].map(has)).toEqual([true, true, true]);
    expect(['127.0.0.2', '10.0.0.1', '::ffff:10.0.0.1', '::2', '', undefined].map(has)).not.toContain(true);
  });

  test('takes addresses and blocks', () => {
    const { has, hosts } = parseProxies('10.0.0.2, 192.168.4.0/22,2001:db8::/64');
    expect(hosts).toBeUndefined();
    expect(['10.0.0.2', '::ffff:10.0.0.2', '192.168.7.255', '2001:db8::9', '2001:db8::9%eth0'].map(has)).not.toContain(
      false,
    );
    expect(['10.0.0.3', '192.168.8.0', '2001:db8:0:1::1', '127.0.0.1', '::1'].map(has)).not.toContain(true);
  });

  test.each([
    '',
    'caddy',
    '10.0.0.0/33',
    '10.0.0.0/0',
    '::/0',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.1,',
    'fe80::1%eth0',
    '10.0.0.0/08',
    '::/129',
    '10.0.0.1:80',
  ])('refuses %j', (text) => {
    expect(() => parseProxies(text)).toThrow('is neither an address nor a CIDR block');
  });
});
