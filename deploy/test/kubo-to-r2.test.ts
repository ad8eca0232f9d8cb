/** A service with a Kubo that becomes one with a bucket of R2 alone, while people use it. */
import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { connect, generateKeys, handOver, receive, type ReceivedFile } from '../../client/index.ts';
import { client } from '../../testkit/api-client.ts';
import { inCi } from '../../testkit/long-run.ts';
import { startNode } from '../../testkit/node.ts';
import { adminToken, rpcToken, startService, type Service } from '../../testkit/service.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';

const mib = 1_048_576;
const r2 = { id: 'r2', type: 'r2', binding: 'BUCKET' };

inCi('a link, an upload in progress and an inbox live on when a Kubo is replaced by R2', async () => {
  const dir = await temporaryDirectory();
  const node = await startNode({ dir: join(dir, 'ipfs'), token: rpcToken });
  onTestFinished(async () => await node.close());
  const kubo = { id: 'kubo', type: 'kubo', url: node.url, tokenSecret: 'KUBO_TOKEN' };
  let service: Service | undefined;
  onTestFinished(async () => await service?.close());
  const run = async (...backends: object[]): Promise<string> => {
    await service?.close();
    service = await startService({ dir, node, vars: { SERVICE_ID: 'moved', BACKENDS: JSON.stringify(backends) } });
    return service.url;
  };
  let url = await run(kubo);
  const operator = () => client(url, adminToken);
  const { apiKey } = await operator().createAccount({ label: 'moved' });
  const api = () => client(url, apiKey, { 'Tus-Resumable': '1.0.0' });
  const connected = () => connect({ service: url, apiKey });
  /** A link names the address of the service, and each start here has another one. */
  const here = (made: string): string => made.replace(/^http:\/\/127\.0\.0\.1:\d+/, url);

  const plans = randomBytes(3 * mib);
  const { link } = await connected().send({ name: 'plans', source: new Uint8Array(plans) }, { opens: 5 });
  const keys = await generateKeys();
  const inbox = await connected().inbox.create({ label: 'tax office', recipient: keys.recipient });
  await handOver(inbox.link, { name: 'march', source: 'receipts of March' });
  const bytes = randomBytes(9 * mib);
  const length = { 'Upload-Length': String(bytes.length), 'Upload-Metadata': `filename ${btoa('scan.bin')}` };
  const begun = await api().ask('createUploadEncrypted', {}, { headers: length });
  expect(begun.status, await begun.text()).toBe(201);
  const upload = new URL(begun.headers.get('Location') ?? '', url).pathname;
  const send = async (from: number, to: number): Promise<Response> => {
    const headers = { 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': String(from) };
    const sent = await api()(upload, { method: 'PATCH', headers, body: new Uint8Array(bytes.subarray(from, to)) });
    expect({ status: sent.status, offset: sent.headers.get('Upload-Offset') }).toEqual({
      status: 204,
      offset: String(to),
    });
    return sent;
  };
  await send(0, 5 * mib);

  // The bucket takes what is new; the Kubo is read, and emptied.
  url = await run(r2, kubo);
  await handOver(here(inbox.link), { name: 'april', source: 'receipts of April' });
  const fileId = (await send(5 * mib, bytes.length)).headers.get('Sealpin-File') ?? '';
  await operator().createMigration({ from: 'kubo', to: 'r2' });
  const progress = async () => (await operator().listMigrations()).migrations;
  while ((await progress()).some(({ state }) => state !== 'done')) await wait(250);
  // The parcels of two deliveries and what they carry, the file of the link, and the upload.
  const { files } = await api().listFiles({ limit: 100 });
  expect(files.map(({ pins }) => pins.map(({ service: at }) => at).join())).toEqual(Array(6).fill('r2'));

  url = await run(r2);
  expect(await textsOf((await receive(here(link))).files)).toEqual([plans.toString('latin1')]);
  const { deliveries } = await connected().inbox.list();
  const opened = await Promise.all(
    deliveries.map(async ({ id }) => (await connected().inbox.open(id, { keys: keys.privateKey })).files),
  );
  expect((await textsOf(opened.flat())).toSorted()).toEqual(['receipts of April', 'receipts of March']);
  await handOver(here(inbox.link), { name: 'may', source: 'receipts of May' });
  expect(Buffer.compare(await api().getFileContent({ fileId }), bytes)).toBe(0);
});

async function textsOf(files: readonly ReceivedFile[]): Promise<string[]> {
  return await Promise.all(
    files.map(async (file) => Buffer.from(await (await file.open()).bytes()).toString('latin1')),
  );
}
