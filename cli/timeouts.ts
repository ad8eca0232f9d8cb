/**
 * Limits on how slow a peer may be: at least `bytes` in each `stallMs`, and a response within
 * `responseMs`. `pollMs`: the time between two looks at what it works on, 1 s if undefined.
 */
export type Timeouts = {
  readonly stallMs: number;
  readonly bytes: number;
  readonly responseMs: number;
  readonly pollMs?: number;
};

/** 1 KiB/s is slower than any useful connection; pinning a large file may take five minutes. */
export const defaultTimeouts: Timeouts = { stallMs: 60_000, bytes: 60 * 1024, responseMs: 300_000 };
