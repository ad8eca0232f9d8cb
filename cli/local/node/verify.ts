/** Checks that bytes match their CID. */
import { hash } from 'node:crypto';
import { cidFromBytes, cidOf, isCid, parseCid, type CarBlock, type Cid } from '../../../shared/ipfs/index.ts';

/** Tells that a text is a CID, and the one of these bytes. */
export function isCidOf(cid: string, bytes: Uint8Array): boolean {
  return isCid(cid) && cidOf(parseCid(cid).codec, hash('sha256', bytes, 'buffer')).text === cid;
}

/**
 * The CID of a section, undefined when it is of a kind that this node does not hold, and the CID
 * that its bytes have.
 */
export function verify({ cid: binary, bytes }: CarBlock): { cid?: Cid; got?: string } {
  const cid = cidFromBytes(binary);
  return cid ? { cid, got: cidOf(cid.codec, hash('sha256', bytes, 'buffer')).text } : {};
}
