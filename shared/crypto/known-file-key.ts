/** Passing a file on by its file key, which opens that one file and needs no new header. */
import { cancelQuietly } from '../streams/cancel-quietly.ts';
import { SealpinError } from '../errors.ts';
import { open, type Again } from './container.ts';
import { decryptPayload } from './detached.ts';
import { fileKeyIdentity } from './file-key.ts';
import type { Identity, WithProvider } from './types.ts';

/**
 * Unwraps the file key of a container. No more than its header is read, so the header of the
 * encrypted mode, which is stored by itself, will do.
 * @param o.again as for `decrypt` of an opened container
 * @returns 16 bytes for an age file, 32 for `sealpin/v1`
 * @throws SealpinError `not_encrypted`; `wrong_kind` for a payload whose header is stored
 * elsewhere; and what `open` and its `decrypt` throw
 */
export async function fileKeyOf(
  container: ReadableStream<Uint8Array>,
  { identities, again, ...o }: WithProvider & { identities: readonly Identity[]; again?: Again | undefined },
): Promise<Uint8Array> {
  const opened = await open(container, o);
  if ('fileKey' in opened) return opened.fileKey(identities, again);
  await cancelQuietly(opened.stream);
  if (opened.kind === 'plain') throw new SealpinError('not_encrypted');
  throw new SealpinError('wrong_kind', 'the header that has the file key is stored elsewhere');
}

/**
 * Decrypts a stored file by its file key: a container of any format, or a payload without a header.
 * @returns the plaintext; it errors like that of `open` and `decryptPayload`
 * @throws SealpinError `not_encrypted`, `key_invalid`, `decrypt_failed`, `header_invalid`,
 * `unsupported_version`
 */
export async function openWithFileKey(
  stored: ReadableStream<Uint8Array>,
  { fileKey, provider }: WithProvider & { fileKey: Uint8Array },
): Promise<ReadableStream<Uint8Array>> {
  const identity = fileKeyIdentity(fileKey);
  const opened = await open(stored, { provider });
  if ('decrypt' in opened) return opened.decrypt([identity]);
  if (opened.kind === 'detached') return decryptPayload(opened.stream, { fileKey, provider });
  await cancelQuietly(opened.stream);
  throw new SealpinError('not_encrypted');
}
