/**
 * Share: the record of one share (docs/links.md), and how often it may still be opened. It hands the record out and counts in one
 * transaction. Only `Account`, which decides who may, creates and revokes it; anybody who knows its ID may look and open.
 *
 * At the end, whether it is revoked, used up or expired, the record is overwritten. The row stays for a while, to say what became of it.
 */
import { DurableObject } from 'cloudflare:workers';
import { errorText, log } from '../../log.ts';
import { Alarm, backoffMs } from '../alarm.ts';
import { bytes, definitions, flag, integer, optional, recordOf, rowOf, text, time, type RecordOf } from '../columns.ts';
import { Openings, type OpeningBinding, type Origin } from './openings.ts';
import { err, type Failure, type Result } from '../result.ts';
import { first, hasTable, insert } from '../sql.ts';

/** Time after its expiry for which a share can still be told from one that never existed, in ms: 7 days. */
export const shareRetentionMs = 7 * 86_400_000;

/** The values are stored in rows, so they never change. */
export type ShareState = 'active' | 'used_up' | 'expired' | 'revoked';

const columns = {
  state: text<ShareState>('state'),
  record: optional(bytes('record')),
  password: flag('password'),
  opens: integer('opens'),
  opened: integer('opened'),
  expiresAt: time('expires_at'),
};

/** Backup of a share; times in ms. `record`: null once it has ended. `password`: whether it needs one. */
export type KeptShare = RecordOf<typeof columns>;

/** A record that is about to be kept. */
export type NewRecord = Pick<KeptShare, 'password' | 'opens' | 'expiresAt'> & { record: Uint8Array };

/** Status of a share, for anybody who knows its ID. */
export type ShareStatus = Omit<KeptShare, 'record' | 'opened'> & { opensLeft: number };

export class Share extends DurableObject<OpeningBinding> {
  readonly #sql = this.ctx.storage.sql;
  readonly #alarm = new Alarm(this.ctx.storage);
  readonly #openings = new Openings(this.#sql, this.env);

  /** The clock, in ms. */
  protected now(): number {
    return Date.now();
  }

  /** Runs after the record is overwritten and before the result is returned; see `Account`. */
  protected async erased(): Promise<void> {}

  /** Keeps a record. @returns `conflict` where there is one */
  async create(origin: Origin, record: NewRecord): Promise<Result> {
    if (this.#row() !== undefined) return err('conflict', 'the share exists');
    // Before the row: a record that no alarm ends would stay for ever.
    await this.#alarm.by(record.expiresAt);
    this.#insert(origin, { ...record, state: 'active', opened: 0 });
    return { ok: true };
  }

  /** Returns the backup of the share. @returns `not_found` */
  async backup(): Promise<Result<KeptShare>> {
    await this.#expire();
    const row = this.#row();
    if (row === undefined) return err('not_found');
    return { ok: true, ...row };
  }

  /** Writes what a backup has of the share. One that is there stays as it is: it may have been opened or revoked since. */
  async restore(origin: Origin, kept: KeptShare): Promise<Result> {
    if (this.#row() !== undefined) return { ok: true };
    await this.#alarm.by(kept.state === 'active' ? kept.expiresAt : kept.expiresAt + shareRetentionMs);
    this.#insert(origin, kept);
    return { ok: true };
  }

  /** Returns the status of the share. It uses nothing up, and writes nothing if there is no share. */
  async look(): Promise<Result<ShareStatus>> {
    await this.#expire();
    const row = this.#row();
    if (row === undefined) return err('not_found');
    const { record: _, opened, ...status } = row;
    return { ok: true, ...status, opensLeft: row.opens - opened };
  }

  /**
   * Hands the record out and counts, in one transaction; the last time, the record is overwritten in it, too. The account hears
   * of it afterwards, and nobody waits for that.
   * @returns `not_found`; `gone` for a share that has ended
   */
  async open(): Promise<Result<{ record: Uint8Array; opensLeft: number }>> {
    await this.#expire();
    if (this.#row()?.state === 'active') await this.#alarm.by(this.now() + backoffMs(1));
    const opened = this.ctx.storage.transactionSync((): Result<{ record: Uint8Array; opensLeft: number }> => {
      const row = this.#row();
      if (row === undefined) return err('not_found');
      if (row.state !== 'active' || row.record === null) return ended(row.state);
      const opensLeft = row.opens - row.opened - 1;
      this.#sql.exec('UPDATE share SET opened = opened + 1');
      this.#openings.add({ number: row.opened + 1, time: this.now() }, this.now() + backoffMs(1));
      if (opensLeft === 0) this.#end('used_up');
      return { ok: true, record: row.record, opensLeft };
    });
    if (opened.ok) this.ctx.waitUntil(this.#openings.deliver(this.now()));
    if (opened.ok && opened.opensLeft === 0) await this.erased();
    return opened;
  }

  /** Ends the share. May be repeated; without a share it does nothing. */
  async revoke(): Promise<Result> {
    if (this.#row()?.state !== 'active') return { ok: true };
    this.ctx.storage.transactionSync(() => this.#end('revoked'));
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
      const ending = row.state === 'active' ? row.expiresAt : row.expiresAt + shareRetentionMs;
      await this.#alarm.reset(Math.min(unreported ?? Infinity, ending > this.now() ? ending : Infinity));
    } catch (error) {
      log({ event: 'share.alarm', error: errorText(error) });
      await this.#alarm.reset(this.now() + backoffMs(1));
    }
  }

  #insert(origin: Origin, kept: KeptShare): void {
    this.ctx.storage.transactionSync(() => {
      this.#sql.exec(
        `CREATE TABLE IF NOT EXISTS share (id INTEGER PRIMARY KEY CHECK (id = 1), ${definitions(columns)})`,
      );
      insert(this.#sql, 'share', { id: 1, ...rowOf(columns, kept) });
      this.#openings.create(origin);
    });
  }

  /** An alarm may be late, so every call asks the clock, too. */
  async #expire(): Promise<void> {
    const row = this.#row();
    if (row?.state !== 'active' || row.expiresAt > this.now()) return;
    this.ctx.storage.transactionSync(() => this.#end('expired'));
    await this.erased();
  }

  /** Overwrites the record, in a transaction of the caller's. */
  #end(state: Exclude<ShareState, 'active'>): void {
    // The pages of the database are overwritten, not only given back.
    this.#sql.exec('UPDATE share SET record = zeroblob(length(record))');
    this.#sql.exec('UPDATE share SET record = NULL, state = ?', state);
  }

  async #purge(): Promise<void> {
    await this.#alarm.reset(undefined);
    await this.ctx.storage.deleteAll();
  }

  /** Reading creates nothing, so that a request for an unknown share leaves no trace. */
  #row(): KeptShare | undefined {
    const row = hasTable(this.#sql, 'share') ? first(this.#sql, 'SELECT * FROM share') : undefined;
    return row && recordOf(columns, row);
  }
}

/** Tells the holder of a link why the share does not open any more. */
function ended(state: ShareState): Failure {
  if (state === 'used_up') return err('gone', 'the share was opened as often as its sender allowed');
  if (state === 'expired') return err('gone', 'the share has expired');
  return err('gone', 'the share was revoked');
}
