/** The adapter for hosted services before some that break off, contradict themselves, or refuse. */
import { expect, onTestFinished, test } from 'vitest';
import { afterBody, fake, type Fake } from './runtimes.ts';
import { bytesOf, play } from './scenario.ts';
import type { Rest } from './suite.ts';
import type { Scenario } from './scenario.ts';

/** A file of one block, as the scenarios make it. */
const cid = 'bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu';
const imported = { method: 'import', bytes: 1 } as const;
const pin = { method: 'pin', cid, bytes: 1 } as const;
const stat = { method: 'stat', cid } as const;
const unpin = { method: 'unpin', cid } as const;

type Answer = string | { status: number; body: string; headers?: Record<string, string> };

const error = (message: string): Answer => ({ status: 500, body: JSON.stringify({ Message: message, Type: 'error' }) });
const listed = JSON.stringify({ Keys: { [cid]: { Type: 'recursive', Since: 'a field that is not known' } } });
const root = '{"Root":{"Cid":{"/":"bafkqaaa"},"PinErrorMsg":""}}';
const pinned = JSON.stringify({ Pins: [cid] });
const absent = error(`path '${cid}' is not pinned`);
const notFound = error(`block was not found locally (offline): ipld: could not find ${cid}`);

/** Answers each command; a list gives its answers in order. A command that is not named gets no answer. */
async function hosted(answers: Record<string, Answer | Answer[]>): Promise<Fake> {
  const service = await fake(
    afterBody((request, response) => {
      const command = (request.url ?? '').split('?')[0]!.replace('/api/v0/', '');
      const known = answers[command];
      const answer = Array.isArray(known) ? known.shift() : known;
      if (answer === undefined) return;
      const { status, body, headers } = typeof answer === 'string' ? { status: 200, body: answer } : answer;
      response.writeHead(status, headers).end(body);
    }),
  );
  onTestFinished(service.close);
  return service;
}

async function before(answers: Record<string, Answer | Answer[]>, scenario: Rest<Scenario>) {
  const { url, commands } = await hosted(answers);
  const timeouts = { responseMs: 5000, pinMs: 5000 };
  return { ...(await play({ timeouts, ...scenario, url, token: 't', isHosted: true })), commands };
}

test.each<[string, Record<string, Answer>, string]>([
  ['takes the last block', { 'dag/import': root, 'block/get': Buffer.from(bytesOf(1)).toString('latin1') }, ''],
  ['has missed the last block', { 'dag/import': root, 'block/get': notFound }, 'pinning_unavailable'],
  ['fails after the status', { 'dag/import': `${root}\n{"Message":"import failed","Type":"error"}` }, 'pinning_failed'],
  ['could not pin the root', { 'dag/import': root.replace('""', '"no room"') }, 'pinning_failed'],
  ['says nothing of a root', { 'dag/import': '{"Stats":{}}' }, 'pinning_failed'],
  [
    'answers with a page',
    { 'dag/import': { status: 200, body: '<p>', headers: { 'content-type': 'text/html' } } },
    'misconfigured',
  ],
  ['has no room', { 'dag/import': error('write: no space left on device') }, 'disk_full'],
])('an import into a service that %s', async (_, answers, code) => {
  expect((await before(answers, imported)).error?.code ?? '').toBe(code);
});

test.each<[string, Record<string, Answer | Answer[]>, string]>([
  ['lists it', { 'pin/add': pinned, 'pin/ls': listed }, ''],
  ['does not list it', { 'pin/add': pinned, 'pin/ls': absent }, 'pinning_failed'],
  ['has pinned another CID', { 'pin/add': '{"Pins":["bafkqaaa"]}' }, 'pinning_failed'],
  ['misses a block', { 'pin/add': notFound }, 'pinning_unavailable'],
])('a pin at a service that %s', async (_, answers, code) => {
  expect((await before(answers, pin)).error?.code ?? '').toBe(code);
});

test('a pin that gets no answer: the bytes are to be sent again, because a block may be missing', async () => {
  expect((await before({}, { ...pin, timeouts: { pinMs: 300 } })).error).toMatchObject({
    code: 'pinning_unavailable',
    hint: expect.stringContaining('send them again') as string,
    retryAfterSeconds: expect.any(Number) as number,
  });
});

test('a pin that is still listed after its removal is not removed; one that is gone meanwhile is absent', async () => {
  const gone = '{"Pins":[]}';
  expect((await before({ 'pin/ls': listed, 'pin/rm': gone }, unpin)).error).toMatchObject({ code: 'pinning_failed' });
  expect((await before({ 'pin/ls': [listed, absent], 'pin/rm': gone }, unpin)).value).toBe('removed');
  expect((await before({ 'pin/ls': [listed], 'pin/rm': error('not pinned or pinned indirectly') }, unpin)).value).toBe(
    'absent',
  );
});

test.each<[string, Answer, string]>([
  ['no key', { status: 401, body: '' }, 'misconfigured'],
  ['no plan', { status: 402, body: '' }, 'disk_full'],
  ['too often', { status: 429, body: '', headers: { 'retry-after': '7' } }, 'pinning_unavailable'],
  ['its own fault', { status: 503, body: '' }, 'pinning_unavailable'],
  ['something else', '[]', 'pinning_failed'],
])('a service that answers %s', async (_, answer, code) => {
  const { error: thrown } = await before({ 'pin/ls': answer }, stat);
  expect(thrown).toMatchObject({ code });
  if (code === 'disk_full') expect(thrown?.hint).toContain('its plan');
  if (typeof answer !== 'string' && answer.headers) expect(thrown?.retryAfterSeconds).toBe(7);
});

test('only what is documented is sent', async () => {
  const read = { method: 'read', cid, offset: 0, length: 2 } as const;
  const { commands, value } = await before({ cat: 'abcdef' }, read);
  expect([commands, value]).toEqual([[`/api/v0/cat?arg=${cid}`], 'ab']);
});
