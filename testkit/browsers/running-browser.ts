/** The interface that all browsers of the tests have. */

/** A tab. What runs in a page has no types here. */
export type Tab = {
  /** The value of an expression, given as text; a promise is waited for. */
  evaluate<T>(expression: string): Promise<T>;
  reload(): Promise<unknown>;
  /** Hands files to the input that a selector finds. @param paths absolute */
  setFiles(selector: string, paths: readonly string[]): Promise<void>;
  /** Closes the tab, and forgets what it stored. */
  close(): Promise<void>;
};

/** A running browser. */
export type RunningBrowser = {
  /** Of the process that all its others descend from. */
  readonly pid: number;
  /**
   * Opens a tab, with a storage of its own.
   * @param before a function, as text, that runs in each document before its scripts
   */
  open(address: string, o?: { before?: string }): Promise<Tab>;
  close(): Promise<void>;
};
