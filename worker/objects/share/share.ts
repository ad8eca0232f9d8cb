/**
 * Share: the record of one share (docs/links.md), and how often it may still be opened. It hands
 * the record out and counts in one transaction. Only `Account`, which decides who may, creates and
 * revokes it; anybody who knows its ID may look and open.
 *
 * At the end the record is overwritten: at once when the share is revoked or expires, and when it
 * is used up as soon as no opening can be repeated any more. The row stays for a while, to say what
 * became of it.
 */
import { DurableObject } from 'cloudflare:workers';
import { timingSafeEqual } from '../../../shared/crypto/index.ts';
import { errorText, log } from '../../log.ts';
import { Alarm, backoffMs } from '../alarm.ts';
import { addColumns, bytes, definitions, flag, integer, optional, recordsOf, rowOf, text } from '../columns.ts';
import type { RecordOf } from '../columns.ts';
import { Openings, type NewTerms, type OpeningBinding, type Origin } from './openings.ts';
import { RepeatableOpenings } from './repeatable-openings.ts';
import { err, type Failure, type Result } from '../result.ts';
import { hasTable, insert, overwrite, update } from '../sql.ts';

/**
 * Time after its expiry for which a share can still be told from one that never existed, in ms: 7
 * days.
 */
export const shareRetentionMs = 7 * 86_400_000;

/** The values are stored in rows, so they never change. */
export type ShareState = 'active' | 'used_up' | 'expired' | 'revoked';

/** A record that is about to be kept; times in ms. `password`: whether the record needs one. */
export type NewRecord = { record: Uint8Array; password: boolean; opens: number; expiresAt: number };

/** Status of a share, for anybody who knows its ID. `changedAt`: of its terms; null: never. */
export type ShareStatus = Omit<ShareRecordRow, 'record' | 'opened'> & { opensLeft: number };

/** Change of terms, times in ms. What is undefined stays. `seen`: what must be so still. */
export type TermsChange = {
  opens?: number | undefined;
  expiresAt?: number | undefined;
  seen?: Pick<ShareStatus, 'opensLeft' | 'expiresAt' | 'changedAt'> | undefined;
};

/** Result of such a change: the status, and the terms where they are others than before. */
export type ChangedTerms = { status: ShareStatus; terms: NewTerms | undefined };

/** Backup of a share. `record`: null once it has ended. */
export type KeptShare = Omit<NewRecord, 'record'> & { state: ShareState; opened: number; record: Uint8Array | null };

/** Result of an opening. `isRepeated`: it was counted before, and its answer may have been lost. */
export type OpenedRecord = { record: Uint8Array; opensLeft: number; isRepeated: boolean };

const firstColumns = {
  state: text<ShareState>('state'),
  record: optional(bytes('record')),
  password: flag('password'),
  opens: integer('opens'),
  opened: integer('opened'),
  expiresAt: integer('expires_at'),
};
/** Columns of a share whose terms were changed. */
const laterShareColumns = { changedAt: optional(integer('changed_at')) };
const columns = { ...firstColumns, ...laterShareColumns };

type ShareRecordRow = RecordOf<typeof columns>;

export class Share extends DurableObject<OpeningBinding> {
  readonly #sql = this.ctx.storage.sql;
  readonly #alarm = new Alarm(this.ctx.storage);
  readonly #openings = new Openings(this.#sql, this.env);
  readonly #repeatable = new RepeatableOpenings(this.#sql);

  /** The clock, in ms. */
  protected now(): number {
    return Date.now();
  }

  /** Runs after the record is overwritten and before the result is returned; see `Account`. */
  protected async erased(): Promise<void> {}

  /**
   * Keeps a record, for as long as the last of the requests says that send it.
   * @returns `conflict` where there is another one, or it was opened or has ended
   */
  async create(origin: Origin, { record, password, opens, expiresAt }: NewRecord): Promise<Result> {
    // Before the row: a record that no alarm ends would stay for ever.
    await this.#alarm.by(expiresAt);
    const row = this.#row();
    if (row === undefined) this.#insert(origin, { state: 'active', record, password, opens, opened: 0, expiresAt });
    else if (this.#isUnopened(row, origin, record))
      update(this.#sql, 'share', rowOf(firstColumns, { opens, expiresAt }), 'id = 1');
    else return err('conflict', 'there is a share with this ID');
    return { ok: true };
  }

  /** Returns the backup of the share. @returns `not_found` */
  async backup(): Promise<Result<KeptShare>> {
    await this.#expire();
    const row = this.#row();
    if (row === undefined) return err('not_found');
    const { changedAt: _, ...kept } = row;
    return { ok: true, ...kept, record: row.state === 'active' ? row.record : null };
  }

  /**
   * Writes what a backup has of the share. One that is there stays as it is: it may have been
   * opened or revoked since.
   */
  async restore(origin: Origin, kept: KeptShare): Promise<Result> {
    if (this.#row() !== undefined) return { ok: true };
    await this.#alarm.by(kept.state === 'active' ? kept.expiresAt : kept.expiresAt + shareRetentionMs);
    this.#insert(origin, kept);
    return { ok: true };
  }

  /**
   * Returns the status of the share. It uses nothing up, and writes nothing if there is no share.
   */
  async look(): Promise<Result<ShareStatus>> {
    await this.#expire();
    const row = this.#row();
    return row === undefined ? err('not_found') : { ok: true, ...statusOf(row) };
  }

  /**
   * Hands the record out and counts, in one transaction. The account hears of it afterwards, and
   * nobody waits for that.
   * @param token the hash of what the caller alone knows: with the same one it gets the record
   * again for some minutes, uncounted
   * @returns `not_found`; `gone` for a share that has ended
   */
  async open(token?: string): Promise<Result<OpenedRecord>> {
    await this.#expire();
    if (this.#row()?.state === 'active') await this.#alarm.by(this.now() + backoffMs(1));
    const opened = this.ctx.storage.transactionSync((): Result<OpenedRecord> => {
      const now = this.now();
      const row = this.#row();
      if (row === undefined) return err('not_found');
      const isRepeated = token !== undefined && this.#repeatable.has(token, now);
      const { record } = row;
      if (record === null || (row.state !== 'active' && !isRepeated)) return ended(row.state);
      if (isRepeated) return { ok: true, record, opensLeft: row.opens - row.opened, isRepeated };
      const opensLeft = row.opens - row.opened - 1;
      this.#openings.add({ number: row.opened + 1, time: now }, now + backoffMs(1));
      if (token !== undefined) this.#repeatable.add(token, now);
      const isKept = opensLeft > 0 || this.#repeatable.until() > now;
      const state = opensLeft > 0 ? 'active' : 'used_up';
      this.#rewrite({ state, opened: row.opened + 1, record: isKept ? record : null });
      return { ok: true, record, opensLeft, isRepeated };
    });
    if (opened.ok && !opened.isRepeated) this.ctx.waitUntil(this.#openings.deliver(this.now()));
    if (opened.ok && this.#row()?.record === null) await this.erased();
    return opened;
  }

  /**
   * Changes how often and how long the share opens, in one transaction with its openings. The
   * account hears of it afterwards.
   * @param by the ID of the API key that does it
   * @returns the status, and the terms, undefined where they were the same before; `not_found`;
   * `gone` for a share that has ended; `invalid_request` for fewer opens than were used; `conflict`
   * where it is not as it was seen
   */
  async change(by: string, { opens, expiresAt, seen }: TermsChange): Promise<Result<ChangedTerms>> {
    await this.#expire();
    const dueMs = this.now() + backoffMs(1);
    if (this.#row()?.state === 'active') await this.#alarm.by(Math.min(expiresAt ?? Infinity, dueMs));
    const changed = this.ctx.storage.transactionSync((): Result<ChangedTerms> => {
      const now = this.now();
      const row = this.#row();
      if (row === undefined) return err('not_found');
      if (row.state !== 'active') return ended(row.state);
      if (row.expiresAt <= now) return ended('expired');
      const was = statusOf(row);
      const isSeen = (['opensLeft', 'expiresAt', 'changedAt'] as const).every((each) => seen?.[each] === was[each]);
      if (seen !== undefined && !isSeen) return err('conflict', 'the share was opened or changed meanwhile', 1);
      const isUsedUp = opens === row.opened;
      const state = isUsedUp ? 'used_up' : 'active';
      const next = { ...row, state, opens: opens ?? row.opens, expiresAt: expiresAt ?? row.expiresAt } as const;
      if (next.opens < row.opened)
        return err('invalid_request', `opens must be at least ${row.opened}: so often it was opened already`);
      if (next.opens === row.opens && next.expiresAt === row.expiresAt)
        return { ok: true, status: statusOf(next), terms: undefined };
      // Times of changes are their order, also where the clock was set back.
      const time = Math.max(now, (row.changedAt ?? 0) + 1);
      const isKept = !isUsedUp || this.#repeatable.until() > now;
      addColumns(this.#sql, 'share', laterShareColumns);
      const record = isKept ? row.record : null;
      this.#rewrite({ ...next, record }, { opens: next.opens, expiresAt: next.expiresAt, changedAt: time });
      const terms = { time, by, opens: next.opens, expiresAt: next.expiresAt };
      this.#openings.addChange(terms, dueMs);
      return { ok: true, status: statusOf({ ...next, changedAt: time }), terms };
    });
    if (changed.ok && changed.terms !== undefined) this.ctx.waitUntil(this.#openings.deliver(this.now()));
    if (changed.ok && this.#row()?.record === null) await this.erased();
    return changed;
  }

  /**
   * Ends the share, and what openings could be repeated. May be repeated; without a share it does
   * nothing, nor with one of another account, which may have asked for its ID.
   * @param account that asks; undefined where an earlier version of its object does
   */
  async revoke(account?: string): Promise<Result> {
    const row = this.#row();
    if (account !== undefined && account !== (this.#openings.account() ?? account)) return { ok: true };
    if (row === undefined || (row.state !== 'active' && row.record === null)) return { ok: true };
    this.ctx.storage.transactionSync(() => this.#end(row, 'revoked'));
    await this.erased();
    return { ok: true };
  }

  /** Ends the share when its time is up, and removes what is left of it later. */
  override async alarm(): Promise<void> {
    try {
      await this.#expire();
      if ((this.#openings.nextDue() ?? Infinity) <= this.now()) await this.#openings.deliver(this.now());
      const row = this.#row();
      const unreported = this.#openings.nextDue();
      if (row === undefined || (row.expiresAt + shareRetentionMs <= this.now() && unreported === undefined))
        return await this.#purge();
      const forgotten = row.expiresAt + shareRetentionMs;
      const ending = row.record !== null ? this.#recordUntil(row) : forgotten > this.now() ? forgotten : Infinity;
      await this.#alarm.reset(Math.min(unreported ?? Infinity, ending));
    } catch (error) {
      log({ event: 'share.alarm', error: errorText(error) });
      await this.#alarm.reset(this.now() + backoffMs(1));
    }
  }

  #insert(origin: Origin, share: KeptShare): void {
    this.ctx.storage.transactionSync(() => {
      this.#sql.exec(`
        CREATE TABLE IF NOT EXISTS share (id INTEGER PRIMARY KEY CHECK (id = 1), ${definitions(firstColumns)})
      `);
      insert(this.#sql, 'share', { id: 1, ...rowOf(firstColumns, share) });
      this.#openings.create(origin);
    });
  }

  /** An alarm may be late, so every call asks the clock, too. */
  async #expire(): Promise<void> {
    const row = this.#row();
    if (row === undefined || row.record === null || this.#recordUntil(row) > this.now()) return;
    this.ctx.storage.transactionSync(() => this.#end(row, row.state === 'active' ? 'expired' : row.state));
    await this.erased();
  }

  /** Tells whether an account sent a record before, and nobody has opened it. */
  #isUnopened({ state, opened, record: kept }: ShareRecordRow, { account }: Origin, record: Uint8Array): boolean {
    const isSame = kept !== null && timingSafeEqual(kept, record) && this.#openings.account() === account;
    return isSame && state === 'active' && opened === 0;
  }

  /** Returns the time until which the record is kept, in ms. */
  #recordUntil({ state, expiresAt }: ShareRecordRow): number {
    return state === 'active' ? expiresAt : Math.min(expiresAt, this.#repeatable.until());
  }

  /** Ends the share, and what can be repeated, in a transaction of the caller's. */
  #end(row: ShareRecordRow, state: ShareState): void {
    this.#rewrite({ ...row, state, record: null });
    this.#repeatable.forget();
  }

  /**
   * Writes the row again, or what is left of it without its record, in a transaction of the
   * caller's. @param terms where they are others
   */
  #rewrite(
    { state, opened, record }: Pick<ShareRecordRow, 'state' | 'opened' | 'record'>,
    terms?: Pick<ShareRecordRow, 'opens' | 'expiresAt' | 'changedAt'>,
  ): void {
    // A row that gets another length moves, and leaves its bytes behind.
    overwrite(this.#sql, 'share', 'record', 'true');
    update(this.#sql, 'share', rowOf(columns, { state, opened, record, ...terms }), 'id = 1');
  }

  async #purge(): Promise<void> {
    await this.#alarm.reset(undefined);
    await this.ctx.storage.deleteAll();
  }

  /** Reading creates nothing, so that a request for an unknown share leaves no trace. */
  #row(): ShareRecordRow | undefined {
    return hasTable(this.#sql, 'share') ? recordsOf(this.#sql, columns, 'SELECT * FROM share')[0] : undefined;
  }
}

function statusOf({ state, password, opens, opened, expiresAt, changedAt }: ShareRecordRow): ShareStatus {
  return { state, password, opens, opensLeft: opens - opened, expiresAt, changedAt };
}

/** Tells the holder of a link why the share does not open any more. */
function ended(state: ShareState): Failure {
  if (state === 'used_up') return err('gone', 'the share was opened as often as its sender allowed');
  if (state === 'expired') return err('gone', 'the share has expired');
  return err('gone', 'the share was revoked');
}
