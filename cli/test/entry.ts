/**
 * The command line as a process with cheap passwords, as `environment.ts` has them: at the real
 * cost a key takes 0.7 s of CPU. The long form of `demo.test.ts`, `package.test.ts` and the end of
 * `prompt.test.ts` run the real entry.
 */
import { runProcess } from '../startup/run-process.ts';

// As in cli/startup/begin.ts: other users can read the arguments of a process.
process.title = 'sealpin';
// In CommonJS, as it is bundled, nothing waits at the top.
void runProcess({ scryptLogN: 10 });
