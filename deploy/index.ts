/** `npm run setup`, `doctor`, `backup` and `restore`. Exit code 0: done, 1: failed, 2: misused. */
import { visible } from '../cli/terminal/output.ts';
import { describe, isSealpinError, SealpinError } from '../shared/errors.ts';
import { backup } from './service-backup.ts';
import { doctor, tokenIn, type Context } from './doctor.ts';
import { operatorApi, type OperatorApi } from './operator-api.ts';
import { parseOptions, type CommandName, type Options } from './options.ts';
import { restore } from './service-restore.ts';
import { setup } from './setup.ts';

/** The client of the service that `--url` names. @throws usage without the operator's token */
function apiOf({ url = '', adminTokenFile }: Options, { env }: Context): OperatorApi {
  const token = env['ADMIN_TOKEN'] || tokenIn(adminTokenFile);
  if (token === undefined)
    throw new SealpinError('usage', 'the operator’s token is missing', {
      hint: 'set ADMIN_TOKEN in the environment, or name the file with --admin-token-file',
    });
  return operatorApi(url, token);
}

const commands: Record<CommandName, (options: Options, context: Context) => Promise<number>> = {
  setup,
  doctor,
  backup: (o, context) => backup(apiOf(o, context), o.url ?? '', o.folder ?? '', context),
  restore: (o, context) => restore(apiOf(o, context), o.folder ?? '', context),
};

const [command = '', ...args] = process.argv.slice(2);
const interrupted = new AbortController();
process.once('SIGINT', () => interrupted.abort());
try {
  const name = Object.hasOwn(commands, command) ? (command as CommandName) : 'doctor';
  const options = parseOptions(name, args, process.env['INIT_CWD'] ?? process.cwd());
  process.exitCode = await commands[name](options, {
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
