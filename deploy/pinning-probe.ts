/** A trial of a pinning service with the commands that the Worker uses. */
import { randomBytes } from 'node:crypto';
import { SealpinError } from '../shared/errors.ts';
import { cidBuilder, parseCid } from '../shared/ipfs/index.ts';
import type { PinningService } from '../worker/backends/contract.ts';

/** Bytes of two leaves and a node; nginx refuses such a body unless it is told otherwise. */
const probeBytes = 1_500_000;

/**
 * Stores a file of random bytes, reads it back under the CID that was computed here, and removes it
 * again.
 * @returns its CID
 * @throws what the service throws; pinning_failed where it returns other bytes, or keeps the pin
 */
export async function roundTrip(service: PinningService, signal: AbortSignal): Promise<string> {
  const bytes = new Uint8Array(randomBytes(probeBytes));
  const blocks: { cid: string; bytes: Uint8Array }[] = [];
  let at = 0;
  const builder = cidBuilder({
    onLeaf: (cid, length) => void blocks.push({ cid, bytes: bytes.slice(at, (at += length)) }),
    onNode: (cid, block) => void blocks.push({ cid, bytes: block }),
  });
  await builder.write(bytes);
  const { cid } = await builder.finish();

  const sent = service.importBlocks(signal);
  for (const block of blocks) await sent.write(parseCid(block.cid), block.bytes.slice());
  await sent.finish();
  await service.pin(cid, { bytes: probeBytes, beside: false, signal });
  try {
    if ((await service.stat(cid, signal)).pin === 'absent')
      throw new SealpinError('pinning_failed', `${service.id}: it took the pin of ${cid} and does not have it`);
    const stored = await new Response(await service.read(cid, 0, probeBytes, signal)).arrayBuffer();
    if (!Buffer.from(stored).equals(bytes))
      throw new SealpinError('pinning_failed', `${service.id}: it returned other bytes for ${cid}`);
    const [leaf] = blocks;
    if (leaf !== undefined) await service.block(leaf.cid, signal);
  } finally {
    await service.unpin(cid, signal);
  }
  if ((await service.stat(cid, signal)).pin !== 'absent')
    throw new SealpinError('pinning_failed', `${service.id}: it keeps the pin of ${cid} that was removed`);
  for (const block of blocks) await service.discard?.(block.cid, signal);
  return cid;
}
