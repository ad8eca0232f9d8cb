/**
 * Requests to pinning services, each of which is made for a client's request: its ID is in
 * `X-Request-Id` there, and in our log.
 */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { DeletedFiles, StoredFile } from '../../../shared/api.ts';
import { type Service } from '../../../testkit/service.ts';
import { jsonOf } from '../../../testkit/api-client.ts';
import { startBehindPeer, type Peer, type Turn } from '../peer.ts';
import { newOwner, pinObject, type Owner } from '../stored-state.ts';

let service: Service;
let peer: Peer;
let owner: Owner;
/** Commands to the pinning service, and the requests that they were made for. */
let asked: { command: string; requestId: string | undefined }[];
/** Commands that the pinning service refuses. */
let refused: string[];

async function record(turn: Turn): Promise<void> {
  const { command, requestId } = turn;
  asked.push({ command, requestId });
  if (refused.includes(command)) return turn.answer(503, '');
  (await turn.pass()).deliver();
}

beforeAll(async () => {
  ({ service, peer } = await startBehindPeer());
  peer.onCommand = record;
});
afterAll(() => service.close());
beforeEach(async () => {
  owner = await newOwner(service);
  asked = [];
  refused = [];
});

/** Sends a request of the owner. @returns its ID and its response */
async function ask(path: string, init?: Parameters<Owner['call']>[1]): Promise<{ id: string; response: Response }> {
  const response = await owner.call(path, init);
  return { id: response.headers.get('X-Request-Id') ?? 'none', response };
}

/** The IDs of the requests for which commands came since this was last asked, each once. */
function idsOf(...commands: string[]): (string | undefined)[] {
  const found = asked.filter(({ command }) => commands.length === 0 || commands.includes(command));
  asked = [];
  return [...new Set(found.map(({ requestId }) => requestId))];
}

/** The log's lines about a request, without that of the request itself. */
function eventsOf(id: string): string[] {
  const lines = service.log.map((line) => JSON.parse(line) as { event: string; requestId?: string });
  return lines.filter(({ event, requestId }) => requestId === id && event !== 'request').map(({ event }) => event);
}

async function store(): Promise<StoredFile> {
  const file = await owner.call.store('plain', crypto.randomUUID());
  asked = [];
  return file;
}

it('an upload, a download and a deletion ask the pinning service under their own IDs', async () => {
  const stored = await ask('/v1/storage/encrypted', {
    method: 'POST',
    headers: { 'Content-Disposition': 'attachment; filename=x' },
    body: 'x'.repeat(2_000_000),
  });
  expect(asked.map(({ command }) => command)).toEqual(expect.arrayContaining(['dag/import', 'pin/ls', 'pin/add']));
  expect(idsOf()).toEqual([stored.id]);
  const { fileId } = await jsonOf<StoredFile>(stored.response, 201);
  const read = await ask(`/v1/storage/${fileId}/content`);
  await read.response.arrayBuffer();
  expect(idsOf('cat', 'block/get')).toEqual([read.id]);
  const deleted = await ask(`/v1/storage/${fileId}`, { method: 'DELETE' });
  expect(idsOf('pin/rm')).toEqual([deleted.id]);
});

it('a deletion that the pinning service refuses is repeated under its ID', async () => {
  const { fileId, cid } = await store();
  refused = ['pin/rm'];
  const deleted = await ask(`/v1/storage/${fileId}`, { method: 'DELETE' });
  expect(await deleted.response.json()).toMatchObject({ pins: [{ status: 'scheduled' }] });
  refused = [];
  await (await pinObject(service, cid)).ring(3_600_000);
  expect(idsOf('pin/rm')).toEqual([deleted.id]);
  expect(eventsOf(deleted.id)).toEqual(['pin.unpin']);
});

it('what many deletions in one request leave to the alarm is done under the ID of that request', async () => {
  const files = await Promise.all([store(), store(), store()]);
  const deleted = await ask('/v1/storage/delete', {
    method: 'POST',
    body: JSON.stringify({ files: files.map(({ fileId }) => fileId) }),
  });
  expect((await jsonOf<DeletedFiles>(deleted.response)).receipts).toHaveLength(3);
  await owner.object.ring(0);
  expect(asked.filter(({ command }) => command === 'pin/rm').length).toBeGreaterThanOrEqual(3);
  expect(idsOf('pin/rm')).toEqual([deleted.id]);
});

it('an upload that completes in the alarm completes under the ID of the request with its last bytes', async () => {
  refused = ['pin/add'];
  const body = new Uint8Array(300).fill(7);
  const headers = { 'Tus-Resumable': '1.0.0', 'Content-Type': 'application/offset+octet-stream' };
  const begun = await ask('/v1/uploads/plain', {
    method: 'POST',
    headers: { 'Tus-Resumable': '1.0.0', 'Upload-Length': String(body.length) },
  });
  const location = new URL(begun.response.headers.get('Location') ?? '', service.url).pathname;
  const sent = await ask(location, { method: 'PATCH', headers: { ...headers, 'Upload-Offset': '0' }, body });
  refused = [];
  await owner.object.ring(3_600_000);
  expect(idsOf('pin/add')).toEqual([sent.id]);
  expect(await (await ask(location)).response.json()).toMatchObject({ state: 'done' });
  expect(eventsOf(sent.id)).toEqual(['upload.finish']);
});

it('a file that expires is unpinned under one ID, which is no request’s, however often that fails', async () => {
  const expiresAt = new Date(Date.now() + 60_000).toISOString();
  const response = await owner.call.ask('storePlain', { expiresAt }, { body: crypto.randomUUID() });
  const { cid } = await jsonOf<StoredFile>(response, 201);
  asked = [];
  refused = ['pin/rm'];
  await owner.object.ring(120_000);
  await owner.object.ring(0);
  refused = [];
  await (await pinObject(service, cid)).ring(3_600_000);
  expect(asked.filter(({ command }) => command === 'pin/rm').length).toBeGreaterThanOrEqual(2);
  const ids = idsOf('pin/rm');
  expect(ids).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/)]);
  expect(ids).not.toContain(response.headers.get('X-Request-Id'));
});
