/** The entry of the executable. A script is embedded, so there is no top-level await. */
import { runProcess } from '../cli/startup/run-process.ts';

process.title = 'sealpin'; // other users can read the arguments of a process, and one of them may be a password
void runProcess();
