/** The memory of workerd while uploads run, in one request each and in several (tus). */
import { randomBytes } from 'node:crypto';
import { type Bench, MiB } from './figure.ts';
import { forgetPeak, peakMiB, residentMiB } from './process-stats.ts';
import { atVersitygw, type AtBackend } from './stores.bench.ts';
import { hasVersitygw } from '../testkit/object-stores/versitygw.ts';
import { startService, type Service } from '../testkit/service.ts';
import { sendAndRead, sendFor } from './worker-fixture.ts';

const uploadBody = randomBytes(90 * MiB);
const fileAsJson = Buffer.from(
  JSON.stringify({ filename: 'name', data: uploadBody.subarray(0, 64 * MiB).toString('base64') }),
);
/** Of each request of an upload in several. */
const requestBytes = 64 * MiB;

export const bench: Bench = {
  name: 'upload-memory',
  measures: 'memory of workerd with 1, 8 and 32 uploads at once, in one request each and in several',
  async *run() {
    for (const [count, atMost] of [
      [1, 32],
      [8, 96],
      [32, 200],
    ] as const)
      for (const [form, upload] of [
        ['in one request', inOne],
        ['in several requests', inSeveral],
      ] as const) {
        // Uploads in several requests send the same parts there.
        for (const [backend, start] of upload === inOne ? backends : backends.slice(0, 1)) {
          const value = await aboveIdle(count, upload, start);
          const figure = `workerd above idle, ${count} at once ${form}${backend}`;
          yield { figure, unit: 'MiB', value, target: { value: { atMost } } };
        }
      }
  },
};

/** Services by where their files are. */
const backends: (readonly [name: string, start: () => Promise<AtBackend>])[] = [
  ['', () => startService().then((service) => ({ service, close: () => service.close() }))],
  ...(hasVersitygw() ? ([[', at an S3 store', atVersitygw]] as const) : []),
];

type UploadForm = (service: Service, headers: Record<string, string>, index: number) => Promise<unknown>;

/**
 * By how much the memory of workerd grows at its peak while so many uploads run at once, in MiB. It
 * has a service of its own: workerd does not return all of its memory to the system.
 */
async function aboveIdle(count: number, upload: UploadForm, start: () => Promise<AtBackend>): Promise<number> {
  const { service, close } = await start();
  try {
    // A key has ten unfinished uploads at most.
    const keys = await Promise.all(Array.from({ length: Math.ceil(count / 10) }, () => service.account()));
    const headersOf = (index: number) => ({ Authorization: `Bearer ${keys[Math.floor(index / 10)]?.apiKey}` });
    const idle = residentMiB(service.pid) ?? 0;
    forgetPeak(service.pid);
    await Promise.all(Array.from({ length: count }, (_, index) => upload(service, headersOf(index), index)));
    return (peakMiB(service.pid) ?? 0) - idle;
  } finally {
    await close();
  }
}

const modeOf = (index: number): string => (index % 2 === 0 ? 'encrypted' : 'plain');

/** An upload in one request; every fourth is in JSON. */
async function inOne({ url }: Service, headers: Record<string, string>, index: number): Promise<void> {
  const about = { ...headers, 'Content-Disposition': 'attachment; filename=x' };
  const [mode, type, bytes] =
    index % 4 === 3 ? ['encrypted', 'application/json', fileAsJson] : [modeOf(index), 'image/png', uploadBody];
  await sendAndRead(url, 'POST', `/v1/storage/${mode}`, { ...about, 'Content-Type': type }, bytes);
}

async function inSeveral({ url }: Service, headers: Record<string, string>, index: number): Promise<void> {
  const tus = { ...headers, 'Tus-Resumable': '1.0.0' };
  const about = {
    'Upload-Length': String(uploadBody.length),
    'Upload-Metadata': 'filename eA==,filetype aW1hZ2UvcG5n',
  };
  const { location = '' } = (await sendFor(url, 'POST', `/v1/uploads/${modeOf(index)}`, { ...tus, ...about })).headers;
  for (let offset = 0; offset < uploadBody.length; offset += requestBytes) {
    const chunk = { 'Upload-Offset': String(offset), 'Content-Type': 'application/offset+octet-stream' };
    await sendAndRead(url, 'PATCH', location, { ...tus, ...chunk }, uploadBody.subarray(offset, offset + requestBytes));
  }
}
