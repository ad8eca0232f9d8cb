/**
 * Uploads over a line that breaks, to a service that is killed, with a pinning service that fails,
 * sent again by the rules of worker/README.md: every round ends in exactly one file. Each trouble
 * comes first once; `simulation/` has them in every order.
 */
import { createHash, randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import type { FileList, StoredFile } from '../../../shared/api.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { faultyProxy, type ProxyFault } from '../../../testkit/faulty-proxy.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import { keepState } from '../kept-state.ts';
import { client, signedPath } from '../../../testkit/api-client.ts';
import { startPeer } from '../peer.ts';
import { accountObject, newOwner, pinned, sweep, type Owner } from '../stored-state.ts';
import { present } from '../../../testkit/present.ts';

/** A claim lasts so long here, instead of a minute. */
const leaseMs = 300;
const attempts = 30;

/**
 * Numbers from 0 to `below`, the same in every run (a linear congruential generator, with the
 * constants of Numerical Recipes).
 */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/**
 * Troubles that an attempt meets. `reset`: the client resets the connection; `kill`: the service
 * dies; `pin`: the pinning service breaks off.
 */
const troubles = ['break', 'cut', 'swallow', 'answer', 'reset', 'kill', 'pin'] as const;
type Trouble = (typeof troubles)[number];
const rounds = troubles.length;

inCi('an upload ends in one file, whatever happens to its attempts', async () => {
  const kept = await keepState('rounds');
  const peer = await startPeer(kept.node.url);
  const start = (): Promise<Service> =>
    startService({ entry: 'worker/test/clock.ts', ...kept, through: () => peer.url });
  let service = await start();
  onTestFinished(async () => {
    await service.close();
    await peer.close();
    await kept.close();
  });
  let owner: Owner = await newOwner(service);
  await owner.object.lease(leaseMs);
  const next = numbers(rounds);
  let fault: ProxyFault | undefined;
  const line = await faultyProxy(
    () => service.url,
    () => fault,
  );

  async function restart(): Promise<void> {
    await service.kill();
    service = await start();
    const { apiKey } = owner.call;
    owner = { ...owner, call: client(service.url, apiKey), object: accountObject(service, owner.id) };
    await owner.object.lease(leaseMs);
  }

  /** Begins an upload by hand and resets its connection in the middle. */
  async function reset(url: string, headers: Record<string, string>, bytes: Buffer): Promise<void> {
    const { host, hostname, port, pathname } = new URL(url);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const head = [`POST ${pathname} HTTP/1.1`, `Host: ${host}`, ...lines, `Content-Length: ${bytes.length}`, '', ''];
    const socket = connect(Number(port), hostname).on('error', () => undefined);
    socket.write(head.join('\r\n'));
    await new Promise((resolve) => socket.write(bytes.subarray(0, next(bytes.length)), resolve));
    await wait(next(50));
    socket.resetAndDestroy();
  }

  /** One attempt. @returns undefined where it has no response */
  async function attempt(trouble: Trouble | undefined, path: string, headers: Record<string, string>, body: Buffer) {
    fault = undefined;
    peer.onCommand = undefined;
    if (trouble === 'reset') return await reset(`${service.url}${path}`, headers, body).then(() => undefined);
    if (trouble === 'break' || trouble === 'cut') fault = { kind: trouble, afterBytes: next(body.length) % 300_000 };
    if (trouble === 'swallow') fault = { kind: 'swallow' };
    if (trouble === 'answer') fault = { kind: 'answer', status: 503, headers: { 'Retry-After': '0' }, body: 'busy' };
    if (trouble === 'pin') {
      let left = next(4);
      peer.onCommand = async (turn) => {
        left -= 1;
        if (left >= 0) return (await turn.pass()).deliver();
        // Before the node has it, or after.
        if (next(2) === 0) await turn.pass();
        return turn.cut();
      };
    }
    const sent = fetch(`${line.url}${path}`, { method: 'POST', headers, body: body as BodyInit });
    const received = sent
      .then(async (response) => ({ status: response.status, headers: response.headers, text: await response.text() }))
      .catch(() => undefined);
    if (trouble === 'kill') await wait(next(150)).then(restart);
    return await received;
  }

  /** Sends an upload again until its status is final, as "Retrying an upload" says. */
  async function upload(plan: Trouble[], path: string, headers: Record<string, string>, body: Buffer): Promise<string> {
    for (let each = 0; each < attempts; each += 1) {
      const response = await attempt(plan.shift(), path, headers, body);
      const { status = 0, text = '' } = response ?? {};
      if (status === 201) return (JSON.parse(text) as StoredFile).fileId;
      const isTemporary = [0, 408, 429].includes(status) || status >= 500 || text.includes('"idempotency_running"');
      expect(isTemporary, `${status} ${text}`).toBe(true);
      await wait(Math.min(1000, Number(response?.headers.get('Retry-After') ?? 0) * 1000));
    }
    throw new Error(`no file after ${attempts} attempts`);
  }

  const stored = new Map<string, string>();
  for (let round = 0; round < rounds; round += 1) {
    const body = randomBytes(1 + next(1_000_000));
    const mode = round % 2 === 0 ? 'plain' : 'encrypted';
    const first = present(troubles[round % troubles.length]);
    const plan = [first, ...Array.from({ length: next(3) }, () => present(troubles[next(troubles.length)]))];
    const common = { 'Content-Type': 'a/b', 'Content-Disposition': 'inline; filename=a' };
    const { apiKey } = owner.call;
    const exp = Math.floor(Date.now() / 1000) + 3600;
    const signed = await signedPath(apiKey, { method: 'POST', mode, jti: `round ${round}`, exp });
    const fileId =
      round % 3 === 2
        ? await upload(plan, signed, common, body)
        : await upload(
            plan,
            `/v1/storage/${mode}`,
            { ...common, Authorization: `Bearer ${apiKey}`, 'Idempotency-Key': `round ${round}` },
            body,
          );
    stored.set(fileId, createHash('sha256').update(body).digest('hex'));
  }
  peer.onCommand = undefined;

  const files: StoredFile[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page: FileList = await owner.call.listFiles({ limit: 100, cursor });
    files.push(...page.files);
    ({ cursor } = page);
  }
  expect(files.map(({ fileId }) => fileId).toSorted()).toEqual([...stored.keys()].toSorted());
  expect(stored.size).toBe(rounds);
  for (const { fileId } of files) {
    const bytes = await owner.call.getFileContent({ fileId });
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(stored.get(fileId));
  }
  // Each was recorded once, and nothing of the attempts that failed is left.
  const events = await owner.object.rows('event');
  expect(events.filter((row) => row['action'] === 'file.stored').length).toBe(rounds);
  const parts = (await owner.object.rows('part')).map((row) => String(row['cid']));
  const failed = (await owner.object.rows('file')).map((row) => String(row['cid']));
  await sweep(service, [owner], [...parts, ...failed]);
  expect((await owner.object.rows('file')).map((row) => row['state'])).toEqual(files.map(() => 'ready'));
  await expect.poll(() => owner.object.rows('outbox')).toEqual([]);
  expect((await pinned(service)).toSorted()).toEqual(files.map(({ cid }) => cid).toSorted());
});
