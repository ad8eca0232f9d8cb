/** The Worker with objects whose clock can be set forward, and whose alarm can be rung and whose rows can be seen. */
import { Account as RealAccount, Pin as RealPin } from '../index.ts';

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export { default } from '../index.ts';

export class Account extends RealAccount {
  #offsetMs = 0;

  protected override now(): number {
    return Date.now() + this.#offsetMs;
  }

  /** Lets that much time pass, and rings the alarm. */
  async ring(ms: number): Promise<void> {
    this.#offsetMs += ms;
    await this.alarm();
  }

  rows(table: 'file' | 'outbox' | 'idempotency' | 'api_key'): Record<string, unknown>[] {
    return this.ctx.storage.sql.exec<Record<string, SqlStorageValue>>(`SELECT * FROM ${table}`).toArray();
  }

  tables(): number {
    return this.ctx.storage.sql.exec('SELECT name FROM sqlite_master').toArray().length;
  }
}

export class Pin extends RealPin {
  #offsetMs = 0;

  protected override now(): number {
    return Date.now() + this.#offsetMs;
  }

  async ring(ms: number): Promise<void> {
    this.#offsetMs += ms;
    await this.alarm();
  }

  rows(table: 'pin' | 'reference'): Record<string, unknown>[] {
    if (this.tables() === 0) return [];
    return this.ctx.storage.sql.exec<Record<string, SqlStorageValue>>(`SELECT * FROM ${table}`).toArray();
  }

  tables(): number {
    return this.ctx.storage.sql.exec(`SELECT name FROM sqlite_master WHERE name = 'pin'`).toArray().length;
  }
}
