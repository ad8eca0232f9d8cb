/** `npm run setup` and `npm run doctor`. Exit code 0: done, 1: failed, 2: misused. */
import { visible } from '../cli/terminal/output.ts';
import { describe, isSealpinError } from '../shared/errors.ts';
import { doctor } from './doctor.ts';
import { parseOptions } from './options.ts';
import { setup } from './setup.ts';

const [command, ...args] = process.argv.slice(2);
const interrupted = new AbortController();
process.once('SIGINT', () => interrupted.abort());
try {
  const name = command === 'setup' ? 'setup' : 'doctor';
  const options = parseOptions(name, args, process.env['INIT_CWD'] ?? process.cwd());
  process.exitCode = await { setup, doctor }[name](options, {
    env: process.env,
    print: (line) => console.log(line),
    signal: interrupted.signal,
    interactive: true,
  });
} catch (error) {
  if (!isSealpinError(error)) throw error;
  console.error(`✗ ${visible(error.message)}`);
  for (const line of (error.hint ?? '').split('\n')) console.error(`  → ${visible(line)}`);
  process.exitCode = describe(error.code).exit;
}
