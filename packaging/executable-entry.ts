/** The entry of the executable. A script is embedded, so there is no top-level await. */
import { begin } from '../cli/startup/begin.ts';
import { runProcess } from '../cli/startup/run-process.ts';

void begin(() => ({ runProcess }));
