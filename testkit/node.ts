/** The embedded IPFS node for tests of every room, which the command line owns. */
export { startNode, type RunningNode } from '../cli/local/node/server.ts';
export { vacuum } from '../cli/local/vacuum.ts';
