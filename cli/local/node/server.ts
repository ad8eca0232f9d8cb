import type { NodeOptions, RunningNode } from './index.ts';

export async function startServer(o: NodeOptions): Promise<RunningNode> {
  throw new Error(`not here yet: ${o.dir}`);
}
