/**
 * Pin: who refers to which CID at which pinning service. 256 objects hold all CIDs, by the first byte of SHA-256 of the CID's
 * text. A set of references, never a counter, so that adding and removing can be repeated. Only `Account` calls methods that write.
 *
 * `was_there`: the pin of the CID is not ours; `anchored`: we may have one of our own besides it. `other`: a name of somebody else's
 * pin that the first version overwrote with ours, and that has to be given back.
 *
 * A row goes from `live` to `unpinning`, then it is removed; one operation at a time per CID. While a row is `unpinning`, it is
 * unknown what the service does with a late request of ours, so a new reference waits until the row is removed.
 */
import { DurableObject } from 'cloudflare:workers';
import { isSealpinError } from '../../shared/errors.ts';
import type { Env } from '../env.ts';
import { errorText, log } from '../log.ts';
import { serviceOf } from '../pinning/configured.ts';
import type { Held } from '../pinning/contract.ts';
import { Alarm, backoffMs } from './alarm.ts';
import { pinGauges, type PinGauges } from './pin-gauges.ts';
import { err, toFailure, type Result } from './result.ts';

/** How long a call waits for another one on the same CID. */
const waitMs = 10_000;
/** How long one request to a pinning service may take here. */
const requestMs = 8_000;
/** How long the same may take where a pin gets its name back: the service may walk over the whole file. */
const renameMs = 60_000;

/** A file of an account that needs a CID at a service. */
export type Reference = { cid: string; service: string; account: string; fileId: string };

/** How the bytes of a reference are pinned: `beside` a pin that is not ours; not at all, where ours is `pinned` already. */
export type PinPlan = { beside: boolean; pinned: boolean };

type PinRow = {
  cid: string;
  service: string;
  state: 'live' | 'unpinning';
  was_there: number;
  other: string | null;
  anchored: number;
  due: number | null;
  attempts: number;
};

/** The outcome of removing a pin. `kept`: it is not ours, so it stays; `scheduled`: it is tried again later. */
export type Removal = 'unpinned' | 'kept' | 'scheduled';

/** Whose pin a row records, and whether the pin that is about to be made goes beside it, or is there already. */
type Ownership = Pick<PinRow, 'other' | 'anchored'> & { wasThere: number; pinned: boolean };

/** The ownership from what the service holds now and the row from before. A pin that is not ours is never touched. */
function ownership(held: Held, row: PinRow | undefined): Ownership {
  if (held.pin === 'absent') return { wasThere: 0, other: null, anchored: row?.anchored ?? 0, pinned: false };
  const beside = { wasThere: 1, anchored: 1, pinned: false };
  if (held.pin === 'foreign') return { ...beside, other: null };
  // A pin under our name may be somebody else's, from before; and one without a name is anybody's.
  if (row?.was_there === 1 || (row === undefined && held.pin === 'unknown'))
    return { ...beside, other: row?.other ?? null };
  return { wasThere: 0, other: null, anchored: row?.anchored ?? 0, pinned: row !== undefined };
}

/** The CIDs that the operator denies. Their bytes are neither served nor stored. */
const denylist = 'CREATE TABLE IF NOT EXISTS denied (cid TEXT PRIMARY KEY, created_at INTEGER NOT NULL) WITHOUT ROWID';

/** One of the 256 objects that hold the references to pins. */
export class Pin extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;
  readonly #alarm = new Alarm(this.ctx.storage);
  readonly #queues = new Map<string, Promise<void>>();
  #exists = this.#sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'pin'`).toArray().length > 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    // Objects from before there was a denylist.
    if (this.#exists) this.#sql.exec(denylist);
    // Objects of the first version.
    if (
      this.#exists &&
      this.#sql.exec(`SELECT 1 FROM pragma_table_info('pin') WHERE name = 'other'`).toArray().length === 0
    ) {
      this.#sql.exec('ALTER TABLE pin ADD COLUMN other TEXT');
      this.#sql.exec('ALTER TABLE pin ADD COLUMN anchored INTEGER NOT NULL DEFAULT 0');
    }
  }

  /** The clock, in ms. */
  protected now(): number {
    return Date.now();
  }

  /**
   * Adds a reference, and asks the service whose pin of the CID it holds. `beside`: it is not ours, so ours has to be made beside it;
   * `pinned`: ours is there already, from an earlier reference.
   * @returns `forbidden` for a CID on the denylist; `overloaded`, and what the service fails with
   */
  async addReference(reference: Reference): Promise<Result<PinPlan>> {
    return await this.#serialize<PinPlan>(reference.cid, async () => {
      const { cid, service, account, fileId } = reference;
      this.#create();
      if (this.#deniedAt(cid) !== undefined)
        return err('forbidden', 'the operator of this service has put these bytes on its denylist');
      let row = this.#row(cid, service);
      if (row?.state === 'unpinning') {
        await this.#unpin(row);
        row = this.#row(cid, service);
        if (row !== undefined) return err('overloaded', 'the same bytes are being removed', 5);
      }
      let held: Held;
      try {
        held = await serviceOf(this.env, service).stat(cid, AbortSignal.timeout(requestMs));
      } catch (error) {
        log({ event: 'pin.stat', service, error: errorText(error) });
        return isSealpinError(error) ? toFailure(error) : err('pinning_unavailable');
      }
      const { wasThere, other, anchored, pinned } = ownership(held, row);
      this.ctx.storage.transactionSync(() => {
        this.#sql.exec(
          `INSERT INTO pin (cid, service, state, was_there, other, anchored, attempts) VALUES (?, ?, 'live', ?, ?, ?, 0)
           ON CONFLICT (cid, service) DO UPDATE SET
             was_there = excluded.was_there, other = excluded.other, anchored = excluded.anchored`,
          cid,
          service,
          wasThere,
          other,
          anchored,
        );
        this.#sql.exec(
          'INSERT INTO reference (cid, service, account, file_id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
          cid,
          service,
          account,
          fileId,
        );
      });
      return { ok: true, beside: wasThere === 1, pinned };
    });
  }

  /** Removes a reference, and with the last one the pin. `unpinned`: nothing is left to do for this reference. */
  async removeReference(reference: Reference): Promise<Result<{ status: Removal }>> {
    return await this.#serialize<{ status: Removal }>(reference.cid, async () => {
      const { cid, service, account, fileId } = reference;
      if (!this.#exists) return { ok: true, status: 'unpinned' };
      const row = this.ctx.storage.transactionSync(() => {
        this.#sql.exec(
          'DELETE FROM reference WHERE cid = ? AND service = ? AND account = ? AND file_id = ?',
          cid,
          service,
          account,
          fileId,
        );
        const left = this.#sql
          .exec('SELECT 1 FROM reference WHERE cid = ? AND service = ? LIMIT 1', cid, service)
          .toArray();
        const row = this.#row(cid, service);
        if (left.length > 0 || row === undefined) return undefined;
        this.#sql.exec(`UPDATE pin SET state = 'unpinning' WHERE cid = ? AND service = ?`, cid, service);
        return row;
      });
      return { ok: true, status: row === undefined ? 'unpinned' : await this.#unpin(row) };
    });
  }

  /**
   * The services at which a CID has references; none: it is not stored here. `gone`: it was, and is being removed.
   * @returns `content_denied`
   */
  async services(cid: string): Promise<Result<{ services: string[]; gone: boolean }>> {
    if (!this.#exists) return { ok: true, services: [], gone: false };
    if (this.#deniedAt(cid) !== undefined) return err('content_denied');
    const rows = this.#sql.exec<{ service: string }>(
      `SELECT service FROM pin WHERE cid = ?1 AND state = 'live' AND EXISTS
       (SELECT 1 FROM reference WHERE reference.cid = ?1 AND reference.service = pin.service)`,
      cid,
    );
    const services = rows.toArray().map((row) => row.service);
    const gone =
      services.length === 0 &&
      this.#sql.exec(`SELECT 1 FROM pin WHERE cid = ? AND state = 'unpinning'`, cid).toArray().length > 0;
    return { ok: true, services, gone };
  }

  /**
   * Puts a CID on the denylist, or takes it off. Once it is there, no reference is added any more.
   * @returns the accounts that have a reference to it, whose files are to be denied as well
   */
  async deny(cid: string, denied: boolean): Promise<Result<{ accounts: string[] }>> {
    return await this.#serialize<{ accounts: string[] }>(cid, async () => {
      if (!denied && !this.#exists) return { ok: true, accounts: [] };
      this.#create();
      if (denied) this.#sql.exec('INSERT OR IGNORE INTO denied (cid, created_at) VALUES (?, ?)', cid, this.now());
      else this.#sql.exec('DELETE FROM denied WHERE cid = ?', cid);
      const rows = this.#sql.exec<{ account: string }>('SELECT DISTINCT account FROM reference WHERE cid = ?', cid);
      return { ok: true, accounts: rows.toArray().map(({ account }) => account) };
    });
  }

  /** When a CID was put on the denylist, in ms. @returns `not_found` */
  async denied(cid: string): Promise<Result<{ createdAt: number }>> {
    const createdAt = this.#exists ? this.#deniedAt(cid) : undefined;
    return createdAt === undefined ? err('not_found', 'this CID is not on the denylist') : { ok: true, createdAt };
  }

  /** What the operator's metrics show of it. */
  async gauges(): Promise<Result<PinGauges>> {
    return { ok: true, ...(this.#exists ? pinGauges(this.#sql, this.now()) : { pins: [], lateMs: 0 }) };
  }

  /** Retries the removals that a service did not acknowledge. */
  override async alarm(): Promise<void> {
    try {
      const due = this.#sql
        .exec<PinRow>(`SELECT * FROM pin WHERE state = 'unpinning' AND due <= ?`, this.now())
        .toArray();
      for (const { cid, service } of due) {
        await this.#serialize(cid, async () => {
          const row = this.#row(cid, service);
          if (row?.state === 'unpinning') await this.#unpin(row);
          return { ok: true };
        });
      }
      const [next] = this.#sql
        .exec<{ due: number | null }>(`SELECT min(due) AS due FROM pin WHERE state = 'unpinning'`)
        .toArray();
      await this.#alarm.reset(next?.due ?? undefined);
    } catch (error) {
      log({ event: 'pin.alarm', error: errorText(error) });
      await this.#alarm.reset(this.now() + backoffMs(1));
    }
  }

  /** Asks the service to remove our pin. If it does not (`scheduled`), the row says when to try again. */
  async #unpin(row: PinRow): Promise<Removal> {
    const { cid, service } = row;
    const attempts = row.attempts + 1;
    const due = this.now() + backoffMs(attempts);
    // Before the request goes out: an object that dies while it waits must find the row due.
    this.#sql.exec(`UPDATE pin SET attempts = ?, due = ? WHERE cid = ? AND service = ?`, attempts, due, cid, service);
    await this.#alarm.by(due);
    let kept: boolean;
    try {
      kept = await this.#removeOurs(row);
    } catch (error) {
      log({ event: 'pin.unpin', service, attempts, error: errorText(error) });
      return 'scheduled';
    }
    this.#sql.exec(`DELETE FROM pin WHERE cid = ? AND service = ? AND state = 'unpinning'`, cid, service);
    return kept ? 'kept' : 'unpinned';
  }

  /** Removes our part of a pin. @returns whether a pin that is not ours remains */
  async #removeOurs({ cid, service: id, was_there: wasThere, other, anchored }: PinRow): Promise<boolean> {
    const service = serviceOf(this.env, id);
    if (other !== null) await service.restoreName(cid, other, AbortSignal.timeout(renameMs));
    const beside = anchored === 1 ? await service.unpinBeside(cid, AbortSignal.timeout(requestMs)) : undefined;
    // Rows of the first version have no anchor: whether the pin from before theirs still exists is unknown.
    if (wasThere === 1) return beside !== 'absent';
    return (await service.unpin(cid, AbortSignal.timeout(requestMs))) === 'foreign';
  }

  #deniedAt(cid: string): number | undefined {
    const rows = this.#sql.exec<{ created_at: number }>('SELECT created_at FROM denied WHERE cid = ?', cid);
    return rows.toArray()[0]?.created_at;
  }

  #row(cid: string, service: string): PinRow | undefined {
    return this.#sql.exec<PinRow>('SELECT * FROM pin WHERE cid = ? AND service = ?', cid, service).toArray()[0];
  }

  /** Runs the operations on a CID one after the other. */
  async #serialize<T extends object>(cid: string, operation: () => Promise<Result<T>>): Promise<Result<T>> {
    const before = this.#queues.get(cid) ?? Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const mine = before.then(() => promise);
    this.#queues.set(cid, mine);
    let timer: ReturnType<typeof setTimeout> | null = null;
    try {
      const late = new Promise<'late'>((done) => (timer = setTimeout(() => done('late'), waitMs)));
      if ((await Promise.race([before, late])) === 'late')
        return err('overloaded', 'the same bytes are being stored or removed', 5);
      return await operation();
    } finally {
      clearTimeout(timer);
      resolve();
      if (this.#queues.get(cid) === mine) this.#queues.delete(cid);
    }
  }

  /** Creates the tables with the first row: a question about an unknown CID writes nothing. */
  #create(): void {
    if (this.#exists) return;
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS pin (
        cid TEXT NOT NULL, service TEXT NOT NULL, state TEXT NOT NULL, was_there INTEGER NOT NULL, due INTEGER, attempts INTEGER NOT NULL,
        other TEXT, anchored INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (cid, service)) WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS pin_due ON pin (due) WHERE state = 'unpinning';
      CREATE TABLE IF NOT EXISTS reference (
        cid TEXT NOT NULL, service TEXT NOT NULL, account TEXT NOT NULL, file_id TEXT NOT NULL,
        PRIMARY KEY (cid, service, account, file_id)) WITHOUT ROWID;
      ${denylist};
    `);
    this.#exists = true;
  }
}
