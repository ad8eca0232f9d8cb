/** How slow a peer may be: at least `bytes` for each `stallMs` of waiting for it, and an answer after `answerMs`. */
export type Timeouts = { readonly stallMs: number; readonly bytes: number; readonly answerMs: number };

/** 1 KiB/s is slower than any line that one would upload files over; five minutes are what pinning may take. */
export const defaultTimeouts: Timeouts = { stallMs: 60_000, bytes: 60 * 1024, answerMs: 300_000 };
