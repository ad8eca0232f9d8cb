/** Check that the bytes of a section of a CAR match its CID. */
import { hash } from 'node:crypto';
import { cidFromBytes, cidOf, type CarBlock, type Cid } from '../../../shared/ipfs/index.ts';

/**
 * The CID of a section, undefined when it is of a kind that this node does not hold, and the CID
 * that its bytes have.
 */
export function verify({ cid: binary, bytes }: CarBlock): { cid?: Cid; got?: string } {
  const cid = cidFromBytes(binary);
  return cid ? { cid, got: cidOf(cid.codec, hash('sha256', bytes, 'buffer')).text } : {};
}
