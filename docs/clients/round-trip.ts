// SERVICE=https://… KEY=sp_… node round-trip.ts <file>
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';

const { SERVICE, KEY } = process.env;
const [, , file = ''] = process.argv;

/**
 * Repeats a request until its status is final: 408, 409 idempotency_running, 429, 5xx and no
 * response are not.
 */
async function call(method: string, path: string, init: { body?: BodyInit; headers?: Record<string, string> } = {}) {
  const headers = { ...init.headers, Authorization: `Bearer ${KEY}` };
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(`${SERVICE}${path}`, { ...init, method, headers }).catch(() => undefined);
    if (response?.ok) return response;
    const { status = 503 } = response ?? {};
    const reason = `${status} ${(await response?.text()) ?? 'no response'}`;
    const isFinal = status < 500 && ![408, 429].includes(status) && !reason.includes('"idempotency_running"');
    if (isFinal || attempt === 6) throw new Error(reason);
    const seconds = Number(response?.headers.get('Retry-After') ?? attempt);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }
}

const body = await readFile(file);
const name = encodeURIComponent(basename(file)).replaceAll(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
const headers = {
  'Content-Disposition': `attachment; filename*=UTF-8''${name}`,
  'Content-Type': 'application/octet-stream',
  'Idempotency-Key': crypto.randomUUID(),
};
const stored = (await (await call('POST', '/v1/storage/encrypted', { body, headers })).json()) as { fileId: string };
const path = `/v1/storage/${stored.fileId}`;
const content = await (await call('GET', `${path}/content`)).arrayBuffer();
if (Buffer.compare(Buffer.from(content), body) !== 0) throw new Error('the file reads differently');
console.log(await (await call('DELETE', path)).text());
