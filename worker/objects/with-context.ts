/** Work of a Durable Object in a file of its own. */

/** Part of it, with what it needs of the rest. */
export class WithContext<Context> {
  protected readonly context: Context;

  constructor(context: Context) {
    this.context = context;
  }
}
