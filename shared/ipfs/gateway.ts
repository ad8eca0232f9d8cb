/** A trustless gateway as a source of blocks. */
import type { BlockSource } from './file.ts';

export type GatewayOptions = { url: string; fetch?: typeof fetch; headers?: Record<string, string> };

/** Blocks and CARs of `GET {url}/ipfs/{cid}?format=raw|car`; redirects are refused. */
export function gateway(o: GatewayOptions): BlockSource {
  throw new Error(`not here yet: ${o.url}`);
}
