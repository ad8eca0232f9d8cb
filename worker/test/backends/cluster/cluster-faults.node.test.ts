/** The adapter before peers of a cluster that are slow, broken, or something else. */
import { expect, onTestFinished, test } from 'vitest';
import type { SealpinError } from '../../../../shared/errors.ts';
import { cidOf, sha256 } from '../../../../shared/ipfs/index.ts';
import { cluster } from '../../../backends/cluster/cluster.ts';
import { kubo } from '../../../backends/kubo/kubo.ts';
import { fake, afterBody } from '../runtimes.ts';
import { play } from '../scenario.ts';
import type { Rest } from '../suite.ts';
import type { Scenario } from '../scenario.ts';
import { ci, inCi } from '../../../../testkit/long-run.ts';

const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
const pin = { method: 'pin', cid, bytes: 1 } as const;

/** Answers each request by its method and the first part of its path. */
async function peer(answers: Record<string, unknown>, seen?: (request: string) => void): Promise<string> {
  const service = await fake(
    afterBody((request, response) => {
      const [, command = ''] = (request.url ?? '').split(/[/?]/);
      seen?.(`${request.method} ${command}`);
      const body = answers[`${request.method} ${command}`];
      if (body === undefined) return;
      response.writeHead(200).end(typeof body === 'string' ? body : JSON.stringify(body));
    }),
  );
  onTestFinished(service.close);
  return service.url;
}

const at = (urls: string[], scenario: Rest<Scenario>, timeouts = { responseMs: 5000, pinMs: 300 }) =>
  play({
    ...scenario,
    url: '',
    token: 'u:p',
    timeouts,
    cluster: { peers: urls.map((url) => ({ url, ipfs: url })), replication: { min: 2, max: 2 } },
  });

const agreed = { name: 'sealpin:tested', replication_factor_min: 2 };
const statuses = (...all: [string, string?][]) => ({
  peer_map: Object.fromEntries(all.map(([status, error = ''], index) => [index, { status, error }])),
});

test.each([
  ['<html></html>', 'pinning_failed'],
  [{}, 'pinning_failed'],
  [{ name: 5, replication_factor_min: 2 }, 'pinning_failed'],
])('a peer that answers %j', async (answer, code) => {
  const url = await peer({ 'GET allocations': answer });
  expect((await at([url], { method: 'stat', cid })).error).toMatchObject({ code });
});

inCi('a peer that does not answer has a time limit, and another one is asked', async () => {
  const slow = await peer({});
  const short = { responseMs: 3000, pinMs: 300 };
  const stat = { method: 'stat', cid } as const;
  expect((await at([slow], stat, short)).error).toMatchObject({ code: 'pinning_timeout' });
  const working = await peer({ 'GET allocations': agreed, 'GET pins': statuses(['pinned'], ['pinned'], ['remote']) });
  expect((await at([slow, working], stat, short)).value).toEqual({ pin: 'ours' });
  expect((await at(['http://127.0.0.1:9', working], stat)).value).toEqual({ pin: 'ours' });
});

test('a pin that only one of two peers holds lacks a copy, and one that none holds is not there', async () => {
  const failed = statuses(['pinned'], ['pin_error', 'no route']);
  const url = await peer({ 'GET allocations': agreed, 'GET pins': failed });
  const stat = { method: 'stat', cid } as const;
  expect((await at([url], stat)).value).toEqual({ pin: 'ours', lacks: 'pinned, pin_error (no route)' });
  const none = await peer({ 'GET allocations': agreed, 'GET pins': statuses(['pinning'], ['cluster_error']) });
  expect((await at([none], stat)).value).toEqual({ pin: 'absent' });
});

const unsettled: [string, [string, string?][], string][] = [
  ['is queued', [['pinned'], ['pin_queued']], 'pin_queued'],
  ['has a status that is not known', [['pinned'], ['resting']], 'resting'],
  ['is down', [['pinned'], ['cluster_error', 'dial failed']], 'cluster_error (dial failed)'],
];

test.each(unsettled.slice(ci ? 0 : 2))('a pin ends at its time limit while a peer %s', async (_, peers, text) => {
  const url = await peer({ 'POST pins': agreed, 'GET pins': statuses(...peers) });
  expect((await at([url], pin)).error).toMatchObject({
    code: 'pinning_timeout',
    message: expect.stringContaining(text),
  });
});

inCi('a pin under way that no peer holds is requested once more, and one that a peer holds stays', async () => {
  const expected = { pinning: 1, pinned: 0 };
  await Promise.all(
    Object.entries(expected).map(async ([status, removals]) => {
      let removed = 0;
      const url = await peer(
        { 'POST pins': agreed, 'DELETE pins': agreed, 'GET pins': statuses([status], ['pinning']), 'POST api': '{}' },
        (request) => (removed += Number(request === 'DELETE pins')),
      );
      const { error } = await at([url], pin, { responseMs: 10_000, pinMs: 3500 });
      expect(error).toMatchObject({ code: 'pinning_timeout' });
      expect(removed, status).toBe(removals);
    }),
  );
});

const id = { id: '0', cluster_peers: ['0', '1', '2'], version: '1.1.6', ipfs: {} };
const held = { 'POST pins': agreed, 'POST api': '{}' };

inCi('a pin that failed is tried again, and then fails for the reason that its peer gives', async () => {
  const reasons = {
    'pin failed: no space left on device': 'disk_full',
    'the sky fell': 'pinning_failed',
    'dial tcp 127.0.0.1:5001: connect: connection refused': 'pinning_unavailable',
  };
  // Each takes seconds of waiting.
  await Promise.all(
    Object.entries(reasons).map(async ([error, code]) => {
      const two = { ...id, cluster_peers: ['0', '1'] };
      const url = await peer({ ...held, 'GET id': two, 'GET pins': statuses(['pinned'], ['pin_error', error]) });
      expect((await at([url], pin, { responseMs: 10_000, pinMs: 20_000 })).error, error).toMatchObject({ code });
    }),
  );
});

inCi('a pin that fails at one peer goes to another one besides, and what the others hold stays pinned', async () => {
  let requests = 0;
  const removed: string[] = [];
  const full: [string, string] = ['pin_error', 'no space left on device'];
  const answers: Record<string, unknown> = { ...held, 'GET id': id, 'GET pins': statuses(['pinned'], full) };
  const url = await peer(answers, (request) => {
    if (request.startsWith('DELETE')) removed.push(request);
    if (request === 'POST pins' && (requests += 1) === 3) answers['GET pins'] = statuses(['pinned'], full, ['pinned']);
  });
  expect((await at([url], pin, { responseMs: 10_000, pinMs: 20_000 })).error).toBeUndefined();
  // The pin, `recover`, and the pin of one peer more.
  expect({ requests, removed }).toEqual({ requests: 3, removed: [] });
});

test('a pin is not called removed while a peer cannot be asked', async () => {
  const url = await peer({ 'GET allocations': agreed, 'DELETE pins': agreed, 'GET pins': statuses(['unpinned']) });
  expect((await at([url], { method: 'unpin', cid })).value).toBe('removed');
  const { error } = await at([url, 'http://127.0.0.1:9'], { method: 'unpin', cid });
  expect(error).toMatchObject({ code: 'pinning_unavailable' });
});

const whole = new TextEncoder().encode('bytes');

/** Answers of a Kubo that is asked for one block: in turn, the last one again. */
function blockFrom(answers: string[]): Response {
  const answer = answers.length > 1 ? answers.shift() : answers[0];
  if (answer === 'away') throw new TypeError('fetch failed');
  if (answer === 'nonsense')
    return Response.json({ Message: 'different hash', Code: 0, Type: 'error' }, { status: 500 });
  if (answer !== 'missing') return new Response(answer);
  return Response.json({ Message: 'block was not found locally', Code: 0, Type: 'error' }, { status: 500 });
}

test.each<[string, (boolean | undefined)[], string[][]]>([
  ['the same wrong bytes twice', [true, true], [['other']]],
  ['the right bytes', [false, false], [['bytes']]],
  ['wrong bytes once', [false, false], [['other', 'bytes']]],
  ['other wrong bytes each time', [false, false], [['other', 'another']]],
  ['nothing', [undefined, undefined], [['missing']]],
  ['wrong bytes at one peer, and nothing at the other', [true, true], [['other'], ['missing']]],
  ['wrong bytes at one peer, and the right ones at the other', [true, false], [['other'], ['bytes']]],
  ['wrong bytes at one peer, while the other is away', [true, false], [['other'], ['away']]],
])('a block is damaged where there are %s: at one Kubo, at a cluster (%j)', async (_, expected, peers) => {
  const block = cidOf('raw', await sha256(whole)).text;
  const common = { id: 'tested', headers: {}, pinName: 'sealpin:tested' };
  const answers = peers.map((each) => [...each]);
  const fetched = async (url: string | URL | Request) =>
    blockFrom(answers[Number(new URL(url instanceof Request ? url.url : url).hostname.slice(1))] ?? []);
  const urls = peers.map((_each, index) => ({ url: `http://p${index}`, ipfs: `http://p${index}` }));
  const { signal } = new AbortController();
  const one = kubo({ ...common, url: 'http://p0', fetch: fetched });
  expect(await one.isDamaged?.(block, signal)).toBe(expected[0]);
  for (const [index, each] of peers.entries()) answers[index] = [...each];
  const all = cluster({ ...common, peers: urls, ipfsHeaders: {}, replication: undefined, fetch: fetched });
  expect(await all.isDamaged?.(block, signal)).toBe(expected[1]);
});

const answersOfPeer = ['bytes', 'other', 'missing', 'nonsense', 'away'];
const threePeers = answersOfPeer.flatMap((a) => answersOfPeer.flatMap((b) => answersOfPeer.map((c) => [a, b, c])));

test('a block is read from a peer that has it whole, and damaged only where all have it so or lack it', async () => {
  const block = cidOf('raw', await sha256(whole)).text;
  const { signal } = new AbortController();
  for (const answers of threePeers) {
    const fetched = async (url: string | URL | Request) => {
      const { hostname, pathname } = new URL(url instanceof Request ? url.url : url);
      if (!pathname.endsWith('block/get')) throw new TypeError('fetch failed');
      return blockFrom([answers[Number(hostname.slice(1))] ?? '']);
    };
    const peers = [0, 1, 2].map((index) => ({ url: `http://p${index}`, ipfs: `http://p${index}` }));
    const common = { id: 'tested', headers: {}, ipfsHeaders: {}, pinName: 'sealpin:tested', replication: undefined };
    const reading = cluster({ ...common, peers, fetch: fetched })
      .block(block, signal)
      .then((bytes) => new TextDecoder().decode(bytes))
      .catch((error: SealpinError) => error.code);
    // What any of them gives decides, in this order.
    const given = ['bytes', 'away', 'nonsense', 'other', 'missing'].find((each) => answers.includes(each)) ?? '';
    const codes: Record<string, string> = {
      away: 'pinning_unavailable',
      nonsense: 'pinning_failed',
      missing: 'pinning_lost',
    };
    expect(await reading, answers.join()).toBe(codes[given] ?? given);
  }
});
