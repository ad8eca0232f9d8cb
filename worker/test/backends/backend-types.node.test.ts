import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { configuredBackends } from '../../backends/backend-types.ts';
import { first, present } from '../../../testkit/present.ts';

const good = { id: 'kubo', type: 'kubo', url: 'https://kubo.example.com' };

const peer = { url: 'https://rest.example.com', ipfs: 'https://ipfs.example.com' };
const cluster = { id: 'c', type: 'cluster', peers: [peer], replication: { min: 1, max: 2 } };
const badPeers = 'PINNING_SERVICES[0] (c): peers must be a list of at least one {"url", "ipfs"}';
const badReplication =
  'PINNING_SERVICES[0] (c): replication must be {"min", "max"}, whole numbers from 1 with min not above max';

const types = 'kubo, cluster, psa, pinata, r2, s3';
const psa = { id: 'p', type: 'psa', url: 'https://psa.example.com', origins: ['/ip4/192.0.2.1/tcp/4001/p2p/12D3KooW'] };
const pinata = { id: 'i', type: 'pinata', tokenSecret: 'KEY' };
const keys = { keySecret: 'KEY', secretSecret: 'KEY' };
const bucket = { id: 's', type: 's3', url: 'https://s3.example.com/', bucket: 'files', ...keys };
const badOrigins =
  'PINNING_SERVICES[1] (p): origins must be a list of at most 20 multiaddresses, ' +
  'such as /dns4/kubo.example.com/tcp/4001/p2p/12D3…';

const parse = (value: unknown, secrets: Record<string, string> = {}) =>
  configuredBackends(typeof value === 'string' ? value : JSON.stringify(value), 'PINNING_SERVICES', {
    secretOf: (name) => secrets[name],
    bindingOf: () => undefined,
    serviceId: 'x',
    fetch,
  });

describe('PINNING_SERVICES', () => {
  it('sends no secret of the service itself to a backend, whatever entry names it', async () => {
    const manual = await readFile(join(import.meta.dirname, '../../../docs/operating.md'), 'utf8');
    const [settings = ''] = manual.split('\n## Settings\n').at(1)?.split('\n## ') ?? [];
    const rows = [...settings.matchAll(/^\| (`[^|]*) \|/gm)]
      .map(([row]) => row)
      .filter((row) => !row.includes('bindings'));
    const names = [...rows, 'BACKENDS PINNING_SERVICES'].flatMap((row) => row.match(/[A-Z][A-Z_]+[A-Z]/g) ?? []);
    expect(names).toEqual(expect.arrayContaining(['REPLICAS', 'ADMIN_TOKEN', 'METRICS_TOKEN', 'RESTORE_TOKEN']));
    const s3 = { id: 's3', type: 's3', url: 'https://s3.example.com', region: 'a', bucket: 'abc' };
    for (const name of names)
      for (const entry of [
        { ...good, tokenSecret: name },
        { ...s3, keySecret: name, secretSecret: 'S' },
        { ...s3, keySecret: 'S', secretSecret: name },
      ])
        expect(() => parse([entry], { S: 'secret', [name]: 'token' }), name).toThrow(
          `the secret ${name} has the name of one of the service itself`,
        );
  });

  it('gives the services in order, under their ids', () => {
    expect(
      parse([good, { ...good, id: 'second', url: 'https://second.example.com', headers: { 'x-a': 'b' } }]).map(
        ({ id }) => id,
      ),
    ).toEqual(['kubo', 'second']);
  });

  it.each([
    ['secret', 'Bearer secret'],
    ['Bearer secret', 'Bearer secret'],
    ['Basic dXNlcjpwYXNzd29yZA==', 'Basic dXNlcjpwYXNzd29yZA=='],
    ['user:password', 'Basic dXNlcjpwYXNzd29yZA=='],
    ['user:pä', 'Basic dXNlcjpww6Q='],
  ])('sends the secret %s and the headers to the address and its path', async (secret, authorization) => {
    const asked: [string, Headers][] = [];
    const fetcher = (async (url: string, init: RequestInit) => {
      asked.push([url, new Headers(init.headers)]);
      return new Response('{"Version":"1.2.3"}');
    }) as unknown as typeof fetch;
    const [service] = configuredBackends(
      JSON.stringify([{ ...good, url: 'https://kubo.example.com/path/', tokenSecret: 'T', headers: { 'x-a': 'b' } }]),
      'BACKENDS',
      { secretOf: () => secret, bindingOf: () => undefined, serviceId: 'x', fetch: fetcher },
    );
    expect(await present(service).ping(new AbortController().signal)).toEqual({ version: '1.2.3' });
    expect(first(asked)[0]).toBe('https://kubo.example.com/path/api/v0/version?');
    expect(first(asked)[1].get('authorization')).toEqual(authorization);
    expect(first(asked)[1].get('x-a')).toBe('b');
  });

  it('sends each secret of a cluster to its own addresses', async () => {
    const asked: [string, string | null][] = [];
    const fetcher = (async (url: string, init: RequestInit) => {
      asked.push([url, new Headers(init.headers).get('authorization')]);
      return new Response('{"id":"one","version":"1.2.3","ipfs":{},"Version":"0.43.1"}');
    }) as unknown as typeof fetch;
    const [service] = configuredBackends(
      JSON.stringify([{ ...cluster, tokenSecret: 'user:password', ipfsTokenSecret: 'token' }]),
      'BACKENDS',
      { secretOf: (name) => name, bindingOf: () => undefined, serviceId: 'x', fetch: fetcher },
    );
    const { signal } = new AbortController();
    const cid = 'bafkreiaaaebagbafaydqqcikbmga2dqpcaireeyuculbogazdinryhi6d4';
    expect(await present(service).ping(signal)).toEqual({ version: '1.2.3', peers: { answering: 1, listed: 1 } });
    if (service?.takes === 'blocks') await service.block(cid, signal).catch(() => undefined);
    expect(asked).toEqual([
      ['https://rest.example.com/id?', 'Basic dXNlcjpwYXNzd29yZA=='],
      ['https://ipfs.example.com/api/v0/version?', 'Bearer token'],
      [`https://ipfs.example.com/api/v0/block/get?arg=${cid}&offline=true`, 'Bearer token'],
    ]);
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
    [
      [bucket, { ...bucket, id: 'again', url: 'https://s3.example.com' }],
      'PINNING_SERVICES[1] (again): it is where s keeps its files: what is removed there is gone here',
    ],
    ...[
      ...[good, psa, pinata, bucket].flatMap((entry) =>
        ['/', '//'].flatMap((slashes) => {
          const [short, long] = [`https://one.example.com/a`, `https://one.example.com/a${slashes}`].map((url) => ({
            ...entry,
            url,
          }));
          const head = { ...good, id: 'head' };
          const again = { id: 'again' };
          return [
            [head, present(short), { ...long, ...again }],
            [head, present(long), { ...short, ...again }],
          ];
        }),
      ),
      [good, { ...good, id: 'again', url: 'https://kubo.example.com/' }],
      [cluster, { ...good, id: 'again', url: 'https://ipfs.example.com' }],
      [good, psa, { ...psa, id: 'again' }],
      [good, pinata, { ...pinata, id: 'again' }],
    ].map((entries): [unknown[], string] => [
      entries,
      `PINNING_SERVICES[${entries.length - 1}] (again): it is where ${present(entries.at(-2)).id} keeps its files: ` +
        'what is removed there is gone here',
    ]),
    [[{ ...good, type: 'ftp' }], `PINNING_SERVICES[0] (kubo): type must be one of ${types}`],
    [[{ ...good, type: 'constructor' }], `PINNING_SERVICES[0] (kubo): type must be one of ${types}`],
    [
      [psa, good],
      'PINNING_SERVICES[0] (p): the first service takes uploads, which come in parts, and psa does not: ' +
        'list another one before it',
    ],
    [[good, { ...psa, origins: '/ip4/192.0.2.1/tcp/4001/p2p/12D3KooW' }], badOrigins],
    [[good, { id: 'i', type: 'pinata' }], 'PINNING_SERVICES[1] (i): tokenSecret must be the name of a secret'],
    [
      [good, { id: 'i', type: 'pinata', tokenSecret: 'T', uploads: 'ftp://pinata' }],
      'PINNING_SERVICES[1] (i): uploads must be an http: or https: address without query',
    ],
    [[good, { ...psa, origins: ['https://kubo.example.com'] }], badOrigins],
    [[good, { ...psa, origins: Array.from({ length: 21 }, () => psa.origins[0]) }], badOrigins],
    [[{ ...good, type: 'car' }], 'PINNING_SERVICES[0] (kubo): the type car was removed: use psa'],
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
    [[{ ...cluster, peers: undefined }], badPeers],
    [[{ ...cluster, peers: [] }], badPeers],
    [[{ ...cluster, peers: peer }], badPeers],
    [[{ ...cluster, peers: ['https://rest.example.com'] }], badPeers],
    [[{ ...cluster, peers: [{ ...peer, weight: 1 }] }], badPeers],
    [
      [{ ...cluster, peers: [peer, { ...peer, ipfs: undefined }] }],
      'PINNING_SERVICES[0] (c): ipfs must be an http: or https: address without query',
    ],
    [
      [{ ...cluster, peers: [{ ...peer, ipfs: 'https://u:p@ipfs.example.com' }] }],
      'PINNING_SERVICES[0] (c): ipfs must not carry a password: name a secret in ipfsTokenSecret',
    ],
    [[{ ...cluster, replication: { min: 2, max: 1 } }], badReplication],
    [[{ ...cluster, replication: { min: 0, max: 1 } }], badReplication],
    [[{ ...cluster, replication: { min: 1 } }], badReplication],
    [[{ ...cluster, replication: 2 }], badReplication],
    [[{ ...cluster, ipfsTokenSecret: 'T' }], 'PINNING_SERVICES[0] (c): the secret T is not set'],
    [[{ ...cluster, url: 'https://rest.example.com' }], 'PINNING_SERVICES[0] (c): the field "url" is not known'],
    [[{ ...good, headers: ['a'] }], 'PINNING_SERVICES[0] (kubo): headers must be an object of strings that HTTP takes'],
  ])('names what is wrong in %j', (value, message) => {
    expect(() => parse(value, { KEY: 'k', BAD: 'a\nb' })).toThrow(
      expect.objectContaining({ code: 'misconfigured', message }),
    );
  });
});
