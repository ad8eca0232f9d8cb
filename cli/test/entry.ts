/**
 * The command line as a process with cheap passwords, as `environment.ts` has them: deriving a key at the real cost takes
 * 400 ms and more. `demo.test.ts`, `package.test.ts` and the end of `prompt.test.ts` run the real entry.
 */
import { runProcess } from '../run-process.ts';

// As in cli/index.ts: other users can read the arguments of a process.
process.title = 'sealpin';
await runProcess({ scryptLogN: 10 });
