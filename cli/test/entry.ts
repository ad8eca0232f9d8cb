/**
 * The command line as a process with cheap passwords, as `environment.ts` has them: at the real
 * cost a key takes 0.7 s of CPU. The long form of `demo.test.ts`, `package.test.ts` and the end of
 * `prompt.test.ts` run the real entry.
 */
import { begin } from '../startup/begin.ts';
import { runProcess } from '../startup/run-process.ts';

// In CommonJS, as it is bundled, nothing waits at the top.
void begin(() => ({ runProcess: () => runProcess({ scryptLogN: 10 }) }));
