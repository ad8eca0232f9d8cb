/**
 * tus-js-client through a proxy that breaks connections: at the end the file is exact, wherever
 * they broke.
 */
import { randomBytes } from 'node:crypto';
import type { UploadOptions } from 'tus-js-client';
import { describe, expect, it } from 'vitest';
import { startBreakingProxy, type BreakingProxy, type Cut } from './breaking-proxy.ts';
import { onEachServer } from './each-server.ts';
import { start } from './tus-js.ts';
import { present } from '../../../../testkit/present.ts';
import { ci, long } from '../../../../testkit/long-run.ts';

const mib = 2 ** 20;
const file = randomBytes(mib + 4321);
// Together longer than a request whose line broke keeps its upload.
const retryDelays = [0, 20, 50, 100, 200, 400, 800, 1600, 3200];

const range = (end: number): number[] => Array.from({ length: end }, (_, index) => index);
const heads = long ? range(58).map((index) => 7 * index) : [60].slice(0, ci ? 1 : 0);
const bodies = long
  ? [0, 1, 5, 16_383, 16_384, 65_536, mib - 17, mib - 1, mib, mib + 1, file.length - 1, Infinity]
  : [1, mib + 1, Infinity].slice(ci ? 0 : 1);
const responses = long ? range(75).map((index) => 4 * index) : [15];
const cuts: Cut[] = [
  ...heads.map((bytes): Cut => ({ of: 'head', bytes })),
  ...bodies.map((bytes): Cut => ({ of: 'body', bytes })),
  ...responses.map((bytes): Cut => ({ of: 'response', bytes })),
];

onEachServer((server) => {
  /** Runs an upload through a proxy of its own. */
  async function through(plan: BreakingProxy['plan'], options: UploadOptions = {}): Promise<string[]> {
    // A POST whose response is lost leaves an upload behind, and a key may have ten of them.
    const own = (await server().another?.()) ?? server();
    const { origin, pathname } = new URL(own.endpoint);
    const proxy = await startBreakingProxy(origin);
    try {
      proxy.plan = plan;
      const proxied = { ...own, endpoint: `${proxy.origin}${pathname}` };
      const url = await start(proxied, file, { retryDelays, ...options }).finished;
      expect((await own.stored(`${origin}${new URL(url).pathname}`)).equals(file)).toBe(true);
      return proxy.seen;
    } finally {
      await proxy.close();
    }
  }

  describe.concurrent.each(['POST', 'PATCH', 'HEAD'])('a %s breaks', (method) => {
    const fitting = cuts.filter(({ of, bytes }) => of !== 'body' || method === 'PATCH' || bytes === Infinity);
    it.each(fitting)('after $bytes bytes of the $of', async (cut) => {
      // A client asks with HEAD after a PATCH that has failed.
      const toBreak: Record<string, Cut> = {
        ...(method === 'HEAD' && { PATCH: { of: 'body', bytes: mib } }),
        [method]: cut,
      };
      const broken: string[] = [];
      const seen = await through(({ method: asked }) => {
        const here = toBreak[asked];
        if (here === undefined) return undefined;
        delete toBreak[asked];
        broken.push(asked);
        return { cut: here };
      });
      expect(broken).toContain(method);
      // The same request again, or the HEAD that tells that the PATCH was carried out.
      const after = seen.slice(seen.indexOf(method) + 1);
      expect(after).toContain(method === 'PATCH' ? 'HEAD' : method);
    });
  });

  it('loses the response to every other PATCH: none is sent twice', async () => {
    const chunkSize = 200_000;
    let patches = 0;
    await through(
      ({ method }) => {
        if (method === 'PATCH') patches += 1;
        return method === 'PATCH' && patches % 2 === 1 ? { cut: { of: 'response', bytes: 0 } } : undefined;
      },
      { chunkSize },
    );
    expect(patches).toBe(Math.ceil(file.length / chunkSize));
  });

  it('breaks one request after another, with delays', async () => {
    // Each of them lets the upload come further, so that the client does not give up.
    const moving = cuts.filter(({ of, bytes }) => of === 'response' || (of === 'body' && bytes > 0));
    let count = 0;
    await through(
      () => {
        count += 1;
        return count % 3 === 1 ? { delayMs: 5 } : { delayMs: 5, cut: present(moving[count % moving.length]) };
      },
      { chunkSize: 700_000 },
    );
  });
});
