/** The service in workerd: CPU and memory of uploads, small requests a second, and pages of long lists. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { interleave, summarize, type Bench, type Figure, type Sample } from '../../cli/bench/figure.ts';
import { startService, type Service } from '../test/service.ts';

const MiB = 1024 * 1024;

export const bench: Bench = { name: 'service', run };

async function* run(): AsyncGenerator<Figure> {
  const block = randomBytes(1024);
  const sink = await startSink(block);
  try {
    yield* uploads(sink.url);
    yield* requests(sink.url, block);
    yield* lists(sink.url);
  } finally {
    sink.process.kill();
  }
  yield* memory();
}

/** CPU and throughput of uploads to a pinning service that keeps nothing. */
async function* uploads(sink: string): AsyncGenerator<Figure> {
  const raw = randomBytes(90 * MiB);
  const json = Buffer.from(JSON.stringify({ filename: 'name', data: raw.subarray(0, 64 * MiB).toString('base64') }));
  const service = await startService({ through: () => sink });
  const pass = await startService({ entry: 'worker/bench/peers.ts', vars: { SINK: sink } });
  try {
    const { apiKey } = await service.account();
    const storing = (mode: string, body: Buffer, type: string, bytes: number) => () => stored(service, apiKey, mode, body, type, bytes);
    const kinds = [
      { figure: 'raw plain 90 MiB', run: storing('plain', raw, 'image/png', raw.length), cpu: 2.5, ratio: 0.8 },
      { figure: 'raw encrypted 90 MiB', run: storing('encrypted', raw, 'image/png', raw.length), cpu: 3.5, ratio: 0.75 },
      { figure: 'JSON encrypted 64 MiB', run: storing('encrypted', json, 'application/json', 64 * MiB), cpu: 5, ratio: 0.6 },
    ];
    for (const { figure, run, cpu, ratio } of kinds) {
      const cpus: number[] = [];
      const ours = async (): Promise<number> => {
        const { cpuMs, seconds, mebibytes } = await run();
        cpus.push(cpuMs / mebibytes);
        return mebibytes / seconds;
      };
      const peer = async (): Promise<number> => {
        const begun = performance.now();
        await send(pass.url, 'POST', '/pass', {}, raw);
        return raw.length / MiB / ((performance.now() - begun) / 1000);
      };
      const leastCpus: number[] = [];
      const least = async (): Promise<number> => {
        const cpu = cpuMs(pass.pid);
        await send(pass.url, 'POST', '/least', {}, raw);
        leastCpus.push(((cpuMs(pass.pid) - cpu) * MiB) / raw.length);
        return 0;
      };
      const speed = await interleave({ ours, peer, least });
      const used = summarize(cpus.slice(1));
      yield { figure: `CPU of ${figure}`, unit: 'ms/MiB', value: used.median, spread: used.spread, peer: named('read, hash, send and no more', summarize(leastCpus.slice(1))), target: { value: { atMost: cpu } } };
      yield { figure, unit: 'MiB/s', value: speed.ours.median, spread: speed.ours.spread, peer: named('a Worker that passes it on', speed.peer), target: { ratio: { atLeast: ratio } } };
    }
  } finally {
    await pass.close();
    await service.close();
  }
}

type Upload = { cpuMs: number; seconds: number; mebibytes: number };

/** Stores a body once, and removes it again, so that the next one is a first one, too. */
async function stored(service: Service, apiKey: string, mode: string, body: Buffer, type: string, bytes: number): Promise<Upload> {
  const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': type, 'Content-Disposition': 'attachment; filename=x' };
  const cpu = cpuMs(service.pid);
  const begun = performance.now();
  const file = JSON.parse(await send(service.url, 'POST', `/v1/storage/${mode}`, headers, body)) as { fileId: string };
  const seconds = (performance.now() - begun) / 1000;
  const used = cpuMs(service.pid) - cpu;
  await send(service.url, 'DELETE', `/v1/storage/${file.fileId}`, { Authorization: `Bearer ${apiKey}` });
  return { cpuMs: used, seconds, mebibytes: bytes / MiB };
}

/** Small requests a second, beside a bare Worker that makes one KV read and one call to an object. */
async function* requests(sink: string, block: Buffer): AsyncGenerator<Figure> {
  const service = await startService({ through: () => sink });
  const bare = await startService({ entry: 'worker/bench/peers.ts' });
  try {
    await (await bare.miniflare.getKVNamespace('API_KEYS')).put('key', JSON.stringify({ id: 'x', scopes: ['read'] }));
    const headers = { Authorization: `Bearer ${(await service.account()).apiKey}` };
    const post = async (mode: string): Promise<string> =>
      (JSON.parse(await send(service.url, 'POST', `/v1/storage/${mode}`, { ...headers, 'Content-Disposition': 'attachment; filename=x' }, block)) as { fileId: string }).fileId;
    const plain = await post('plain');
    const encrypted = await post('encrypted');
    const rates = await interleave({
      bare: () => rate(500, () => send(bare.url, 'GET', '/small', {})),
      alone: () => rate(500, () => send(service.url, 'GET', `/v1/storage/${plain}?data=false`, headers)),
      encrypted: () => rate(500, () => send(service.url, 'GET', `/v1/storage/${encrypted}?data=false`, headers)),
      bytes: () => rate(300, () => send(service.url, 'GET', `/v1/storage/${plain}`, { ...headers, Accept: 'application/octet-stream' })),
      store: () => rate(100, () => post('encrypted'), 1),
    });
    const peer = named('bare Hono, one KV read, one call', rates.bare);
    const per = (figure: string, { median, spread }: Sample, target?: Figure['target']): Figure => ({
      figure,
      unit: 'a second',
      value: median,
      spread,
      peer,
      ...(target === undefined ? {} : { target }),
    });
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
  const service = await startService({ entry: 'worker/bench/filled.ts', through: () => sink });
  try {
    const fill = async (count: number): Promise<{ headers: Record<string, string>; fileId: string }> => {
      const { account, apiKey } = await service.account();
      const objects = await service.miniflare.getDurableObjectNamespace('ACCOUNT');
      const object = objects.get(objects.idFromName(account.id)) as unknown as { fill(count: number, cid: string): Promise<string> };
      return { headers: { Authorization: `Bearer ${apiKey}` }, fileId: await object.fill(count, 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e') };
    };
    const short = await fill(10);
    const long = await fill(100_000);
    const page = ({ headers }: typeof short) => () => latency(() => send(service.url, 'GET', '/v1/storage?limit=10', headers));
    const one = ({ headers, fileId }: typeof short) => () => latency(() => send(service.url, 'GET', `/v1/storage/${fileId}?data=false`, headers));
    const times = await interleave({ shortPage: page(short), longPage: page(long), shortOne: one(short), longOne: one(long) }, 9);
    // Equal within noise: what differs is less than the runs of one differ among themselves, or a fifth.
    const bound = ({ median, spread }: Sample): Figure['target'] => ({ ratio: { atMost: Math.max(1.2, 1 + spread / median) } });
    yield { figure: 'a page of a list of 100,000', unit: 'ms', value: times.longPage.median, spread: times.longPage.spread, peer: named('of 10', times.shortPage), target: bound(times.shortPage)! };
    yield { figure: 'one GET among 100,000', unit: 'ms', value: times.longOne.median, spread: times.longOne.spread, peer: named('among 10', times.shortOne), target: bound(times.shortOne)! };
  } finally {
    await service.close();
  }
}

/** Memory of workerd above idle, before the real node. */
async function* memory(): AsyncGenerator<Figure> {
  const body = randomBytes(90 * MiB);
  const json = Buffer.from(JSON.stringify({ filename: 'name', data: body.subarray(0, 64 * MiB).toString('base64') }));
  for (const [figure, count, atMost] of [['one upload', 1, 64], ['eight uploads at once', 8, 96]] as const) {
    const service = await startService();
    try {
      const headers = { Authorization: `Bearer ${(await service.account()).apiKey}`, 'Content-Disposition': 'attachment; filename=x' };
      const idle = rssMiB(service.pid);
      let peak = idle;
      const watch = setInterval(() => (peak = Math.max(peak, rssMiB(service.pid))), 5);
      await Promise.all(
        Array.from({ length: count }, (_, index) =>
          index % 4 === 3
            ? send(service.url, 'POST', '/v1/storage/encrypted', { ...headers, 'Content-Type': 'application/json' }, json)
            : send(service.url, 'POST', `/v1/storage/${index % 2 === 0 ? 'encrypted' : 'plain'}`, { ...headers, 'Content-Type': 'image/png' }, body),
        ),
      );
      clearInterval(watch);
      yield { figure: `workerd above idle (${idle.toFixed(0)} MiB), ${figure}`, unit: 'MiB', value: peak - idle, target: { value: { atMost } } };
    } finally {
      await service.close();
    }
  }
}

function named(name: string, { median, spread }: Sample): NonNullable<Figure['peer']> {
  return { name, value: median, spread };
}

const agent = new Agent({ keepAlive: true, maxSockets: 32 });

/** One request; the text of its answer, which has to be a good one. */
function send(url: string, method: string, path: string, headers: Record<string, string>, body?: Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}${path}`, { method, agent, headers: { ...headers, ...(body === undefined ? {} : { 'Content-Length': body.length }) } }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
      answer.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        if ((answer.statusCode ?? 500) < 300) resolve(text);
        else reject(new Error(`${method} ${path}: ${answer.statusCode} ${text}`));
      });
    });
    sent.on('error', reject).end(body);
  });
}

/** Requests a second, with so many on their way. */
async function rate(count: number, ask: () => Promise<unknown>, lanes = 16): Promise<number> {
  let left = count;
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (left > 0) {
        left -= 1;
        await ask();
      }
    }),
  );
  return count / ((performance.now() - begun) / 1000);
}

/** The median time of a request, in ms. */
async function latency(ask: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let index = 0; index < 40; index += 1) {
    const begun = performance.now();
    await ask();
    times.push(performance.now() - begun);
  }
  return summarize(times).median;
}

/** CPU that a process has used, in ms (proc(5): utime and stime in hundredths of a second). */
function cpuMs(pid: number): number {
  const times = (/\) (.*)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1] ?? '').split(' ');
  return (Number(times[11]) + Number(times[12])) * 10;
}

function rssMiB(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
}

async function startSink(block: Buffer): Promise<{ url: string; process: ChildProcess }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'sink.ts'), block.toString('base64')], { stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.once('data', (line: Buffer) => resolve(line.toString().trim()));
    child.once('exit', () => reject(new Error('the sink ended')));
  });
  return { url, process: child };
}
