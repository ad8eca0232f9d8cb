/** Pins that take long: their row waits for them. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { cluster } from '../../backends/cluster/cluster.ts';
import { pinImported } from '../../backends/import-root.ts';
import { kubo } from '../../backends/kubo/kubo.ts';
import { longestPinMs } from '../../backends/pin-limit.ts';

const gib = 1024 ** 3;
const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
const common = { id: 'tested', headers: {}, pinName: 'sealpin:tested' };
const peers = ['http://p0', 'http://p1'].map((url) => ({ url, ipfs: url }));

/** A cluster that pins for ever; its Kubos are silent. */
const pinningForEver: typeof fetch = async (input, init) => {
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  if (pathname.startsWith('/api/'))
    return await new Promise((_, reject) => {
      init?.signal?.addEventListener('abort', () => reject(init.signal?.reason as Error), { once: true });
    });
  const peer_map = { p: { status: 'pinning' } };
  return Response.json({ name: common.pinName, replication_factor_min: 1, peer_map });
};

const backends = {
  'a Kubo': kubo({ ...common, url: 'http://p0', fetch: pinningForEver }),
  'a cluster': cluster({ ...common, peers, ipfsHeaders: {}, replication: undefined, fetch: pinningForEver }),
};

test.each(Object.entries(backends))(
  'a pin at %s ends before its row is given up, whatever the size',
  async (_, service) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    for (const bytes of [1, gib, 14 * gib, 32 * gib]) {
      const begunAt = Date.now();
      const state = { isPinning: true };
      const o = { bytes, plan: { beside: false, pinned: false }, signal: new AbortController().signal, requestId: '' };
      const pin = expect(pinImported(service, cid, o)).rejects.toMatchObject({ code: 'pinning_timeout' });
      void pin.then(() => (state.isPinning = false));
      while (state.isPinning) await vi.advanceTimersByTimeAsync(60_000);
      await pin;
      expect(Date.now() - begunAt, `${bytes} bytes`).toBeLessThan(longestPinMs(bytes) + 120_000);
    }
  },
);
