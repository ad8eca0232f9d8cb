/** Other recipients for a container that exists: a new header under the same file key, and the payload as it is. */
import { SealpinError } from '../errors.ts';
import type { Backend } from './backends/backend.ts';
import { makeHeader, unlock, wrapAll } from './container.ts';
import { readHeader, readWholeHeader, type Header } from './header.ts';
import { checkStanzas } from './stanzas/registry.ts';
import { sniffSource, versions } from './sniff.ts';
import { ByteSource } from '../streams/byte-source.ts';
import type { Format, Identity, Recipient } from './types.ts';
import { webBackend } from './backends/web.ts';

/** Who can open it now, and who shall be able to. `mix`: post-quantum recipients together with others. */
export type Rewrapping = {
  identities: readonly Identity[];
  recipients: readonly Recipient[];
  mix?: boolean;
  backend?: Backend;
};

async function newHeader(
  header: Header,
  format: Format,
  { identities, recipients, mix = false, backend = webBackend }: Rewrapping,
): Promise<Uint8Array> {
  checkStanzas(header.stanzas, format);
  const fileKey = await unlock(header, format, identities, backend);
  const kept = format === 'sealpin' ? header.stanzas.filter(({ args }) => args[0] === 'file') : [];
  if (kept.length > 0 && recipients.some(({ kind }) => kind === 'password'))
    throw new SealpinError('invalid_request', 'A file of the encrypted mode takes keys only');
  return makeHeader(backend, format, fileKey, [...(await wrapAll(backend, format, fileKey, recipients, mix)), ...kept]);
}

/**
 * Replaces everyone who can open a container. The payload keeps its bytes, so whoever has kept the old header, or the file key, opens it still.
 * @param container binary, not armored
 * @throws SealpinError as `open` and `encrypt` do; `not_encrypted` for a plain file
 */
export async function rewrap(
  container: ReadableStream<Uint8Array>,
  rewrapping: Rewrapping,
): Promise<ReadableStream<Uint8Array>> {
  const source = new ByteSource(container);
  try {
    const format = await sniffSource(source);
    if (format !== 'age' && format !== 'sealpin')
      throw new SealpinError('not_encrypted', 'It is not a container whose recipients can be replaced');
    return source.rest(await newHeader(await readHeader(source, versions[format]), format, rewrapping));
  } catch (error) {
    source.abandon(error);
    throw error;
  }
}

/** The same for a detached header; the file it is of stays the same. */
export async function rewrapHeader(header: Uint8Array, rewrapping: Rewrapping): Promise<Uint8Array> {
  return newHeader(await readWholeHeader(header, versions.sealpin), 'sealpin', rewrapping);
}
