/** Other recipients for a container: a new header under the same file key. */
import { SealpinError } from '../errors.ts';
import { ByteSource } from '../streams/byte-source.ts';
import { cancelQuietly } from '../streams/cancel-quietly.ts';
import { webProvider } from './providers/web.ts';
import { makeHeader, unwrapFileKey, wrapFileKey } from './file-key.ts';
import type { FormatRow } from './formats/format-row.ts';
import { formatOf } from './formats/index.ts';
import { sealpinV1 } from './formats/sealpin-v1.ts';
import { readHeader, readWholeHeader, type Header } from './header.ts';
import { isFormat, sniffSource } from './sniff.ts';
import { checkStanzas, stanzasOfKind } from './stanzas/check-stanzas.ts';
import type { Identity, Recipient, WithProvider } from './types.ts';

/** Who opens it now, and who afterwards. `mix`: also post-quantum recipients with others. */
export type Rewrapping = WithProvider & {
  identities: readonly Identity[];
  recipients: readonly Recipient[];
  mix?: boolean | undefined;
};

async function newHeader(
  header: Header,
  format: FormatRow,
  { identities, recipients, mix = false, provider = webProvider }: Rewrapping,
): Promise<Uint8Array> {
  checkStanzas(header.stanzas, format);
  const fileKey = await unwrapFileKey(header, format, identities, provider);
  const kept = stanzasOfKind(header.stanzas, 'file', format);
  if (kept.length > 0 && recipients.some(({ kind }) => kind === 'password'))
    throw new SealpinError('invalid_request', 'a file of the encrypted mode takes keys only');
  const wrapped = await wrapFileKey(provider, format, fileKey, recipients, mix);
  return makeHeader(provider, format, fileKey, [...wrapped, ...kept]);
}

/**
 * Replaces the recipients of a container. The payload keeps its bytes, so anyone who kept the old
 * header, or the file key, still opens it.
 * @param container binary, not armored
 * @throws SealpinError as `open` and `encrypt` do; `not_encrypted` for a plain file
 */
export async function rewrap(
  container: ReadableStream<Uint8Array>,
  rewrapping: Rewrapping,
): Promise<ReadableStream<Uint8Array>> {
  const source = new ByteSource(container);
  try {
    const sniffed = await sniffSource(source);
    if (!isFormat(sniffed))
      throw new SealpinError('not_encrypted', 'it is not a container whose recipients can be replaced');
    const format = formatOf(sniffed);
    return source.rest(await newHeader(await readHeader(source, format.versionLine), format, rewrapping));
  } catch (error) {
    void cancelQuietly(source, error);
    throw error;
  }
}

/** Replaces the recipients of a detached header; its file stays the same. @throws as `rewrap` */
export async function rewrapHeader(header: Uint8Array, rewrapping: Rewrapping): Promise<Uint8Array> {
  return newHeader(readWholeHeader(header, sealpinV1.versionLine), sealpinV1, rewrapping);
}
