/** Rows in the storage of a Durable Object. */

/** Rows with what they need besides, such as the clock, or other rows of the same object. */
export class StorageRows<Context = void> {
  protected readonly sql: SqlStorage;
  protected readonly context: Context;

  constructor(sql: SqlStorage, context: Context) {
    this.sql = sql;
    this.context = context;
  }
}
