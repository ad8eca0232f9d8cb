/**
 * Node's HTTP clients and servers. An `import` of node:http reads every export of it, and one of
 * them loads Node's whole fetch, which takes longer than all modules of a small command.
 */
export const { Agent, createServer, request } = process.getBuiltinModule('node:http');
