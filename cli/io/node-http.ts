/** Node's HTTP, and what its servers have in common. */
import type { IncomingMessage } from 'node:http';

/**
 * Node's HTTP clients and servers. An `import` of node:http reads every export of it, and one of
 * them loads Node's whole fetch, which takes longer than all modules of a small command.
 */
export const { Agent, createServer, request } = process.getBuiltinModule('node:http');

/** Time for a client to send the rest of a body that nobody reads any more, in ms. */
const restMs = 5_000;

/** Reads the rest of a body that nobody wants, so that its client gets to read the response. */
export function readRest(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return;
  request.unpipe();
  // Who read it pauses it at the end.
  request.on('pause', () => request.resume()).resume();
  const limit = setTimeout(() => request.destroy(), restMs);
  request.once('close', () => clearTimeout(limit));
}
