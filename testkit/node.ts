/** The embedded IPFS node and what tests need around it. The command line owns both; tests of every room reach them here. */
export { startNode, type RunningNode } from '../cli/local/node/server.ts';
export { vacuum } from '../cli/local/vacuum.ts';
