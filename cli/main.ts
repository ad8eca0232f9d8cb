/** From the words of a command line to a running command. */
import { statSync } from 'node:fs';
import packageJson from '../package.json' with { type: 'json' };
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { asksForHelp, beforeTerminator, versionFlags } from './argv.ts';
import type { Command } from './command.ts';
import { firstPage, headings, loadCommand } from './commands/index.ts';
import type { Environment } from './context.ts';
import { namingFlag } from './terminal/hints.ts';
import { createOutput, write } from './terminal/output.ts';
import { columnsOf } from './terminal/streams.ts';

/**
 * Runs one command line.
 * @param argv the words after the program
 * @returns the exit code: 0 done, 1 failed, 2 misused, 130 interrupted
 */
export async function main(argv: readonly string[], environment: Environment): Promise<number> {
  const json = beforeTerminator(argv).includes('--json');
  const { stdout, stderr, signal } = environment;
  const output = createOutput({ ...environment, json, quiet: false });
  try {
    const [first, second] = argv;
    if (first !== undefined && versionFlags.includes(first)) {
      await write(stdout, `${packageJson.version}\n`);
      return 0;
    }
    if (first === undefined) {
      stderr.write(await overview(columnsOf(stderr)));
      return 2;
    }
    const isHelp = first === 'help' && second !== undefined && !second.startsWith('-');
    if (first === '--help' || first === '-h' || (first === 'help' && !isHelp)) {
      await write(stdout, await overview(columnsOf(stdout)));
      return 0;
    }
    if (isHelp && second === 'all') {
      await write(stdout, await overview(columnsOf(stdout), { 'All commands': headings }));
      return 0;
    }
    const words = isHelp ? argv.slice(1) : argv;
    const [verb = '', noun = ''] = words;
    const command = (await loadCommand(`${verb} ${noun}`)) ?? (await loadCommand(verb));
    if (command === undefined) throw await unknownCommand(verb, noun);
    const own = words.slice(command.name.split(' ').length);
    if (isHelp || asksForHelp(own)) {
      const { commandUsage } = await import('./help/usage.ts');
      await write(stdout, commandUsage(command, columnsOf(stdout)));
      return 0;
    }
    return await runCommand(command, own, { ...environment, env: withoutEmpty(environment.env) }, json);
  } catch (error) {
    return output.failure(signal.aborted ? signal.reason : error);
  }
}

async function overview(columns: number, groups = firstPage): Promise<string> {
  const { mainUsage } = await import('./help/usage.ts');
  return mainUsage(groups, columns);
}

async function runCommand(command: Command, words: readonly string[], environment: Environment, json: boolean) {
  let output = createOutput({ ...environment, json, quiet: false });
  try {
    const parsed = command.parse(words);
    const { json, quiet } = parsed;
    output = createOutput({ ...environment, json, quiet });
    const { dataDirectory } = await import('./io/paths.ts');
    const dataDir = dataDirectory({ ...environment, flag: parsed.dataDir });
    if (isNoDirectory(dataDir))
      throw new SealpinError('usage', `the data directory ${dataDir} is not a directory`, {
        hint: 'name another one with --data-dir or SEALPIN_HOME',
      });
    if (parsed.dataDir !== undefined) output = createOutput({ ...environment, json, quiet, dataDir });
    return await parsed.run({ ...environment, output, dataDir, service: parsed.service, profile: parsed.profile });
  } catch (error) {
    // Whatever broke because of the signal, the signal is what the user did.
    const { signal } = environment;
    return output.failure(signal.aborted ? interruption(signal.reason, error, command) : namingFlag(error, command));
  }
}

/** Tells whether something else has this path. What else is wrong with it, a command finds out. */
function isNoDirectory(path: string): boolean {
  try {
    return !statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/**
 * Adds what the interrupted command has left, and how to resume.
 * @param error of the command, which may know more than its definition
 */
function interruption(reason: unknown, error: unknown, { interrupted }: Command): unknown {
  if (!isSealpinError(reason, 'interrupted')) return reason;
  const hint = (isSealpinError(error, 'interrupted') ? error.hint : undefined) ?? interrupted;
  if (hint === undefined) return reason;
  return new SealpinError('interrupted', reason.message, { hint, cause: reason });
}

/** An empty variable counts as unset, as `SEALPIN_SERVICE= sealpin …` is meant. */
function withoutEmpty(env: Environment['env']): Environment['env'] {
  return Object.fromEntries(
    Object.entries(env).filter(([name, value]) => !name.startsWith('SEALPIN_') || value !== ''),
  );
}

async function unknownCommand(first: string, second: string): Promise<SealpinError> {
  const names = headings.map(({ name }) => name);
  const group = names.filter((name) => name.startsWith(`${first} `));
  if (group.length > 0)
    return new SealpinError(
      'usage',
      `'${first}' needs a subcommand: ${group.map((name) => name.slice(first.length + 1)).join(', ')}`,
      { hint: `see: sealpin ${group[0]} --help` },
    );
  if (first.startsWith('-'))
    return new SealpinError('usage', `unknown option ${first.split('=')[0]}`, {
      hint: 'flags go after the command: sealpin list --json',
    });
  const { commandFor, suggestion } = await import('./terminal/suggestion.ts');
  const near = commandFor(first) ?? suggestion(first, names) ?? suggestion(`${first} ${second}`, names);
  return new SealpinError('usage', 'there is no such command', { hint: near ?? 'see: sealpin --help' });
}
