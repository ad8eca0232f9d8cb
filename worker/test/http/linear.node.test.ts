/**
 * No text in a request, nor in the answer of a pinning service, costs the Worker more than its
 * length.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { NewAccount, NewApiKey, ShareRequest } from '../../../shared/api.ts';
import { generateKeyPair } from '../../../shared/crypto/index.ts';
import { growth, linear, repeated } from '../../../testkit/growth.ts';
import { negotiate } from '../../http/accept.ts';
import type { Ctx } from '../../http/app.ts';
import { parseFilename } from '../../../shared/filename.ts';
import { attachment, parseDisposition } from '../../http/content-disposition.ts';
import { readJson } from '../../http/json-body.ts';
import { bearer } from '../../auth/authenticate.ts';
import { isNotModified, parseRange } from '../../http/conditions.ts';
import { networkOf } from '../../auth/rate-limit.ts';
import { rpc } from '../../backends/kubo/kubo-rpc.ts';
import { parseRecoveryText } from '../../objects/account/keys/recovery-file.ts';
import { client, jsonOf, type Init, pathOf } from '../../../testkit/api-client.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';

const post = (body: string): Request => new Request('http://x/', { method: 'POST', body });
/** A body within the limit of 64 KiB, which the larger one would pass by a little. */
const short = (text: string): string => text.slice(0, 65_536);
const account = (text: string): unknown => readJson(post(short(text)), NewAccount);
const apiKey = (text: string): unknown => readJson(post(short(text)), NewApiKey);
/** A body within 128 KiB. */
const share = (text: string): unknown => readJson(post(text.slice(0, 131_072)), ShareRequest, 131_072);
const known = (name: string) => (text: string) => isNotModified(new Headers([[name, text]]), '"a"');
const range = (text: string): unknown => parseRange(new Headers([['Range', text]]), '"a"', 100);
const accept = (text: string): unknown => negotiate(text, ['application/json', 'application/octet-stream']);
const authorization = (text: string): unknown => bearer({ req: { header: () => text } } as unknown as Ctx);
const kubo = (text: string): unknown =>
  rpc({ id: 'x', url: 'http://x', headers: {}, fetch }).parse(new Response(short(text)));

const cases: [string, (characters: number) => string, (text: string) => unknown][] = [
  ['a JSON body: a string of quotes without an end', repeated('"', '\\"'), account],
  ['a JSON body: quotes', repeated('', '"'), account],
  ['a JSON body: backslashes', repeated('"', '\\'), account],
  ['a JSON body: brackets', repeated('', '['), account],
  ['a JSON body: members', repeated('{"a":0', ',"a":0', '}'), account],
  ['a JSON body: other members', (size) => JSON.stringify(Object.fromEntries(numbers(size / 16))), account],
  ['a JSON body: scopes', scopesOf('read', 'keys'), apiKey],
  ['a JSON body: unknown scopes', scopesOf('x', 'y'), apiKey],
  ['a JSON body: a label', repeated('{"label":"', 'x', '","scopes":["read"]}'), apiKey],
  ['a JSON body: a time', repeated('{"label":"x","scopes":["read"],"expiresAt":"', '0', '"}'), apiKey],
  ['a share: a record', repeated('{"files":[],"password":false,"record":"', 'AAAA', '*"}'), share],
  ['a share: a record of padding', repeated('{"files":[],"password":false,"record":"', 'A=', '"}'), share],
  ['a share: files', repeated('{"record":"","password":false,"files":[""', ',"x"', ']}'), share],
  ['a recovery text: line breaks', repeated('', '\r\n'), parseRecoveryText],
  ['a recovery text: beginnings', repeated('', '-----BEGIN PRIVATE KEY-----'), parseRecoveryText],
  ['a recovery text: a block without an end', repeated('-----BEGIN PRIVATE KEY-----', 'A '), parseRecoveryText],
  ['a recovery text: secrets', repeated('', '# recovery: 0\n'), parseRecoveryText],
  ['a filename', repeated('', 'ä'), parseFilename],
  ['a filename in an answer', repeated('', '"'), attachment],
  ['Content-Disposition: quotes', repeated('attachment; filename="', '\\"'), parseDisposition],
  ['Content-Disposition: backslashes', repeated('attachment; filename="', '\\', '"'), parseDisposition],
  ['Content-Disposition: a token', repeated('', 'a', '"'), parseDisposition],
  ['Content-Disposition: spaces', repeated('attachment; filename', ' '), parseDisposition],
  [
    'Content-Disposition: parameters',
    (size) =>
      `a${numbers(size / 8)
        .map(([n]) => `;${n}=1`)
        .join('')}`,
    parseDisposition,
  ],
  ['Content-Disposition: percents', repeated("attachment; filename*=utf-8''", '%e2', '"'), parseDisposition],
  ['Content-Disposition: apostrophes', repeated('attachment; filename*=utf-8', "'"), parseDisposition],
  ['If-Match: quotes', repeated('', '"'), known('If-Match')],
  ['If-Match: a tag without an end', repeated('"', 'a'), known('If-Match')],
  ['If-None-Match: weak tags', repeated('', 'W/"a", '), known('If-None-Match')],
  ['If-None-Match: prefixes', repeated('', 'W/'), known('If-None-Match')],
  ['Range: digits', repeated('bytes=', '0', 'x'), range],
  ['Range: tabs', repeated('bytes=', '\t', 'x'), range],
  ['Accept: types', repeated('a/b', ',a/b'), accept],
  ['Accept: commas', repeated('', ','), accept],
  ['Accept: parameters', repeated('a/b', ';q=0'), accept],
  ['Accept: spaces', repeated('a', ' ', 'a'), accept],
  ['Authorization: spaces', repeated('bearer', ' '), authorization],
  ['Authorization: a token', repeated('bearer ', 'a', ' '), authorization],
  ['an address', repeated('', ':'), networkOf],
  ['an answer of Kubo: lines', repeated('', '\n', 'x'), kubo],
  ['an answer of Kubo: records', repeated('', '{}\n'), kubo],
];

function numbers(count: number): [string, number][] {
  return Array.from({ length: Math.floor(count) }, (_, index): [string, number] => [`n${index}`, index]);
}

/** Half of the list is one word, half is another. */
function scopesOf(one: string, other: string): (characters: number) => string {
  return (characters) => {
    const half = (word: string): string[] => Array.from({ length: characters / 16 }, () => word);
    return JSON.stringify({ label: 'x', scopes: [...half(one), ...half(other)] });
  };
}

it.each(cases)('%s takes time in proportion to its length', async (_, input, work) => {
  expect(await growth(input, work)).toBeLessThan(linear);
});

describe('over HTTP', () => {
  let service: Service;
  let key: string;
  let recoverable: string;
  beforeAll(async () => {
    service = await sharedService();
    ({ apiKey: key } = await service.account());
    const { publicPem } = await generateKeyPair();
    const made = client(service.url, adminToken).ask('createAccount', { label: 'x', recovery: publicPem });
    recoverable = (await jsonOf<{ account: { id: string } }>(made, 201)).account.id;
  });

  const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
  const recover = (id: () => string) => (text: string) =>
    ask(pathOf('recoverAccount', { id: id() }), { method: 'POST', body: short(text) });
  const upload = (text: string): Promise<void> =>
    ask('/v1/storage/plain', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: text });
  const header = (name: string, query: string) => (text: string) =>
    ask(`/ipfs/${cid}?${query}`, { headers: { [name]: text.slice(0, 60_000) } });
  const query = (path: string) => (text: string) => ask(`${path}?${text.slice(0, 60_000)}`, {});

  async function ask(path: string, init: Init): Promise<void> {
    const answer = await fetch(`${service.url}${path}`, {
      ...init,
      headers: { Authorization: `Bearer ${key}`, ...init.headers },
    });
    await answer.arrayBuffer();
    // Neither a fault, nor refused by the runtime before it came to the Worker.
    expect([414, 431, 500]).not.toContain(answer.status);
  }

  it.each<[string, (characters: number) => string, (text: string) => Promise<void>]>([
    ['recovery of no account', repeated('"', '\\"'), recover(() => '0'.repeat(22))],
    ['recovery', repeated('"', '\\"'), recover(() => recoverable)],
    ['an upload: escapes in data', repeated('{"data":"', '\\u0041', '"}'), upload],
    ['an upload: slashes in data', repeated('{"data":"', '\\/', '"}'), upload],
    ['an upload: a name', repeated('{"filename":"', '\\"'), upload],
    ['an upload: white space', repeated('{', ' '), upload],
    ['an upload: bytes above ASCII', repeated('{"data":"', 'ä', '"}'), upload],
    ['an upload: padding', repeated('{"data":"', '=', '"}'), upload],
    ['Accept of a CAR', repeated('application/vnd.ipld.car', '; '), header('Accept', 'format=car')],
    ['Accept of a CAR: almost names', repeated('application/vnd.ipld.car', ';version'), header('Accept', 'format=car')],
    ['Cache-Control', repeated('', 'only-if-'), header('Cache-Control', '')],
    ['entity-bytes', repeated('format=car&entity-bytes=', '0'), query(`/ipfs/${cid}`)],
    ['a query', repeated('', '&limit'), query('/v1/storage')],
    ['a query: percents', repeated('limit=', '%e2'), query('/v1/storage')],
    ['a cursor', repeated('cursor=', '1'), query('/v1/storage')],
  ])('%s takes time in proportion to its length', async (_, input, work) => {
    // A request on a busy machine may take this long for any other reason.
    expect(await growth(input, work, { floorMs: 20, isElsewhere: true })).toBeLessThan(linear);
  });
});
