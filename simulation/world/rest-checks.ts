/** Checks of what must hold at rest: nothing fails any more, and every repair had its time. */
import type { StoredFile } from '../../shared/api.ts';
import { hourMs } from '../../shared/time.ts';
import { newOwner } from '../host/scheduler.ts';
import { shardName } from '../../worker/objects/pin/shard-names.ts';
import type { Storage } from '../platform/storage.ts';
import type { ActingWorld } from './actor.ts';
import { ask, answerJson, readCid } from './asking.ts';
import { fail, mustBeGone, type ModelFile, type ModelShare } from './model.ts';

/** Compares what clients, backends and rows say with the model. */
export async function checkRest(world: ActingWorld): Promise<void> {
  const { scheduler } = world.service;
  await scheduler.as(newOwner('checker'), async () => {
    const live: ModelFile[] = [];
    for (const [account, { apiKey }] of world.accounts.entries()) {
      const listed = await listOf(world, apiKey);
      const files = world.model.rests(account, listed, scheduler.now);
      live.push(...files);
      await checkUsage(world, account, files);
      for (const file of listed) await checkFile(world, apiKey, file);
      for (const file of listed.slice(0, 1)) await checkCid(world, file);
    }
    for (const share of world.model.shares) await checkShare(world, share);
    checkBackends(world, live);
    checkRecords(world);
    await checkWork(world, live);
  });
}

/** Checks that nothing is left after everything was deleted. */
export function checkEmpty({ service }: ActingWorld): void {
  for (const [id, kubo] of service.kubos) for (const cid of kubo.pins.keys()) fail(`${id} still pins ${cid}`);
  for (const [id, bucket] of service.buckets)
    for (const key of bucket.keys) if (!key.endsWith('service')) fail(`${id} still has ${key}`);
  for (const { storage, name } of service.objects) {
    const tables = [...Object.keys(passingRows), 'reference', 'upload', 'api_key'];
    for (const table of tables) checkNone(name, storage, table);
  }
  const [left] = service.kv.names();
  if (left !== undefined) fail(`KV still has ${left}`);
}

async function listOf({ service }: ActingWorld, apiKey: string): Promise<StoredFile[]> {
  const files: StoredFile[] = [];
  for (let cursor = ''; ;) {
    const path = `/v1/storage?limit=100${cursor}`;
    const told = await ask(service, { method: 'GET', path, apiKey, isRepeatable: true });
    if (told.status !== 200) return fail(`the list says ${told.status} ${told.code ?? ''}`);
    const page = answerJson<{ files: StoredFile[]; cursor?: string }>(told.answer);
    files.push(...page.files);
    if (page.cursor === undefined) return files;
    cursor = `&cursor=${page.cursor}`;
  }
}

async function checkUsage(
  { service, model, accounts }: ActingWorld,
  account: number,
  files: ModelFile[],
): Promise<void> {
  const apiKey = accounts[account]?.apiKey ?? '';
  const told = await ask(service, { method: 'GET', path: '/v1/account', apiKey, isRepeatable: true });
  const { usage, quotaBytes } = answerJson<{ usage?: { files: number; bytes: number }; quotaBytes?: number }>(
    told.answer,
  );
  if (usage?.files !== files.length) return fail(`the account counts ${usage?.files} files, and has ${files.length}`);
  const seen = { quota: quotaBytes ?? Infinity, bytes: usage.bytes };
  model.accountRests(account, seen, files, service.scheduler.now);
}

async function checkFile(
  { service, model, hasMigrated }: ActingWorld,
  apiKey: string,
  file: StoredFile,
): Promise<void> {
  const { fileId, cid, pins, filename } = file;
  const path = `/v1/storage/${fileId}/content`;
  const from = service.scheduler.now;
  const told = await ask(service, { method: 'GET', path, apiKey, isRepeatable: true });
  const known = model.files.find((each) => each.fileId === fileId);
  if (known === undefined || mustBeGone(known, service.scheduler.now)) return;
  if (told.status !== 200) fail(`${filename} is stored, and a read says ${told.status} ${told.code ?? ''}`);
  model.read(known, from, service.scheduler.now, { ...told, ...told.answer, status: told.status });
  for (const { service: backend, status } of pins)
    if (status === 'pinned' && (await service.backend(backend)?.holds(cid)) !== true)
      fail(`${filename} is not at ${backend}: ${status}`);
  const held = pins.filter(({ status }) => status === 'pinned').length;
  const copies = hasMigrated ? 1 : service.topology.replicas;
  if (held < copies) fail(`${filename} is pinned at ${held} of ${copies}: ${JSON.stringify(pins)}`);
}

/** Checks that a file is read by its CID, too. */
async function checkCid({ service, model }: ActingWorld, { fileId, cid, pins, filename }: StoredFile): Promise<void> {
  const { status, bytes } = await readCid(cid, (path, headers) =>
    ask(service, { method: 'GET', path, headers, apiKey: '', isRepeatable: true }),
  );
  const known = model.files.find((each) => each.fileId === fileId);
  if (known === undefined || mustBeGone(known, service.scheduler.now)) return;
  // What the node in front has damaged, it gives: the reader finds out.
  const givers = service.front === undefined ? pins.map((pin) => pin.service) : ['b0'];
  const isWell = await Promise.all(givers.map(async (id) => await service.backend(id)?.holdsWell(cid)));
  if (bytes === undefined && isWell.includes(true))
    fail(`${filename} is stored, and is not read by its CID (${status})`);
}

async function checkShare({ service, model, accounts }: ActingWorld, share: ModelShare): Promise<void> {
  const path = `/v1/shares/${share.id ?? ''}`;
  const told = await ask(service, { method: 'GET', path, apiKey: '', isRepeatable: true });
  const status = answerJson<{ state?: string; opensLeft?: number; expiresAt?: string }>(told.answer);
  if (told.status !== 200 || status.state !== 'active') return;
  const { now } = service.scheduler;
  const isFileGone = mustBeGone(share.file, now) && share.file.storedBy !== Infinity;
  if (isFileGone) fail(`the share of step ${share.step} is active without its file`);
  const { opensLeft = 0, expiresAt = '' } = status;
  const row = service.accounts.objects.get(accounts[share.account]?.id ?? '')?.storage;
  const [{ opens } = {}] = row?.read(`SELECT opens FROM share WHERE id = '${share.id ?? ''}'`) ?? [];
  model.shareRests(share, now, { opens: Number(opens), opensLeft, expiresAt: Date.parse(expiresAt) });
}

function checkBackends({ service }: ActingWorld, live: readonly ModelFile[]): void {
  const cids = new Set(live.map(({ cid }) => cid));
  const isNeeded = (cid: string): boolean => cids.has(cid);
  for (const [id, kubo] of service.kubos)
    for (const pin of kubo.pins.keys()) if (!isNeeded(kubo.rootOf(pin))) fail(`${id} pins ${pin}, which nobody needs`);
  for (const [id, bucket] of service.buckets) {
    const pins = [...service.pins.objects.values()].flatMap(({ storage }) => storage.rows('pin'));
    const named = new Set(pins.map(({ object }) => object));
    for (const key of bucket.keys) {
      const [, cid] = /cid\/(\w+)$/.exec(key) ?? [];
      const [, data] = /data\/(\w+)\//.exec(key) ?? [];
      if (cid !== undefined && !isNeeded(cid)) fail(`${id} has the index ${cid}, which nobody needs`);
      if (data !== undefined && !named.has(data)) fail(`${id} has the object ${key}, which nobody needs`);
    }
  }
}

/** Checks that somebody can revoke each record that opens. */
function checkRecords({ service }: ActingWorld): void {
  const shares = [...service.accounts.objects.values()].flatMap(({ storage }) => storage.rows('share'));
  const listed = new Set(shares.map(({ id }) => String(id)));
  for (const [id, { storage }] of service.shares.objects)
    for (const { state } of storage.rows('share'))
      if (state === 'active' && !listed.has(id)) fail(`the share ${id} opens, and is one that nobody lists`);
}

/** Rows that must be gone when everything rests, with a condition. */
const passingRows: Record<string, string> = {
  outbox: '1',
  part: '1',
  removal: '1',
  opening: '1',
  file: `state = 'pending'`,
  pin: `state <> 'live'`,
  object: `state <> 'stored'`,
  share: `state = 'making'`,
  receipt: `pins LIKE '%scheduled%'`,
};

async function checkWork({ service }: ActingWorld, live: readonly ModelFile[]): Promise<void> {
  const { now } = service.scheduler;
  for (const { name, storage } of service.objects) {
    for (const [table, where] of Object.entries(passingRows)) checkNone(name, storage, table, where);
    const alarm = storage.committedAlarm;
    if (alarm !== null && alarm < now - hourMs) fail(`the alarm of ${name} is late`);
    for (const table of ['pin', 'object']) {
      const [row] = storage.rows(table, { columns: 'min(due) AS due' });
      const due = row?.['due'];
      if (typeof due === 'number' && (alarm === null || alarm > due + hourMs)) fail(`nothing wakes ${name} in time`);
    }
  }
  for (const { cid, step } of live) {
    const storage = service.pins.objects.get(await shardName(cid ?? ''))?.storage;
    if (storage?.rows('reference').some((row) => row['cid'] === cid) !== true)
      fail(`nothing refers to the file of step ${step}`);
  }
}

function checkNone(name: string, storage: Storage, table: string, where?: string): void {
  const [row] = storage.rows(table, { where });
  if (row !== undefined) fail(`${name} still has a row of ${table}: ${JSON.stringify(row)}`);
}
