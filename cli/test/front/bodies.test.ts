/** Bodies through the listener of a public service: refused on the way, slow, and when it stops. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { buffer, text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ci, inCi, long } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { readState } from '../../local/state.ts';
import { control } from '../../local/control.ts';
import { remove, startLocal, type Running } from '../local/harness.ts';
import { adminTokenOf, ask, host, newAccount, origin, storing } from './public-service.ts';

let service: Running & { adminToken: string };
let apiKey: string;
async function started(dataDir?: string): Promise<typeof service> {
  const begun = await startLocal({ ...(dataDir !== undefined && { dataDir }), args: [`--origin=${origin}`] });
  return Object.assign(begun, { adminToken: await adminTokenOf(begun.dataDir) });
}
beforeAll(async () => {
  service = await started();
  apiKey = await newAccount(service);
});
afterAll(() => remove(service));

const mib = 1024 * 1024;

/** Begins a request, whose body the test sends. */
function begun(method: string, path: string, headers: Record<string, string>): ClientRequest {
  const sent = request({ port: service.port, method, path, headers: { host, ...headers }, agent: false });
  sent.on('error', () => undefined); // what came of it, the test asks
  return sent;
}

async function answerTo(sent: ClientRequest): Promise<{ status: number | undefined; body: string }> {
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode, body: await text(response) };
}

inCi('a body that is refused on its way gets the error of the service', async () => {
  const key = await newAccount(service);
  const { body } = await ask(service, '/v1/account', { headers: { authorization: `Bearer ${key}` } });
  const { account } = JSON.parse(body) as { account: { id: string } };
  const limited = await ask(service, `/v1/operator/accounts/${account.id}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${service.adminToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ quotaBytes: mib }),
  });
  expect(limited.status).toBe(200);
  const piece = Buffer.alloc(mib, 1);
  for (let round = 0; round < (long ? 100 : 12); round += 1) {
    // Its length is not announced, so it is refused only when it has come.
    const sent = begun('POST', '/v1/storage/plain', storing(key));
    for (let each = 0; each < 8; each += 1) sent.write(piece);
    sent.end();
    const { status, body: problem } = await answerTo(sent);
    expect(`${status} ${(JSON.parse(problem) as { code: string }).code}`).toBe('413 quota_exceeded');
  }
});

/** The memory of a process, in MiB. */
async function residentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(present(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1])) / 1024;
}

test.runIf(ci && process.platform === 'linux')(
  'what is read or sent slowly, by eight clients at once, takes no memory of its size',
  async () => {
    const size = (long ? 1024 : 32) * mib;
    const piece = randomBytes(4 * mib);
    const { pid: worker } = present(present(await readState(service.dataDir, 'run')).workerd[0]);
    const memory = async (): Promise<number[]> => [await residentOf(service.pid), await residentOf(worker)];
    const storeLarge = async (): Promise<string> => {
      const sent = begun('POST', '/v1/storage/plain', { ...storing(apiKey), 'content-length': String(size) });
      const answer = answerTo(sent);
      for (let at = 0; at < size; at += piece.length) if (!sent.write(piece)) await once(sent, 'drain');
      sent.end();
      const { status, body } = await answer;
      expect(status, body).toBe(201);
      return (JSON.parse(body) as { fileId: string }).fileId;
    };
    const fileId = await storeLarge();
    const before = await memory();
    const readers = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const sent = begun('GET', `/v1/storage/${fileId}/content`, { authorization: `Bearer ${apiKey}` });
        sent.end();
        const [response] = (await once(sent, 'response')) as [IncomingMessage];
        await once(response, 'readable');
        return response;
      }),
    );
    const pieces = size / piece.length;
    const writers = Array.from({ length: 8 }, () => {
      const sent = begun('POST', '/v1/storage/plain', { ...storing(apiKey), 'content-length': String(size) });
      sent.write(piece);
      return sent;
    });
    await expect.poll(async () => (await control(service, 'status')).running).toBe(16);
    const seen = [before];
    const settle = async (): Promise<void> => {
      const from = seen.length + 20;
      const hasGrown = (): boolean => present(seen.at(-1)?.[0]) - present(seen.at(-10)?.[0]) > 1;
      while (seen.length < from || hasGrown()) {
        await sleep(50);
        seen.push(await memory());
      }
    };
    await settle();
    // Now the runtime reads nothing, and the clients send as fast as they can.
    process.kill(worker, 'SIGSTOP');
    for (const sent of writers) for (let each = 1; each < pieces; each += 1) sent.write(piece);
    await settle();
    process.kill(worker, 'SIGCONT');
    for (const sent of writers) sent.destroy();
    for (const response of readers) response.destroy();
    const grown = [0, 1].map((index) => Math.max(...seen.map((each) => present(each[index]))) - present(before[index]));
    // What is on its way is 512 MiB, or 16 GiB.
    for (const each of grown) expect(each).toBeLessThan(160);
    await fetchStill(fileId);
  },
);

async function fetchStill(fileId: string): Promise<void> {
  const read = await ask(service, `/v1/storage/${fileId}?data=false`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  expect(read.status).toBe(200);
}

inCi('a service that is stopped lets requests end, cuts off those that stall, and loses nothing', async () => {
  const [whole, film] = [randomBytes(3_000_000), randomBytes(30_000_000)];
  const authorization = `Bearer ${apiKey}`;
  const stored = await ask(service, '/v1/storage/plain', { method: 'POST', headers: storing(apiKey), body: film });
  const filmId = (JSON.parse(stored.body) as { fileId: string }).fileId;
  const tus = { authorization, 'tus-resumable': '1.0.0' };
  const upload = await ask(service, '/v1/uploads/plain', {
    method: 'POST',
    headers: { ...tus, 'upload-length': String(whole.length), 'upload-metadata': 'filename bg==' },
  });
  const path = present(upload.headers['location']);
  const patching = { ...tus, 'content-type': 'application/offset+octet-stream' };

  const sent = begun('POST', '/v1/storage/plain', { ...storing(apiKey), 'content-length': String(whole.length) });
  const answer = answerTo(sent);
  sent.write(whole.subarray(0, 1_000_000));
  const stalled = begun('PATCH', path, { ...patching, 'upload-offset': '0', 'content-length': String(whole.length) });
  const cutOff = new Promise((resolve) => stalled.once('close', resolve));
  stalled.write(whole.subarray(0, 2_000_000));
  const read = begun('GET', `/v1/storage/${filmId}/content`, { authorization });
  read.end();
  const [download] = (await once(read, 'response')) as [IncomingMessage];
  await expect.poll(async () => (await control(service, 'status')).running).toBe(3);

  const ended = service.end();
  await expect
    .poll(() =>
      ask(service, '/v1/health?live').then(
        () => 'taken',
        () => 'refused',
      ),
    )
    .toBe('refused');
  sent.end(whole.subarray(1_000_000));
  const [{ status, body }, received] = await Promise.all([answer, buffer(download)]);
  expect(status, body).toBe(201);
  expect(received.equals(film)).toBe(true);
  await cutOff;
  expect(await ended).toBe(0);

  const again = await started(service.dataDir);
  service = again;
  const { fileId } = JSON.parse(body) as { fileId: string };
  const kept = await ask(again, `/v1/storage/${fileId}/content`, { headers: { authorization } });
  expect(Buffer.from(kept.bytes).equals(whole)).toBe(true);
  const offset = Number((await ask(again, path, { method: 'HEAD', headers: tus })).headers['upload-offset']);
  expect(offset).toBeLessThanOrEqual(2_000_000);
  const rest = await ask(again, path, {
    method: 'PATCH',
    headers: { ...patching, 'upload-offset': String(offset) },
    body: whole.subarray(offset),
  });
  expect(rest, rest.body).toMatchObject({ status: 204, headers: { 'upload-offset': String(whole.length) } });
});
