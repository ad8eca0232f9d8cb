/** The embedded IPFS node: files and pins on disk, and the subset of Kubo's RPC that the Worker needs, on loopback. */
export type NodeOptions = {
  /** Its own directory; made when missing. */
  dir: string;
  /** Every request must carry `Authorization: Bearer <token>`. */
  token: string;
  /** TCP port on 127.0.0.1; 0, the default, takes a free one. */
  port?: number;
  /** The clock in milliseconds since 1970. */
  now?(): number;
};

/** A node that runs. */
export type RunningNode = { url: string; close(): Promise<void> };

/** Starts the embedded IPFS node. */
export async function startNode(options: NodeOptions): Promise<RunningNode> {
  const { startServer } = await import('./server.ts');
  return startServer(options);
}
