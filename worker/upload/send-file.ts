/** A file in one request: read in leaves, sent in parts. */
import { leafBytes } from '../../shared/ipfs/index.ts';
import { concat } from '../../shared/streams/concat.ts';
import { byteReader } from '../../shared/streams/reader.ts';
import { importRoot } from '../backends/import-root.ts';
import { PartWriter } from './part-writer.ts';
import { sendParts, type PieceSource, type SendOptions, type SentFile } from './send-parts.ts';

/**
 * Sends a file to a service. Its root is not pinned afterwards; all parts but the last one are
 * kept, where there are several.
 * @param file is cancelled where the upload fails @param o.bytes it has, where that is known
 * @throws as `sendParts`
 */
export async function sendFile(
  file: ReadableStream<Uint8Array>,
  o: SendOptions & { bytes: number | undefined },
): Promise<SentFile> {
  const { service, bytes: announced, now } = o;
  return await sendParts(
    o,
    (signal) => ({
      pieces: leavesOf(file),
      writer: new PartWriter({ service, signal, firstLeaf: 0, bytes: announced, now }),
    }),
    async (parts, signal) => {
      const digests = concat(...parts.map((part) => part.digests));
      const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
      const [only, ...others] = parts;
      if (only !== undefined && others.length === 0) return { cid: only.cid, bytes };
      return { cid: await importRoot(service, { digests, bytes, signal }), bytes };
    },
  );
}

/** The leaves of a file; an empty file is one empty leaf. */
function leavesOf(file: ReadableStream<Uint8Array>): PieceSource<Uint8Array> {
  const reader = byteReader(file);
  let count = 0;
  let isOver = false;
  return {
    async next() {
      if (isOver) return undefined;
      const leaf = await reader.read(leafBytes);
      isOver = leaf.length < leafBytes;
      count += 1;
      return leaf.length > 0 || count === 1 ? leaf : undefined;
    },
    cancel: (reason) => reader.cancel(reason),
  };
}
