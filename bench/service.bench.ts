/** The service in workerd: small requests a second, and pages of long lists. */
import { randomBytes } from 'node:crypto';
import { inLanes, interleave, peer, secondsOf, type Bench, type Figure, type Sample, figureOf } from './figure.ts';
import { startService } from '../testkit/service.ts';
import { filled, filledAccount, sendAndRead, startSink } from './worker-fixture.ts';

/** `npm run bench service`. */
export const bench: Bench = {
  name: 'service',
  measures: 'the service in workerd: small requests, long lists',
  async *run() {
    const block = randomBytes(1024);
    const sink = await startSink(block);
    try {
      yield* requests(sink.url, block);
      yield* lists(sink.url);
    } finally {
      await sink.stop();
    }
  },
};

/** Small requests per second, next to a bare Worker: one KV read, one call to an object. */
async function* requests(sink: string, block: Buffer): AsyncGenerator<Figure> {
  const service = await startService({ through: () => sink });
  const bare = await startService({ entry: 'bench/workers/bare-workers.ts' });
  try {
    await (await bare.miniflare.getKVNamespace('API_KEYS')).put('key', JSON.stringify({ id: 'x', scopes: ['read'] }));
    const headers = { Authorization: `Bearer ${(await service.account()).apiKey}` };
    const post = async (mode: string): Promise<string> => {
      const about = { ...headers, 'Content-Disposition': 'attachment; filename=x' };
      const answer = await sendAndRead(service.url, 'POST', `/v1/storage/${mode}`, about, block);
      return (JSON.parse(answer) as { fileId: string }).fileId;
    };
    const plain = await post('plain');
    const encrypted = await post('encrypted');
    const rates = await interleave({
      bare: () => rate(500, () => sendAndRead(bare.url, 'GET', '/small', {})),
      alone: () => rate(500, () => sendAndRead(service.url, 'GET', `/v1/storage/${plain}?data=false`, headers)),
      encrypted: () => rate(500, () => sendAndRead(service.url, 'GET', `/v1/storage/${encrypted}?data=false`, headers)),
      bytes: () =>
        rate(300, () =>
          sendAndRead(service.url, 'GET', `/v1/storage/${plain}`, { ...headers, Accept: 'application/octet-stream' }),
        ),
      store: () => rate(100, () => post('encrypted'), 1),
    });
    const beside = peer('bare Hono, one KV read, one call', rates.bare);
    const per = (figure: string, sample: Sample, target?: Figure['target']): Figure =>
      figureOf(figure, 'a second', sample, { peer: beside, target });
    yield per('small GETs', rates.alone, { ratio: { atLeast: 0.6 } });
    yield per('small GETs, encrypted mode', rates.encrypted);
    yield per('small GETs with their bytes from IPFS', rates.bytes);
    yield per('small POSTs, encrypted, one after the other', rates.store);
  } finally {
    await bare.close();
    await service.close();
  }
}

/** A page of a list, and one GET, in a short and in a long account. */
async function* lists(sink: string): AsyncGenerator<Figure> {
  const service = await startService({ entry: filled, through: () => sink });
  try {
    const short = await filledAccount(service, 10);
    const long = await filledAccount(service, 1_000_000);
    const times = await interleave(
      { shortPage: short.page, longPage: long.page, shortOne: short.one, longOne: long.one },
      9,
    );
    // Equal within noise: they differ by less than the runs of one do, or by a fifth.
    const bound = ({ median, spread }: Sample): NonNullable<Figure['target']> => ({
      ratio: { atMost: Math.max(1.2, 1 + spread / median) },
    });
    const { longPage, shortPage, longOne, shortOne } = times;
    yield figureOf('a page of a list of 1,000,000', 'ms', longPage, {
      peer: peer('of 10', shortPage),
      target: bound(shortPage),
    });
    yield figureOf('one GET among 1,000,000', 'ms', longOne, {
      peer: peer('among 10', shortOne),
      target: bound(shortOne),
    });
  } finally {
    await service.close();
  }
}

/** Requests per second, `lanes` of them at a time. */
async function rate(count: number, ask: () => Promise<unknown>, lanes = 16): Promise<number> {
  return count / (await secondsOf(() => inLanes(count, lanes, ask)));
}
