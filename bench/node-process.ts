/** The embedded node as a process, with its data in the directory that is named; prints its URL. */
import { startNode } from '../cli/local/node/server.ts';

const [, , nodeDir = ''] = process.argv;
// Without an `await` of its own, which CommonJS has not.
void startNode({ dir: nodeDir, token: 't' }).then(({ url }) => process.stdout.write(`${url}\n`));
