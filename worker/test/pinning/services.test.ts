import { describe, expect, it } from 'vitest';
import { pinningServices } from '../../pinning/services.ts';

const good = { id: 'kubo', type: 'kubo', url: 'https://kubo.example.com' };

const parse = (value: unknown, secrets: Record<string, string> = {}) =>
  pinningServices(typeof value === 'string' ? value : JSON.stringify(value), {
    secretOf: (name) => secrets[name],
    pinName: 'sealpin:x',
    fetch,
  });

describe('PINNING_SERVICES', () => {
  it('gives the services in order, under their ids', () => {
    expect(parse([good, { ...good, id: 'second', headers: { 'x-a': 'b' } }]).map(({ id }) => id)).toEqual([
      'kubo',
      'second',
    ]);
  });

  it.each([
    ['secret', 'Bearer secret'],
    ['Bearer secret', 'Bearer secret'],
    ['Basic dXNlcjpwYXNzd29yZA==', 'Basic dXNlcjpwYXNzd29yZA=='],
  ])('sends the secret %s and the headers to the address and its path', async (secret, authorization) => {
    const asked: [string, Headers][] = [];
    const fetcher = (async (url: string, init: RequestInit) => {
      asked.push([url, new Headers(init.headers)]);
      return new Response('{"Version":"1.2.3"}');
    }) as unknown as typeof fetch;
    const [service] = pinningServices(
      JSON.stringify([{ ...good, url: 'https://kubo.example.com/path/', tokenSecret: 'T', headers: { 'x-a': 'b' } }]),
      { secretOf: () => secret, pinName: 'sealpin:x', fetch: fetcher },
    );
    expect(await service!.ping(new AbortController().signal)).toEqual({ version: '1.2.3' });
    expect(asked[0]![0]).toBe('https://kubo.example.com/path/api/v0/version?');
    expect([asked[0]![1].get('authorization'), asked[0]![1].get('x-a')]).toEqual([authorization, 'b']);
  });

  it.each<[unknown, string]>([
    ['', 'PINNING_SERVICES is not JSON'],
    ['[', 'PINNING_SERVICES is not JSON'],
    ['{}', 'PINNING_SERVICES must be a list of at least one object'],
    [[], 'PINNING_SERVICES must be a list of at least one object'],
    [[good, 5], 'PINNING_SERVICES must be a list of at least one object'],
    [[{ ...good, id: undefined }], 'PINNING_SERVICES[0]: id must be 1 to 32 of a-z, 0-9 and -'],
    [[{ ...good, id: 'Kubo' }], 'PINNING_SERVICES[0] (Kubo): id must be 1 to 32 of a-z, 0-9 and -'],
    [[good, good], 'PINNING_SERVICES[1] (kubo): duplicate id'],
    [[{ ...good, type: 'pinata' }], 'PINNING_SERVICES[0] (kubo): type must be one of kubo'],
    [[{ ...good, type: 'constructor' }], 'PINNING_SERVICES[0] (kubo): type must be one of kubo'],
    [[{ ...good, token: 'x' }], 'PINNING_SERVICES[0] (kubo): the field "token" is not known'],
    [[{ ...good, a: 1 }], 'PINNING_SERVICES[0] (kubo): the field "a" is not known'],
    [[{ id: 'x', type: 'kubo' }], 'PINNING_SERVICES[0] (x): url must be an http: or https: address without query'],
    [
      [{ ...good, url: 'kubo:5001' }],
      'PINNING_SERVICES[0] (kubo): url must be an http: or https: address without query',
    ],
    [
      [{ ...good, url: 'https://kubo.example.com/?a=b' }],
      'PINNING_SERVICES[0] (kubo): url must be an http: or https: address without query',
    ],
    [
      [{ ...good, url: 'https://u:p@kubo.example.com/' }],
      'PINNING_SERVICES[0] (kubo): url must not carry a password: name a secret in tokenSecret',
    ],
    [[{ ...good, url: 5 }], 'PINNING_SERVICES[0] (kubo): url must be an http: or https: address without query'],
    [[{ ...good, tokenSecret: 'T' }], 'PINNING_SERVICES[0] (kubo): the secret T is not set'],
    [
      [{ ...good, tokenSecret: 'BAD' }],
      'PINNING_SERVICES[0] (kubo): the secret BAD has characters that HTTP does not take',
    ],
    [[{ ...good, tokenSecret: 5 }], 'PINNING_SERVICES[0] (kubo): tokenSecret must be the name of a secret'],
    [
      [{ ...good, headers: { a: 5 } }],
      'PINNING_SERVICES[0] (kubo): headers must be an object of strings that HTTP takes',
    ],
    [
      [{ ...good, headers: { 'a b': 'c' } }],
      'PINNING_SERVICES[0] (kubo): headers must be an object of strings that HTTP takes',
    ],
    [[{ ...good, headers: ['a'] }], 'PINNING_SERVICES[0] (kubo): headers must be an object of strings that HTTP takes'],
  ])('names what is wrong in %j', (value, message) => {
    expect(() => parse(value, { BAD: 'a\nb' })).toThrow(expect.objectContaining({ code: 'misconfigured', message }));
  });
});
