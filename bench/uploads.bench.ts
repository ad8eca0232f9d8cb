/** Uploads in one request, in workerd: what they cost in CPU. */
import { randomBytes } from 'node:crypto';
import { interleave, peer, secondsOf, type Bench, type Figure, figureOf, MiB } from './figure.ts';
import { cpuMs } from './process-stats.ts';
import { startService } from '../testkit/service.ts';
import { sendAndRead, startSink } from './worker-fixture.ts';

export const bench: Bench = {
  name: 'uploads',
  measures: 'uploads in workerd: CPU to that of a bare loop, throughput',
  async *run() {
    const sink = await startSink(randomBytes(1024));
    try {
      yield* cpu(sink.url);
    } finally {
      await sink.stop();
    }
  },
};

/** CPU and throughput of uploads to a pinning service that stores nothing. */
async function* cpu(sink: string): AsyncGenerator<Figure> {
  const raw = randomBytes(90 * MiB);
  const json = Buffer.from(JSON.stringify({ filename: 'name', data: raw.subarray(0, 64 * MiB).toString('base64') }));
  const service = await startService({ through: () => sink });
  const pass = await startService({ entry: 'bench/workers/bare-workers.ts', vars: { SINK: sink } });
  try {
    const { apiKey } = await service.account();
    const headers = { Authorization: `Bearer ${apiKey}` };
    /** Stores a body and deletes it again, so that each upload is the first of its CID. */
    const storing = (mode: string, body: Buffer, type: string, bytes: number) => async () => {
      const about = { ...headers, 'Content-Type': type, 'Content-Disposition': 'attachment; filename=x' };
      let answer = '';
      const cost = await costOf(service.pid, bytes, async () => {
        answer = await sendAndRead(service.url, 'POST', `/v1/storage/${mode}`, about, body);
      });
      const { fileId } = JSON.parse(answer) as { fileId: string };
      await sendAndRead(service.url, 'DELETE', `/v1/storage/${fileId}`, headers);
      return cost;
    };
    const kinds = [
      { figure: 'plain 90 MiB', run: storing('plain', raw, 'image/png', raw.length), cpu: 1.05, rate: 0.8 },
      { figure: 'encrypted 90 MiB', run: storing('encrypted', raw, 'image/png', raw.length), cpu: 1.3, rate: 0.75 },
      { figure: 'JSON 64 MiB', run: storing('encrypted', json, 'application/json', 64 * MiB), cpu: 1.6, rate: 0.6 },
    ];
    for (const { figure, run, cpu, rate } of kinds) {
      const bare = (path: string) => () =>
        costOf(pass.pid, raw.length, () => sendAndRead(pass.url, 'POST', path, {}, raw));
      const { ours, least, passing } = await interleave(
        { ours: run, least: bare('/least'), passing: bare('/pass') },
        3,
      );
      const peerCpu = peer('read, hash, send and no more', least.cpu);
      yield figureOf(`CPU of ${figure}`, 'ms/MiB', ours.cpu, { peer: peerCpu, target: { ratio: { atMost: cpu } } });
      const peerRate = peer('a Worker that passes it on', passing.rate);
      yield figureOf(figure, 'MiB/s', ours.rate, { peer: peerRate, target: { ratio: { atLeast: rate } } });
    }
  } finally {
    await pass.close();
    await service.close();
  }
}

/** The cost of work on so many bytes: `cpu` of a process in ms a MiB, `rate` in MiB a second. */
async function costOf(
  pid: number,
  bytes: number,
  work: () => Promise<unknown>,
): Promise<{ cpu: number; rate: number }> {
  const before = cpuMs(pid);
  const seconds = await secondsOf(work);
  return { cpu: ((cpuMs(pid) - before) * MiB) / bytes, rate: bytes / MiB / seconds };
}
