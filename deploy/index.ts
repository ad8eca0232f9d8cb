/** `npm run setup`, `doctor`, `backup` and `restore`. Exit code 0: done, 1: failed, 2: misused. */
import { systemFailure } from '../cli/errno.ts';
import { visible } from '../cli/terminal/output.ts';
import { exitOf, isSealpinError, ownHint, SealpinError } from '../shared/errors.ts';
import { backup } from './service-backup.ts';
import { doctor, tokenIn, type DoctorContext } from './check-deployment.ts';
import { operatorApi } from './operator-api.ts';
import { parseOptions, usage, type CommandName, type DeployOptions } from './options.ts';
import { restoreService } from './service-restore.ts';
import { setup } from './setup.ts';
import { wranglerWith } from './wrangler.ts';

/** The operator's token. @throws usage */
function tokenOf({ adminTokenFile }: DeployOptions, { env }: DoctorContext): string {
  const token = env['ADMIN_TOKEN'] || tokenIn(adminTokenFile);
  if (token === undefined)
    throw new SealpinError('usage', 'the operator’s token is missing', {
      hint: 'set ADMIN_TOKEN in the environment, or name the file with --admin-token-file',
    });
  return token;
}

const commands: Record<CommandName, (options: DeployOptions, context: DoctorContext) => Promise<number>> = {
  setup,
  doctor,
  backup: (o, context) => {
    const { url = '', folder = '' } = o;
    return backup(operatorApi(url, tokenOf(o, context), context), url, folder, context);
  },
  restore: (o, context) => {
    const { url = '', folder = '' } = o;
    const wrangler = wranglerWith(o.config, context.env);
    return restoreService({ url, token: tokenOf(o, context), wrangler }, folder, context);
  },
};

/** Signals that end a command between its steps. A restoration has something to undo. */
const signals: Record<CommandName, NodeJS.Signals[]> = {
  setup: ['SIGINT'],
  doctor: [],
  backup: ['SIGINT'],
  restore: ['SIGINT', 'SIGTERM', 'SIGHUP'],
};

/** The error to print. @throws a bug, with its stack */
function shown(cause: unknown): SealpinError {
  if (isSealpinError(cause, 'interrupted'))
    return new SealpinError('interrupted', cause.message, { hint: 'what has a ✓ is done: the same command continues' });
  if (isSealpinError(cause)) return cause;
  if (!(cause instanceof Error) || !('syscall' in cause)) throw cause;
  return systemFailure(cause) ?? new SealpinError('internal', `the system refuses: ${cause.message}`, { cause });
}

const [command = '', ...args] = process.argv.slice(2);
const interrupted = new AbortController();
try {
  const name = Object.hasOwn(commands, command) ? (command as CommandName) : 'doctor';
  for (const signal of signals[name]) process.once(signal, () => interrupted.abort(new SealpinError('interrupted')));
  if (args.includes('--help')) console.log(usage);
  else {
    const options = parseOptions(name, args, process.env['INIT_CWD'] ?? process.cwd());
    process.exitCode = await commands[name](options, {
      env: process.env,
      print: (line) => console.log(line),
      signal: interrupted.signal,
      interactive: true,
    });
  }
} catch (thrown) {
  const error = shown(thrown);
  console.error(`✗ ${visible(error.message)}`);
  for (const line of (ownHint(error) ?? '').split('\n').filter((each) => each !== ''))
    console.error(`  → ${visible(line)}`);
  // Checks that were given up may still run.
  process.exit([2, 130].includes(exitOf(error)) ? exitOf(error) : 1);
}
