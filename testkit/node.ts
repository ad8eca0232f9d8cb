/**
 * The embedded IPFS node for tests of every room, and how it compacts its database. The command
 * line owns both.
 */
export { startNode, type RunningNode } from '../cli/local/node/server.ts';
export { vacuum } from '../cli/local/vacuum.ts';
