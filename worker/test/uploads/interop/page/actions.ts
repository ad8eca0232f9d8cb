/** Actions that the test requests of the page. */

export type PageOptions = {
  endpoint: string;
  headers: Record<string, string>;
  chunkSize: number;
  retryDelays: number[];
};

/**
 * `upload` uploads all of the file. `pause` stops in the middle, and `continue` resumes: in the
 * same page, or in one that has been loaded since. `terminate` stops in the middle for good.
 */
export type Action = 'upload' | 'pause' | 'continue' | 'terminate';

/** The URL of the upload, and whether all is uploaded. */
export type Outcome = { url: string | null; isFinished: boolean };
