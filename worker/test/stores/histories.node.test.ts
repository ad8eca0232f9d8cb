/**
 * Histories of a store, generated from a seed: the same few contents are stored in every way there
 * is, copied, moved, deleted, lost and stored again, while the store refuses and the Worker dies.
 * After each step every file that was acknowledged is read, and at the end nothing is left.
 */
import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import type { FileList, ResumableUpload, StoredFile } from '../../../shared/api.ts';
import { bytesOf, client, jsonOf } from '../../../testkit/api-client.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { doesAndRefuses, drops, refuses, type Rule } from '../../../testkit/object-stores/hostile-store.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { adminToken } from '../../../testkit/service.ts';
import { create, offsetOf, patch, version } from '../uploads/tus-client.ts';
import { costlyKinds, describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';
import { requestOf, waysToStore } from './ways-to-store.ts';

const mib = 1_048_576;
const day = 86_400_000;
const [seeds, steps] = long ? [2, 20] : [1, 8];

/** Numbers from 0 to 1 that are the same in each run. */
function sequence(seed: string): () => number {
  let count = 0;
  return () =>
    createHash('sha256')
      .update(`${seed} ${(count += 1)}`)
      .digest()
      .readUInt32BE() /
    2 ** 32;
}

type Kept = { fileId: string; content: Buffer };

/** What a store does to some of the next requests. */
const faults: Rule['fault'][] = [
  refuses('SlowDown'),
  refuses('InternalError'),
  refuses('AccessDenied'),
  doesAndRefuses('ServiceUnavailable'),
  { kind: 'swallow' },
  drops,
];

/** One history: what is acknowledged, and the steps that may follow. */
class History {
  readonly #store: StoreUnderTest;
  readonly #random: () => number;
  readonly #canDie: boolean;
  readonly #contents: readonly Buffer[];
  readonly #open: { path: string; id: string; content: Buffer }[] = [];
  kept: Kept[] = [];
  /** What was done, for the message of a failure. */
  readonly done: string[] = [];

  /** @param o.canDie whether the store keeps what it has taken when the Worker is killed */
  constructor(store: StoreUnderTest, { seed, canDie }: { seed: string; canDie: boolean }) {
    this.#store = store;
    this.#canDie = canDie;
    this.#random = sequence(seed);
    this.#contents = [700, 1.5 * mib, (long ? 4.5 : 2.5) * mib, 17 * mib + 5].map((size) => randomBytes(size));
  }

  #one<T>(items: readonly T[]): T {
    return present(items[Math.floor(this.#random() * items.length)]);
  }

  /** A content: the large one, of two parts, seldom. */
  #content(): Buffer {
    return itemOf(this.#contents, Math.floor(this.#random() ** 1.8 * this.#contents.length));
  }

  /** Stores the same content in every way. */
  async begin(): Promise<void> {
    const content = itemOf(this.#contents, 2);
    const names = Object.keys(waysToStore);
    await Promise.all(names.map((way) => this.#post(way, content)));
    expect(this.kept.length, this.done.join('\n')).toBe(names.length);
  }

  /** Stores something in one request, and a second time with the same key where that is refused. */
  async #post(way = this.#one(Object.keys(waysToStore)), content = this.#content()): Promise<void> {
    this.done.push(`${way} ${content.length}`);
    const key = { 'Idempotency-Key': randomBytes(20).toString('hex') };
    for (let tries = 0; tries < 2; tries += 1) {
      const { path, init } = await requestOf(way, content);
      const headers = { ...init.headers, ...key };
      const answer = await this.#store.owner.call(path, { ...init, headers }).catch(() => undefined);
      if (answer?.status === 201)
        return void this.kept.push({ fileId: (await answer.json<StoredFile>()).fileId, content });
      this.done.push(`  ${answer === undefined ? 'broke off' : `${answer.status} ${await answer.text()}`}`);
    }
  }

  /** Begins an upload in several requests, or continues one; it may be left as it is. */
  async #tus(): Promise<void> {
    const { call } = this.#store.owner;
    if (this.#open.length === 0 || this.#random() < 0.4) {
      const content = this.#content();
      const mode = this.#one(['plain', 'plain', 'encrypted'] as const);
      const created = await create(call, mode, content.length).catch(() => undefined);
      if (created !== undefined) this.#open.push({ path: created.path, id: created.id, content });
    }
    const upload = this.#open.pop();
    if (upload === undefined) return;
    const { path, id, content } = upload;
    this.done.push(`tus ${content.length}`);
    try {
      for (let pieces = this.#random() < 0.5 ? 1 : 9; pieces > 0; pieces -= 1) {
        const offset = await offsetOf(call, path);
        if (offset === content.length) break;
        const size = Math.ceil(content.length * (0.2 + this.#random()));
        const answer = await patch(call, path, offset, content.subarray(offset, offset + size));
        if (answer.status !== 204) this.done.push(`  ${answer.status} ${await answer.text()}`);
      }
      const { state } = await jsonOf<ResumableUpload>(call(path));
      if (state === 'done') this.kept.push({ fileId: id, content });
      else if (state !== 'failed') this.#open.push(upload);
    } catch (error) {
      this.done.push(`  ${String(error)}`);
      this.#open.push(upload);
    }
  }

  async #delete(): Promise<void> {
    if (this.kept.length === 0) return;
    const file = this.#one(this.kept);
    this.done.push(`delete ${file.content.length}`);
    // Whatever the answer, nobody may count on it from now on.
    this.kept = this.kept.filter((each) => each !== file);
    await this.#store.owner.call(`/v1/storage/${file.fileId}`, { method: 'DELETE' }).catch(() => undefined);
  }

  async #end(): Promise<void> {
    const upload = this.#open.shift();
    if (upload === undefined) return;
    this.done.push('end an upload');
    await this.#store.owner.call(upload.path, { method: 'DELETE', headers: version }).catch(() => undefined);
  }

  async #move(): Promise<void> {
    const operator = client(this.#store.service.url, adminToken);
    const from = this.#one(['store', 'twin']);
    const ends = { from, to: from === 'store' ? 'twin' : 'store' };
    const isCancelled = this.#random() < 0.3;
    this.done.push(`${isCancelled ? 'cancel' : 'migrate'} from ${from}`);
    await (isCancelled ? operator.ask('cancelMigration', ends) : operator.ask('createMigration', ends));
  }

  async #verify(): Promise<void> {
    if (this.kept.length === 0) return;
    const { fileId } = this.#one(this.kept);
    this.done.push('verify');
    await this.#store.owner.call(`/v1/storage/${fileId}/verification`, { method: 'POST' }).catch(() => undefined);
  }

  async #repair(): Promise<void> {
    this.done.push('repair');
    await client(this.#store.service.url, adminToken).ask('repairPins');
  }

  /** Loses an object of a file, and stores its bytes again: all files that have them are whole. */
  async #lose(): Promise<void> {
    const content = this.#content();
    const { call } = this.#store.owner;
    const before = new Set(await this.#store.keys());
    const sent = { method: 'POST', body: new Uint8Array(content) };
    const file = await jsonOf<StoredFile>(call('/v1/storage/plain', sent), 201);
    this.kept.push({ fileId: file.fileId, content });
    const own = (await this.#store.keys()).filter((key) => !before.has(key));
    const key = own.length === 0 ? `cid/${file.cid}` : this.#one(own);
    this.done.push(`lose ${key} of ${content.length}, and store it again`);
    await this.#store.lose(key).catch(() => undefined);
    const again = await jsonOf<StoredFile>(call('/v1/storage/plain', sent), 201);
    this.kept.push({ fileId: again.fileId, content });
  }

  async pass(ms = this.#one([0, 60_000, day / 24, day / 3, 2 * day])): Promise<void> {
    this.done.push(`${ms / 60_000} minutes pass`);
    await this.#store.pass(ms);
  }

  /** Some steps at once, now and then while the store refuses some requests, or the Worker dies. */
  async step(): Promise<void> {
    const { hostile } = this.#store;
    const some = [
      ...Array<() => Promise<void>>(5).fill(() => this.#post()),
      ...Array<() => Promise<void>>(3).fill(() => this.#tus()),
      ...Array<() => Promise<void>>(3).fill(() => this.#delete()),
      ...Array<() => Promise<void>>(2).fill(() => this.pass()),
      () => this.#move(),
      () => this.#verify(),
      () => this.#repair(),
      () => this.#end(),
    ];
    const dice = this.#random();
    const nth = Array.from({ length: 1 + Math.floor(this.#random() * 5) }, () => Math.ceil(this.#random() * 12));
    const isKilled = dice < 0.12 && this.#canDie;
    let killed: Promise<void> | undefined;
    if (isKilled) {
      const fault: Rule['fault'] = () => ({
        kind: 'late',
        until: (killed ??= this.#store.service.kill()),
        next: this.#random() < 0.5 ? { kind: 'swallow' } : { kind: 'cut', afterBytes: 0 },
      });
      hostile?.obey({ nth: nth.slice(0, 1), fault });
      this.done.push(`killed at request ${nth[0]}`);
    } else if (dice < 0.5) {
      hostile?.obey({ nth, fault: this.#one(faults) });
      this.done.push(`faults at requests ${nth.join(', ')}`);
    } else if (dice < 0.6) return await this.#lose();
    const acts = Array.from({ length: 1 + Math.floor(this.#random() * 3) }, () => this.#one(some)());
    // Who asks a Worker that dies has no answer.
    await Promise.all(acts.map((act) => (isKilled ? act.catch(() => undefined) : act)));
    hostile?.obey();
    if (!isKilled) return;
    await (killed ?? this.#store.service.kill());
    await this.#store.again();
  }

  /** Reads every file that was acknowledged. */
  async read(): Promise<void> {
    for (const { fileId, content } of this.kept) {
      const answer = await this.#store.owner.call(`/v1/storage/${fileId}/content`);
      const got = answer.status === 200 ? await bytesOf(answer) : await answer.text();
      const isRight = typeof got !== 'string' && got.equals(content);
      expect(isRight ? 'right' : `${answer.status} ${String(got).slice(0, 300)}`, this.done.join('\n')).toBe('right');
    }
  }

  /** Deletes everything, and lets the time pass that the store has for it. */
  async close(): Promise<void> {
    const { owner, service } = this.#store;
    const operator = client(service.url, adminToken);
    const { uploads } = await owner.call.listUploads();
    for (const { uploadId } of uploads)
      await owner.call(`/v1/uploads/${uploadId}`, { method: 'DELETE', headers: version });
    for (;;) {
      const { files } = await jsonOf<FileList>(owner.call('/v1/storage'));
      if (files.length === 0) break;
      for (const { fileId } of files) await jsonOf(owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' }));
    }
    for (const { from, to, state } of (await operator.listMigrations()).migrations)
      if (state === 'running') await operator.cancelMigration({ from, to });
    await this.#store.pass(3 * day, { rounds: 5 });
    for (const below of [undefined, 'twin/']) {
      const left = (await this.#store.keys(below)).filter((key) => key !== 'service');
      expect(left, this.done.join('\n')).toEqual([]);
    }
  }
}

describeStores('%s', costlyKinds, (kind) => {
  describe.each(['1', '2'])('with %s copies', (copies) => {
    let store: StoreUnderTest;
    beforeAll(async () => {
      store = await startStore(kind, { isGated: true, twin: 'twin/', vars: { REPLICAS: copies } });
    });
    afterAll(() => store.close());

    const own = Array.from({ length: seeds }, (_, seed) => `${seed}`);
    inCi.each(own)('history %s: every acknowledged file is read after each step, and nothing stays', async (seed) => {
      const history = new History(store, { seed: `${copies} ${seed}`, canDie: kind === 's3' });
      await history.begin();
      for (let left = steps; left > 0; left -= 1) {
        await history.step();
        await history.read();
      }
      await history.pass(2 * day);
      await history.read();
      await history.close();
    });
  });
});
