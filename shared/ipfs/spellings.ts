/**
 * The spellings of a CID that gateways take, each of which stands for the one that everything else
 * here goes by.
 */
import { base16 } from 'multiformats/bases/base16';
import { base32, base32upper } from 'multiformats/bases/base32';
import { base36 } from 'multiformats/bases/base36';
import { base58btc } from 'multiformats/bases/base58';
import { SealpinError } from '../errors.ts';
import { cidBytes, cidFromV0, cidIn, type Cid } from './cid.ts';

/** By the first character (https://github.com/multiformats/multibase). */
const bases = { f: base16, b: base32, B: base32upper, k: base36, z: base58btc };

/** Base16, the longest spelling. Decoding takes longer than linear time. */
const maxLength = 1 + 2 * cidBytes;

/**
 * The CID of a block by any of its spellings: CIDv0, or CIDv1 in base16, base32 of either case,
 * base36 or base58btc. Whatever is looked up, denied or sent goes by its `text`, never by what was
 * asked for.
 * @throws invalid_cid
 */
export function canonicalCid(asked: string): Cid {
  const base = Object.entries(bases).find(([prefix]) => asked.startsWith(prefix))?.[1];
  const cid = asked.length > maxLength ? undefined : (cidFromV0(asked) ?? (base && cidIn(base, asked)));
  if (cid === undefined) throw new SealpinError('invalid_cid');
  return cid;
}
