/** What tests of every room use of the command line: its embedded IPFS node, and free ports. */
export { startNode, type RunningNode } from '../cli/local/node/server.ts';
export { freePort } from '../cli/local/port.ts';
export { vacuum } from '../cli/local/vacuum.ts';
