/** The steps of clients and the operator, and what the model hears of them. */
import { cidOf, sha256 } from '../../shared/ipfs/index.ts';
import { newOwner } from '../host/scheduler.ts';
import { ask, jsonOf, type Told } from './asking.ts';
import type { Coverage } from './coverage.ts';
import { mustBeGone, Violation, type Model, type ModelFile } from './model.ts';
import type { Action, Step } from './plan.ts';
import { adminToken, type SimulatedService } from './simulated-service.ts';

export type ActingWorld = {
  service: SimulatedService;
  model: Model;
  /** The account of each number: its ID, and its first key. */
  accounts: SimulatedAccount[];
  /** The quotas with which accounts are made. */
  quotas: readonly (number | null)[];
  /** Set once files may have been moved between backends. */
  hasMigrated: boolean;
  coverage: Coverage | undefined;
  keys: Map<number, SimulatedKey>;
  tell(line: string): void;
};

/** An account. `isClosing`: a step is about to replace it by another one. */
type SimulatedAccount = { id: string; apiKey: string; isClosing: boolean };

/** An API key that a step has made. */
type SimulatedKey = { id: string; apiKey: string; account: number; files: number; revokedBy: number };

export type ActionStep = Extract<Step, { does: Action }>;

const hourMs = 3_600_000;
const dayMs = 86_400_000;

/** Makes the account of a number; asks until there is one. */
export async function openAccount(world: ActingWorld, account: number): Promise<void> {
  const { service, model, accounts, quotas } = world;
  const quotaBytes = quotas[account] ?? null;
  const json = { label: `account ${account}`, ...(quotaBytes !== null && { quotaBytes }) };
  const request = { method: 'POST', path: '/v1/operator/accounts', apiKey: adminToken, json, isRepeatable: false };
  let told = await ask(service, request);
  // One whose answer was lost is closed at the end.
  for (; told.status !== 201; told = await ask(service, request)) await service.scheduler.sleep(hourMs, 'pause');
  const { account: made, apiKey } = jsonOf<{ account: { id: string }; apiKey: string }>(told.answer);
  accounts[account] = { id: made.id, apiKey, isClosing: false };
  model.opened(account, quotaBytes, service.scheduler.now);
}

/** Does a step. */
export async function act(world: ActingWorld, step: ActionStep): Promise<void> {
  const { scheduler } = world.service;
  const actor = new Actor(world, step);
  await scheduler.as(newOwner(`step ${step.id}`), () => actor.run(step.does));
}

class Actor {
  readonly #world: ActingWorld;
  readonly #step: ActionStep;
  readonly #account: number;
  readonly #key: SimulatedKey | undefined;
  readonly #apiKey: string;
  /** The first key of the account, as it was when the step began. */
  readonly #ownerKey: string | undefined;

  constructor(world: ActingWorld, step: ActionStep) {
    this.#world = world;
    this.#step = step;
    this.#key = step.withKey === undefined ? undefined : world.keys.get(step.withKey);
    this.#account = this.#key?.account ?? step.by;
    this.#ownerKey = world.accounts[this.#account]?.apiKey;
    this.#apiKey = this.#key?.apiKey ?? world.accounts[step.by]?.apiKey ?? '';
  }

  async run(action: Action): Promise<void> {
    switch (action.kind) {
      case 'store':
        return await this.#store(action);
      case 'upload':
        return await this.#upload(action);
      case 'read':
      case 'receipt':
      case 'verify':
        return await this.#look({ kind: action.kind, of: action.of });
      case 'delete':
        return await this.#delete([action.of]);
      case 'deleteAll':
        return await this.#delete(action.of);
      case 'expire':
        return await this.#expire(action);
      case 'share':
        return await this.#share(action);
      case 'open':
        return await this.#open(action);
      case 'revoke':
        return await this.#revoke(action);
      case 'key':
      case 'revokeKey':
        return await this.#keys(action);
      case 'list':
        return void (await this.#ask('GET', '/v1/storage?limit=100'));
      case 'close':
        return await this.#close();
      case 'quota': {
        const settle = this.#world.model.setQuota(this.#account, action.bytes, this.#now);
        const id = this.#world.accounts[this.#account]?.id ?? '';
        const told = await this.#operate('PATCH', `/v1/operator/accounts/${id}`, { quotaBytes: action.bytes });
        return told.status === 200 ? settle(this.#now) : undefined;
      }
      case 'backup':
        return void (await this.#operate(
          'GET',
          `/v1/operator/accounts/${this.#world.accounts[this.#account]?.id ?? ''}/backup`,
        ));
      case 'repair':
        return void (await this.#operate('POST', '/v1/operator/repair', {}));
      case 'migrate':
        this.#world.hasMigrated = true;
        return void (await this.#operate('POST', '/v1/operator/migrations', { from: action.from, to: action.to }));
      case 'cancel':
        return void (await this.#operate('DELETE', `/v1/operator/migrations/${action.from}/${action.to}`));
    }
  }

  get #now(): number {
    return this.#world.service.scheduler.now;
  }

  async #store(action: Extract<Action, { kind: 'store' }>): Promise<void> {
    const { mode, content, days, isRepeatable, lie } = action;
    const end = days === undefined ? Infinity : Math.round(this.#now + days * dayMs);
    const file = this.#begin(mode, content, end);
    const query = new URLSearchParams(end === Infinity ? {} : { expiresAt: new Date(end).toISOString() });
    if (lie === 'cid' && mode === 'plain')
      query.set('cid', cidOf('raw', await sha256(new TextEncoder().encode('other bytes'))).text);
    const isShort = lie === 'length' && file.bytes.length > 1;
    const told = await this.#ask('POST', `/v1/storage/${mode}?${query.toString()}`, {
      body: file.bytes,
      ...(isShort && { cutAt: file.bytes.length >> 1 }),
      headers: {
        'Content-Type': 'application/octet-stream',
        'Content-Disposition': `attachment; filename="step-${this.#step.id}"`,
        ...(isRepeatable && { 'Idempotency-Key': `key-of-step-${this.#step.id}-0123456789` }),
      },
      isRepeatable,
    });
    if (told.status === 201 && (isShort || query.has('cid'))) throw new Violation('a lie was stored');
    this.#settled(file, told);
  }

  #begin(mode: ModelFile['mode'], content: number, end: number): ModelFile {
    const { model } = this.#world;
    const [step, account, key] = [this.#step.id, this.#account, this.#step.withKey];
    return model.begin({ step, account, key, mode, begunAt: this.#now, ends: [end] }, content);
  }

  #settled(file: ModelFile, told: Told): void {
    const { model } = this.#world;
    if (told.status === 201) model.stored(file, jsonOf<{ fileId: string; cid: string }>(told.answer), this.#now);
    else if (told.isCertain) model.refused(file, told, this.#now);
    else file.reservesUntil = this.#now + 2 * 3_600_000;
  }

  /** An upload in several requests, which goes on where the service says. */
  async #upload(action: Extract<Action, { kind: 'upload' }>): Promise<void> {
    const { mode, content, pieces, days, isAbandoned, isConfused } = action;
    const end = Math.round(this.#now + days * dayMs);
    const file = this.#begin(mode, content, end);
    file.reservesUntil = this.#now + 8 * dayMs;
    const { bytes } = file;
    const tus = { 'Tus-Resumable': '1.0.0' };
    const metadata = Object.entries({ filename: `step-${this.#step.id}`, expiresAt: new Date(end).toISOString() })
      .map(([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`)
      .join(',');
    const created = await this.#ask('POST', `/v1/uploads/${mode}`, {
      headers: {
        ...tus,
        'Upload-Length': String(bytes.length),
        'Upload-Metadata': metadata,
        'Idempotency-Key': `key-of-step-${this.#step.id}-0123456789`,
      },
      isRepeatable: true,
    });
    const path = created.answer?.headers.get('Location')?.replace('https://files.example.com', '') ?? undefined;
    if (created.status !== 201 || path === undefined)
      return created.isCertain ? this.#world.model.refused(file, created, this.#now) : undefined;
    const size = Math.max(1, Math.ceil(bytes.length / pieces));
    let tries = 0;
    for (let offset = 0; tries < 6;) {
      if (isAbandoned && offset > 0) return;
      if (isConfused === true && offset > 0) await this.#sendAgain(path, bytes.subarray(0, size), offset);
      const body = bytes.subarray(offset, offset + size);
      const chunk = { ...tus, 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': String(offset) };
      const told = await this.#ask('PATCH', path, { headers: chunk, body, isRepeatable: false });
      if (told.status === 204 && offset + body.length >= bytes.length) break;
      const head = told.status === 204 ? told : await this.#ask('HEAD', path, { headers: tus, isRepeatable: true });
      const arrived = Number(head.answer?.headers.get('Upload-Offset') ?? Number.NaN);
      if (head.status === 404 || head.status === 410 || Number.isNaN(arrived)) return;
      if (arrived < offset) throw new Violation(`step ${this.#step.id}: ${offset} bytes arrived, and now ${arrived}`);
      tries = arrived > offset ? 0 : tries + 1;
      if (tries > 0) await this.#world.service.scheduler.sleep(1_000 * 2 ** tries, 'pause');
      offset = arrived;
      if (offset >= bytes.length && tries === 0) break;
    }
    for (let looks = 0; looks < 8; looks += 1) {
      const told = await this.#ask('GET', path, { isRepeatable: true });
      const upload = jsonOf<{ state?: string; file?: { fileId: string; cid: string } }>(told.answer);
      if (upload.state === 'done' && upload.file) return this.#world.model.stored(file, upload.file, this.#now);
      if (told.status !== 200 || upload.state !== 'finishing') return;
      await this.#world.service.scheduler.sleep(60_000, 'pause');
    }
  }

  /** Sends the first bytes of an upload that has more already. */
  async #sendAgain(path: string, body: Uint8Array, offset: number): Promise<void> {
    const headers = {
      'Tus-Resumable': '1.0.0',
      'Content-Type': 'application/offset+octet-stream',
      'Upload-Offset': '0',
    };
    const told = await this.#ask('PATCH', path, { headers, body, isRepeatable: false });
    if (told.status === 204) throw new Violation(`step ${this.#step.id}: the upload is at ${offset}, and takes byte 0`);
  }

  async #look({ kind, of }: { kind: 'read' | 'receipt' | 'verify'; of: number }): Promise<void> {
    const file = this.#known(of);
    if (file === undefined) return;
    const from = this.#now;
    if (kind === 'receipt')
      return await this.#checkReceipt(file, await this.#ask('GET', `/v1/storage/${file.fileId}/receipt`));
    if (kind === 'verify')
      return void (await this.#ask('POST', `/v1/storage/${file.fileId}/verification`, { json: {} }));
    const told = await this.#ask('GET', `/v1/storage/${file.fileId}/content`, { isRepeatable: true });
    this.#world.model.read(file, from, this.#now, { ...told, ...told.answer, status: told.status });
  }

  async #delete(steps: readonly number[]): Promise<void> {
    const { model } = this.#world;
    const files = [...new Set(steps.map((of) => this.#known(of)).filter((each) => each !== undefined))];
    const [only, ...others] = files;
    if (only === undefined) return;
    const from = this.#now;
    const wasAlone = files.every(({ deletions, goneFrom }) => deletions === 0 && goneFrom === Infinity);
    for (const file of files) model.deleting(file, from);
    if (others.length === 0) {
      const told = await this.#ask('DELETE', `/v1/storage/${only.fileId}`, { isRepeatable: true });
      if (told.status === 200 || (told.status === 404 && told.isCertain))
        model.deleted(only, from, this.#now, told, wasAlone && only.deletions === 1 && told.attempts === 1);
      else if (told.status === 404) model.deleted(only, from, this.#now, told, false);
      return await this.#checkReceipt(only, told);
    }
    const json = { files: files.map(({ fileId }) => fileId) };
    const told = await this.#ask('POST', '/v1/storage/delete', { json, isRepeatable: true });
    if (told.status !== 200) return;
    for (const file of files) model.deleted(file, from, this.#now, { status: 0, code: undefined }, false);
  }

  /** Checks that what a receipt calls gone is gone, unless somebody else has the same bytes. */
  async #checkReceipt(file: ModelFile, told: Told): Promise<void> {
    const { model, service } = this.#world;
    const { pins = [] } = jsonOf<{ pins?: { service: string; status: string }[] }>(told.answer);
    if (told.status !== 200 || file.cid === undefined || !model.wasLast(file)) return;
    for (const pin of pins)
      if (pin.status === 'unpinned' && (await service.holds(pin.service, file.cid)) && model.wasLast(file))
        throw new Violation(`the receipt of step ${file.step} says ${pin.status}, and ${pin.service} has its bytes`);
  }

  /** The operator closes an account, asks until it is done, and makes another one. */
  async #close(): Promise<void> {
    const { accounts, model, service, keys } = this.#world;
    const account = accounts[this.#step.by];
    if (account === undefined || account.isClosing) return;
    account.isClosing = true;
    const done = model.closing(this.#step.by, this.#now);
    for (let status = 0; status !== 200 && status !== 404;) {
      ({ status } = await this.#operate('DELETE', `/v1/operator/accounts/${account.id}`));
      if (status !== 200 && status !== 404) await service.scheduler.sleep(hourMs, 'pause');
    }
    done(this.#now);
    for (const key of keys.values()) if (key.account === this.#step.by) key.revokedBy = this.#now;
    await openAccount(this.#world, this.#step.by);
  }

  async #expire({ of, days }: { of: number; days: number | null }): Promise<void> {
    const file = this.#known(of);
    if (file === undefined) return;
    const end = days === null ? Infinity : Math.round(this.#now + days * dayMs);
    this.#world.model.ends(file, end, false);
    const json = { expiresAt: end === Infinity ? null : new Date(end).toISOString() };
    const told = await this.#ask('PATCH', `/v1/storage/${file.fileId}`, { json });
    // Another change may be under way, so that both ends stay possible until everything rests.
    if (told.status === 200 && mustBeGone(file, this.#now)) throw new Violation(`step ${of} is gone, and was changed`);
  }

  async #share({ of, opens, days }: Extract<Action, { kind: 'share' }>): Promise<void> {
    const file = this.#known(of);
    if (file === undefined) return;
    const { model } = this.#world;
    const end = Math.round(this.#now + days * dayMs);
    const record = Buffer.from(`record of step ${this.#step.id}`).toString('base64');
    const json = { record, files: [file.fileId], opens, password: false, expiresAt: new Date(end).toISOString() };
    const told = await this.#ask('POST', '/v1/shares', { json });
    if (told.status !== 201) return;
    const { id, expiresAt } = jsonOf<{ id: string; expiresAt: string }>(told.answer);
    if (Date.parse(expiresAt) > end) throw new Violation(`the share of step ${this.#step.id} ends too late`);
    const share = {
      step: this.#step.id,
      account: file.account,
      file,
      opens,
      record,
      ends: [Date.parse(expiresAt)],
      id,
    };
    const open = { goneFrom: Infinity, goneBy: Infinity, left: new Set<number>(), tokens: new Map<string, number>() };
    // What ends it with its file, its key or its account may have come first.
    if (this.#world.accounts[this.#account]?.apiKey !== this.#ownerKey) open.goneFrom = this.#now;
    model.shares.push({ ...share, ...open, unsure: 0 });
  }

  async #open({ of, receiver }: Extract<Action, { kind: 'open' }>): Promise<void> {
    const { model } = this.#world;
    const share = model.share(of);
    if (share?.id === undefined) return;
    const token = `receiver-${of}-${receiver}-${Math.floor(this.#now / 300_000)}-0123456789`;
    const from = this.#now;
    const isFirst = !share.tokens.has(token);
    share.tokens.set(token, from);
    if (isFirst) share.unsure += 1;
    const told = await this.#ask('POST', `/v1/shares/${share.id}/open`, {
      headers: { 'Idempotency-Key': token },
      isRepeatable: true,
      apiKey: '',
    });
    const body = jsonOf<{ record?: string; opensLeft?: number }>(told.answer);
    if (told.status === 200 && body.opensLeft === undefined) return;
    const replayed = told.answer?.headers.get('Idempotency-Replayed') === 'true';
    model.shareOpened(share, { from, to: this.#now, token, seen: told, ...body, replayed });
    if (isFirst && (told.isCertain || (told.status === 200 && !replayed))) share.unsure -= 1;
  }

  async #revoke({ of }: { of: number }): Promise<void> {
    const share = this.#world.model.share(of);
    if (share?.id === undefined || share.account !== this.#account) return;
    share.goneFrom = Math.min(share.goneFrom, this.#now);
    const told = await this.#ask('DELETE', `/v1/shares/${share.id}`, { isRepeatable: true });
    const isDone = jsonOf<{ record?: string }>(told.answer).record === 'destroyed';
    if (told.status === 200 && isDone) share.goneBy = Math.min(share.goneBy, this.#now);
  }

  async #keys(action: Extract<Action, { kind: 'key' | 'revokeKey' }>): Promise<void> {
    const { keys, model, accounts } = this.#world;
    const apiKey = accounts[this.#step.by]?.apiKey ?? '';
    if (action.kind === 'key') {
      const scopes = ['read', 'write', 'delete', 'share'];
      const json = { label: 'k', scopes, limits: { files: action.files } };
      const told = await this.#ask('POST', '/v1/keys', { json, apiKey });
      if (told.status !== 201) return;
      const made = jsonOf<{ apiKey: string; key: { id: string } }>(told.answer);
      const { id: step, by: account } = this.#step;
      model.limits.set(step, action.files);
      keys.set(step, { id: made.key.id, apiKey: made.apiKey, account, files: action.files, revokedBy: Infinity });
      return;
    }
    const key = keys.get(action.of);
    if (key === undefined || key.account !== this.#step.by) return;
    for (const share of model.shares)
      if (share.account === key.account) share.goneFrom = Math.min(share.goneFrom, this.#now);
    const told = await this.#ask('DELETE', `/v1/keys/${key.id}`, { isRepeatable: true, apiKey });
    if (told.status === 200) key.revokedBy = this.#now;
  }

  /** The file of a step, if it is known by an ID and is of the same account. */
  #known(step: number): ModelFile | undefined {
    const file = this.#world.model.file(step);
    return file?.fileId !== undefined && file.account === this.#account ? file : undefined;
  }

  async #operate(method: string, path: string, json?: unknown): Promise<Told> {
    return await this.#ask(method, path, { json, apiKey: adminToken, isRepeatable: method !== 'POST' });
  }

  async #ask(
    method: string,
    path: string,
    o: Partial<Omit<Parameters<typeof ask>[1], 'method' | 'path'>> = {},
  ): Promise<Told> {
    const { service, tell } = this.#world;
    const request = { method, path, apiKey: this.#apiKey, isRepeatable: method === 'GET', ...o };
    const from = this.#now;
    const told = await ask(service, request);
    const said = told.status === 0 ? 'the line broke' : `${told.status} ${told.code ?? ''}`.trim();
    const tries = told.attempts === 1 ? '' : `, ${told.attempts} attempts`;
    tell(`step ${this.#step.id}: ${method} ${path.slice(0, 60)}: ${said} (${Math.round(this.#now - from)} ms${tries})`);
    const wasRevoked = this.#key !== undefined && this.#key.revokedBy < from && request.apiKey === this.#key.apiKey;
    if (wasRevoked && told.status >= 200 && told.status < 300) throw new Violation('a revoked key was accepted');
    return told;
  }
}
