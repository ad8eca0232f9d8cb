/** The adapter before a real Kubo, offline and online without peers. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../../../testkit/programs/kubo.ts';
import { startPeer } from '../../peer.ts';
import { runtimes, type Runtime } from '../runtimes.ts';
import type { Scenario } from '../scenario.ts';
import { ask, contract, type Rest } from '../suite.ts';
import { startLoopbackServer } from '../../../../testkit/loopback-server.ts';
import { inCi, long } from '../../../../testkit/long-run.ts';

/** Two leaves and a node. */
const file = { bytes: 1_500_000, cid: 'bafybeih2kan3l26ikzwuahxt5bfqhr6iicyswpmlehj74ycn3xdtaxrwru' };

/** The byte 0, with which every file of these tests begins. */
const firstBlock = 'bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu';

/** The longest that others may wait for a client that is slow, in ms. */
const othersMs = 1000;

/** Commands that the node is working on. */
async function running(kubo: RealKubo): Promise<string[]> {
  const commands = JSON.parse(await ask(kubo, 'diag/cmds')) as { Command: string; Active: boolean }[];
  return commands.filter((each) => each.Active).map((each) => each.Command);
}

/** A proxy that ends the body of each request cleanly in the middle. */
async function halving(url: string): Promise<string> {
  const server = await startLoopbackServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
      const body = Buffer.concat(chunks);
      const headers = Object.fromEntries(
        ['authorization', 'content-type'].map((name) => [name, String(request.headers[name])]),
      );
      const half = body.subarray(0, body.length / 2);
      const answer = await fetch(`${url}${request.url}`, { method: 'POST', headers, body: half });
      response.writeHead(answer.status).end(await answer.text());
    })();
  });
  onTestFinished(() => server.close());
  return server.url;
}

/** Tests Kubo's behaviour besides the contract. */
function beyondTheContract(open: () => Promise<Runtime>, start: () => Promise<RealKubo>): void {
  let runtime: Runtime;
  let kubo: RealKubo;
  beforeAll(async () => {
    [runtime, kubo] = await Promise.all([open(), start()]);
  });
  afterAll(async () => {
    await runtime.close();
    await kubo.close();
  });
  const play = (scenario: Rest<Scenario>, url = kubo.url) => runtime.play({ ...scenario, url, token: kubo.token });

  inCi('a client that sends 20 kB/s while garbage is to be collected: others store within a second', async () => {
    const slow = play({ method: 'import', bytes: 600_000, blockBytes: 16_384, gapMs: 800, abortAfterMs: 4500 });
    await expect.poll(() => running(kubo)).toContain('dag/import');
    const collected = ask(kubo, 'repo/gc');
    await Promise.race([collected, new Promise((resolve) => setTimeout(resolve, othersMs))]);
    const began = performance.now();
    expect((await play({ method: 'store', bytes: 3 })).error).toBeUndefined();
    expect(performance.now() - began).toBeLessThan(othersMs);
    await collected;
    expect(await running(kubo)).toContain('dag/import');
    expect((await slow).error).toMatchObject({ message: 'the caller left' });
  });

  inCi('what is collected while an import runs is found missing by the pin', async () => {
    // Kubo writes 128 blocks together.
    const importing = play({ method: 'import', bytes: 200, blockBytes: 1, gapMs: 10 });
    await expect.poll(() => ask(kubo, 'refs/local')).toContain(firstBlock);
    await ask(kubo, 'repo/gc');
    const last = String((await importing).value);
    const { error } = await play({ method: 'pin', cid: firstBlock, bytes: 1 });
    expect(error).toMatchObject({ code: 'pinning_unavailable', retryAfterSeconds: expect.any(Number) });
    expect((await play({ method: 'pin', cid: last, bytes: 1 })).error).toBeUndefined();
    expect((await play({ method: 'unpin', cid: last })).value).toBe('removed');
  });

  test('an import that a proxy cuts off and ends is incomplete', async () => {
    const { error } = await play({ method: 'import', bytes: file.bytes }, await halving(kubo.url));
    expect(error).toMatchObject({ code: 'pinning_unavailable', message: expect.stringContaining('unexpected EOF') });
  });

  test('an import that leaves ends at Kubo, too', async () => {
    const left = play({ method: 'import', bytes: file.bytes, fault: 'stall', abortAfterMs: 1000 });
    await expect.poll(() => running(kubo)).toContain('dag/import');
    expect((await left).error).toMatchObject({ message: 'the caller left' });
    await expect.poll(() => running(kubo)).not.toContain('dag/import');
  });

  test('at a service without names our pin goes beside one that is there, and is removed alone', async () => {
    const peer = await startPeer(kubo.url);
    onTestFinished(peer.close);
    peer.onCommand = async (turn) => {
      const { body, deliver } = await turn.pass();
      deliver(turn.command === 'pin/ls' ? Buffer.from(body.toString().replace(/,"Name":"[^"]*"/, '')) : body);
    };
    const nameless = (scenario: Rest<Scenario>) => play(scenario, peer.url);
    await play({ method: 'import', bytes: file.bytes });
    await ask(kubo, 'pin/add', { arg: file.cid, name: 'theirs' });
    expect((await nameless({ method: 'stat', cid: file.cid })).value).toEqual({ pin: 'unknown' });
    expect((await nameless({ method: 'store', bytes: file.bytes, beside: true })).value).toBe(file.cid);
    expect((await nameless({ method: 'unpinBeside', cid: file.cid })).value).toBe('foreign');
    expect((await play({ method: 'stat', cid: file.cid })).value).toEqual({ pin: 'foreign', name: 'theirs' });
    expect((await nameless({ method: 'unpin', cid: file.cid })).value).toBe('removed');
    expect((await nameless({ method: 'stat', cid: file.cid })).value).toEqual({ pin: 'absent' });
  });

  test('one that was stopped cannot be reached, and that is worth another attempt', async () => {
    await kubo.stop();
    for (const scenario of [{ method: 'import', bytes: 1000 }, { method: 'pin', ...file }, { method: 'ping' }] as const)
      expect((await play(scenario)).error).toMatchObject({ code: 'pinning_unavailable' });
  });
}

if (kuboProgram() === undefined) {
  test.skip(noKubo);
} else {
  for (const [name, open] of Object.entries(runtimes)) {
    for (const online of [false, true]) {
      const title = `${name}: a real Kubo, ${online ? 'online' : 'offline'}`;
      // In the short form `upload/kubo` has one that is offline, and workerd, which the service
      // runs in, stands for both runtimes.
      if (long || (online && name === 'workerd'))
        describe(title, () => {
          const start = () => startKubo({ online });
          contract(open, start);
          beyondTheContract(open, start);
        });
      else test.skip(`${title}: in the long form`);
    }
  }
}
