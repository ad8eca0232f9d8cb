/** The adapter for Kubo's RPC: a Kubo of one's own, the embedded node, and what else speaks it. */
import type { PinningService } from './contract.ts';

export type KuboOptions = { id: string; url: string; headers: Record<string, string>; fetch: typeof fetch };

/** A pinning service behind Kubo's RPC. */
export function kubo(o: KuboOptions): PinningService {
  throw new Error(`not here yet: ${o.id}`);
}
