/**
 * The entry of the executable, which brings its own Node: a module without top-level await, as a
 * script is embedded.
 */
import { runProcess } from '../cli/startup/run-process.ts';

process.title = 'sealpin'; // other users can read the arguments of a process, and one of them may be a password
void runProcess();
