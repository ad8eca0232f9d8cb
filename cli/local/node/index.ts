/** The embedded IPFS node: files and pins on disk, and the subset of Kubo's RPC that the Worker needs, on loopback. */
export { startNode, type NodeOptions, type RunningNode } from './server.ts';
