/** Errors of where a file is copied from: the service that it goes to has no part in them. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { observed } from '../../shared/streams/pulled.ts';

/** A copy failed where it was read, not where it was sent to. */
export class SourceError extends SealpinError {}

/** The error for what reading threw, with the code of that. */
export function sourceError(error: unknown): SourceError {
  const code = isSealpinError(error) ? error.code : 'pinning_failed';
  return new SourceError(code, error instanceof Error ? error.message : undefined, { cause: error });
}

/** A stream that fails by a `SourceError` where the one that it passes on fails. */
export function fromSource(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  return observed(stream, { onFail: sourceError });
}
