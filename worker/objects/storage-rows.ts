/** Rows in the storage of a Durable Object. */
import { WithContext } from './with-context.ts';

/** Rows with what they need besides, such as the clock, or other rows of the same object. */
export class StorageRows<Context = void> extends WithContext<Context> {
  protected readonly sql: SqlStorage;

  constructor(sql: SqlStorage, context: Context) {
    super(context);
    this.sql = sql;
  }
}
