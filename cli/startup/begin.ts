/**
 * The first lines of the command line. What is imported here runs nothing, so that they run first.
 */
import packageJson from '../../package.json' with { type: 'json' };
import { versionFlags } from '../argv.ts';
import type * as RunProcess from './run-process.ts';

/** Program that it starts: `run-process.ts`. */
export type Program = Pick<typeof RunProcess, 'runProcess'>;

/**
 * Begins the command line of this process: answers what needs no more than the version, and runs
 * the program for the rest.
 * @param load gives the program
 */
export async function begin(load: () => Program | Promise<Program>): Promise<void> {
  // Other users can read the arguments of a process, and one of them may be a password.
  process.title = 'sealpin';
  // Without a listener Node opens a debugger, to which every user of this machine can connect.
  process.on('SIGUSR1', () => undefined);

  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [oldest = 0, oldestMinor = 0] = packageJson.engines.node.replace('>=', '').split('.').map(Number);
  if (major < oldest || (major === oldest && minor < oldestMinor)) {
    process.stderr.write(
      `sealpin: error: sealpin needs Node ${oldest}.${oldestMinor} or newer; this is Node ${process.versions.node}\n` +
        'sealpin: hint: install a newer one from https://nodejs.org/, or use ./sealpin in a checkout, ' +
        'which has its own\n',
    );
    process.exit(1);
  }

  const [first] = process.argv.slice(2);
  if (first !== undefined && versionFlags.includes(first) && isWritten(`${packageJson.version}\n`)) return;
  const { runProcess } = await load();
  await runProcess();
}

/** Writes to standard output at once. Where that fails, the whole program has the words for it. */
function isWritten(text: string): boolean {
  try {
    return process.getBuiltinModule('node:fs').writeSync(1, text) === text.length;
  } catch {
    return false;
  }
}
