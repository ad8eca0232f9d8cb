/** Concurrent uploads to the service in workerd, with the embedded IPFS node behind it: throughput and memory. */
import { randomBytes } from 'node:crypto';
import { forgetPeak, peakMiB } from '../process-stats.ts';
import { at, ladder, line, textOf, type Axis, type Growth, type Run, type Series } from './series.ts';
import { startService, type Service } from '../../testkit/service.ts';
import { send } from '../worker-fixture.ts';

const x: Axis = { what: 'uploads at once', base: 2 };
const mebibytes = 8;

export const growth: Growth = { run: uploads };

async function* uploads({ quick, step }: Run): AsyncGenerator<Series> {
  const throughput = line('all together', 'throughput', 'MiB/s');
  const memory = line('workerd', 'peak of memory', 'MiB');
  const body = randomBytes(mebibytes * 2 ** 20);
  const counts = ladder(1, 64, 2);
  for (const count of quick ? counts.slice(0, 2) : counts) {
    // A service for each count: workerd does not return all of its memory to the system.
    const service = await startService();
    try {
      const { apiKey } = await service.account();
      const runs: Upload[] = [];
      for (let round = quick ? 1 : 5; round >= 0; round -= 1) {
        step(`uploads: ${textOf(count, x)} at once, ${round} to go`);
        runs.push(await atOnce(service, apiKey, count, body));
      }
      // In the first run workerd compiles the Worker.
      const kept = runs.slice(1);
      throughput.points.push(
        at(
          count,
          kept.map(({ seconds }) => (count * mebibytes) / seconds),
        ),
      );
      memory.points.push(
        at(
          count,
          kept.map(({ peakMiB }) => peakMiB),
        ),
      );
    } finally {
      await service.close();
    }
  }
  yield {
    name: 'uploads',
    title: `Uploads of ${mebibytes} MiB at once, raw, in encrypted mode, to the local service`,
    x,
    lines: [throughput, memory],
  };
}

type Upload = { seconds: number; peakMiB: number };

/** Stores so many files at the same time, and deletes them again. */
async function atOnce({ url, pid }: Service, apiKey: string, count: number, body: Buffer): Promise<Upload> {
  const headers = { Authorization: `Bearer ${apiKey}` };
  const each = Array.from({ length: count });
  forgetPeak(pid);
  const begun = performance.now();
  const responses = await Promise.all(
    each.map(() =>
      send(
        url,
        'POST',
        '/v1/storage/encrypted',
        { ...headers, 'Content-Type': 'image/png', 'Content-Disposition': 'attachment; filename=x' },
        body,
      ),
    ),
  );
  const used = { seconds: (performance.now() - begun) / 1000, peakMiB: peakMiB(pid) ?? 0 };
  for (const response of responses)
    await send(url, 'DELETE', `/v1/storage/${(JSON.parse(response) as { fileId: string }).fileId}`, headers);
  return used;
}
