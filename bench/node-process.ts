/** The embedded node in a process of its own, with its data in the directory that is named; prints its URL. */
import { startNode } from '../cli/local/node/server.ts';

const [, , dir = ''] = process.argv;
const { url } = await startNode({ dir, token: 't' });
process.stdout.write(`${url}\n`);
