/** CIDs of what tests have at hand. */
import { cidBuilder } from '../shared/ipfs/index.ts';

/** The CID of bytes, whole or in pieces. */
export async function cidOfBytes(source: Uint8Array | AsyncIterable<Uint8Array>): Promise<string> {
  const builder = cidBuilder();
  if (source instanceof Uint8Array) await builder.write(source);
  else for await (const bytes of source) await builder.write(bytes);
  return (await builder.finish()).cid;
}
