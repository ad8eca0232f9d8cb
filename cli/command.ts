/**
 * Commands. citty parses the command line; this layer checks each word first and refuses what citty
 * lets pass (unknown flags, surplus arguments, missing and repeated values), so that a mistyped
 * flag is never silently ignored.
 */
import { parseArgs } from 'citty';
import { SealpinError } from '../shared/errors.ts';
import { beforeTerminator } from './argv.ts';
import type { Context } from './context.ts';
import { suggestion } from './terminal/suggestion.ts';

/** Kind of completion of a value: names and IDs (`sealpin completions --values`), or the shells. */
export type Completes = 'profile' | 'contact' | 'blob' | 'shell';

/**
 * One argument, in a shape that citty takes, too. A positional is required unless it says
 * otherwise; a flag that `repeats` is a list. `path`: it names a file or folder, or only a folder.
 * No value may be empty.
 */
type Arg =
  | {
      readonly type: 'positional';
      readonly description: string;
      readonly required?: boolean;
      readonly completes?: Completes;
      readonly path?: true | 'folder';
    }
  | {
      readonly type: 'string';
      readonly description: string;
      readonly valueHint: string;
      readonly repeats?: true;
      readonly completes?: Completes;
      readonly path?: true | 'folder';
    }
  | { readonly type: 'boolean'; readonly description: string };

type Traits<T extends Arg['type']> = Omit<Extract<Arg, { type: T }>, 'type' | 'description' | 'valueHint'>;

/** A word of a command line. */
export const positional = <const T extends Traits<'positional'> = {}>(description: string, traits?: T) =>
  ({ type: 'positional', description, ...traits }) as { type: 'positional'; description: string } & T;

/** A flag with a value. */
export const valueFlag = <const T extends Traits<'string'> = {}>(valueHint: string, description: string, traits?: T) =>
  ({ type: 'string', valueHint, description, ...traits }) as {
    type: 'string';
    valueHint: string;
    description: string;
  } & T;

/** A flag without a value. */
export const toggle = (description: string) => ({ type: 'boolean', description }) as const;

/** Arguments by name, positionals in their order. */
export type Args = Readonly<Record<string, Arg>>;

/** The parsed arguments of a command. (citty's own type hides that a flag may be absent.) */
export type Values<A extends Args> = {
  readonly [K in keyof A]: A[K] extends { type: 'boolean' }
    ? boolean
    : A[K] extends { type: 'positional' }
      ? A[K] extends { required: false }
        ? string | undefined
        : string
      : A[K] extends { repeats: true }
        ? readonly string[] | undefined
        : string | undefined;
};

/** A command as its file in `commands/` declares it. */
export type Definition<A extends Args> = {
  /** More than the summary, for `--help`. */
  readonly about?: string;
  readonly args: A;
  /** The name of any number of further positionals, which `run` gets as `rest`. */
  readonly rest?: string;
  /** Advice when more arguments are given than the command takes. */
  readonly surplus?: string;
  /** Marks a command that uses a service, and so accepts `--service` and `--profile`. */
  readonly service?: boolean;
  readonly examples: readonly { readonly command: string; readonly does: string }[];
  /** Note on what an interruption leaves and how to resume, unless a command prints its own. */
  readonly interrupted?: string;
  /** @returns the exit code, 0 when nothing is returned */
  readonly run: (o: { args: Values<A>; rest: readonly string[]; context: Context }) => Promise<number | void>;
};

/**
 * Entry in the table of commands: the name as typed (`key create`), and a summary in one line
 * without a full stop.
 */
export type Heading = { readonly name: string; readonly summary: string };

/** A command after parsing: what the entry point needs to make its context and to run it. */
type ParsedCommand = {
  readonly json: boolean;
  readonly quiet: boolean;
  readonly dataDir: string | undefined;
  readonly service?: string | undefined;
  readonly profile?: string | undefined;
  readonly run: (context: Context) => Promise<number>;
};

/** A command as the entry point uses it: what help and completions show, and its parser. */
export type Command = Heading &
  Omit<Definition<Args>, 'run'> & {
    /** @throws usage */
    readonly parse: (argv: readonly string[]) => ParsedCommand;
  };

const commonArgs = {
  json: toggle('Print one JSON object; errors go to stderr as JSON'),
  quiet: toggle('No notes and no progress'),
  'data-dir': valueFlag('dir', 'Where keys, configuration and the local service live', { path: 'folder' }),
} as const satisfies Args;

const serviceArgs = {
  service: valueFlag('url', 'The service to use instead of the configured or local one'),
  profile: valueFlag('name', 'The profile whose service and API key to use', { completes: 'profile' }),
} as const satisfies Args;

/** Defines what a command does; `commands/index.ts` adds its name and its summary. */
export function defineCommand<const A extends Args>(definition: Definition<A>): (heading: Heading) => Command {
  const args: Args = { ...definition.args, ...commonArgs, ...(definition.service === true ? serviceArgs : {}) };
  const { run, ...shown } = definition;
  return ({ name, summary }) => ({
    ...shown,
    name,
    summary,
    args,
    parse(argv) {
      const usageError = (detail: string, hint = `see: sealpin ${name} --help`): SealpinError =>
        new SealpinError('usage', detail, { hint });
      const check = { ...shown, name, args, usageError };
      const given = checkFlags(argv, check);
      const parsed = parseArgs([...argv], toCitty(args));
      const positionals: readonly string[] = parsed._;
      checkPositionals(positionals, check);
      const values = Object.fromEntries(
        Object.entries(args).map(([key, arg]) => [key, valueOf(arg, parsed[key], given.get(key))]),
      ) as Values<A> & Values<typeof commonArgs> & { service?: string; profile?: string };
      refuseStandard(values, check);
      if (values.service !== undefined && values.profile !== undefined)
        throw usageError('--service and --profile both name a service', 'leave one of them out');
      return {
        ...values,
        dataDir: values['data-dir'],
        async run(context) {
          const rest = positionals.slice(positionalsOf(args).length);
          return (await run({ args: values, rest, context })) ?? 0;
        },
      };
    },
  });
}

/** citty knows only the last value of a flag that repeats. */
function valueOf(arg: Arg, parsed: unknown, given: readonly string[] | undefined): unknown {
  if (arg.type === 'boolean') return parsed === true;
  return arg.type === 'string' && arg.repeats === true ? given : parsed;
}

/** citty's own check of required positionals is off, since its message would differ from ours. */
function toCitty(args: Args): Record<string, { type: Arg['type']; required: false }> {
  return Object.fromEntries(Object.entries(args).map(([name, { type }]) => [name, { type, required: false as const }]));
}

type WordCheck = Pick<Command, 'name' | 'args' | 'rest' | 'surplus'> & {
  readonly usageError: (detail: string, hint?: string) => SealpinError;
};

/**
 * Refuses every word with a hyphen that citty would ignore, or take for something else than what
 * was typed.
 * @returns the values of each flag that is given, none for a boolean
 */
function checkFlags(argv: readonly string[], { name: command, args, usageError }: WordCheck): Map<string, string[]> {
  const seen = new Map<string, string[]>();
  const words = beforeTerminator(argv);
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] ?? '';
    if (word === '-' || !word.startsWith('-')) continue;
    // Only the name is repeated in a message: what follows it may be a secret.
    const flag = word.startsWith('--') ? word.replace(/=.*/s, '') : Array.from(word).slice(0, 2).join('');
    const value = word.includes('=') ? word.slice(word.indexOf('=') + 1) : undefined;
    const name = flag.slice(2);
    const arg = flag.startsWith('--') && Object.hasOwn(args, name) ? args[name] : undefined;
    if (arg === undefined || arg.type === 'positional') {
      const known = flagsOf(args).map((each) => each.name);
      const near = suggestion(flag.replace(/^--?/, ''), known, '--');
      throw usageError(
        `${command} has no flag ${flag}`,
        near ?? `see: sealpin ${command} --help; an argument that begins with - goes after --`,
      );
    }
    const values = seen.get(name) ?? [];
    if (seen.has(name) && !(arg.type === 'string' && arg.repeats === true))
      throw usageError(`${flag} is given more than once`);
    seen.set(name, values);
    if (arg.type === 'boolean') {
      if (value !== undefined) throw usageError(`${flag} takes no value`);
      continue;
    }
    // Without `=`, the next word is the value.
    const next = value ?? argv[index + 1];
    if (next === undefined) throw usageError(`${flag} needs a value: ${flag} <${arg.valueHint}>`);
    if (next === '') throw emptyValue(flag, usageError);
    values.push(next);
    if (value !== undefined) continue;
    if (next !== '-' && next.startsWith('-'))
      throw usageError(
        `${flag} needs a value, and what follows is a flag`,
        `a value that begins with - is written ${flag}=<${arg.valueHint}>`,
      );
    index += 1;
  }
  return seen;
}

function checkPositionals(given: readonly string[], { name, args, rest, surplus, usageError }: WordCheck): void {
  const known = positionalsOf(args);
  const empty = given.indexOf('');
  if (empty >= 0) throw emptyValue(`<${known[empty]?.name ?? rest ?? 'argument'}>`, usageError);
  const missing = known.find(({ required }, index) => required && given[index] === undefined);
  if (missing !== undefined) throw usageError(`${name} needs <${missing.name}>`);
  if (rest !== undefined || given.length <= known.length) return;
  const limit = known.length === 0 ? 'no' : `at most ${known.length}`;
  throw usageError(`${name} takes ${limit} argument${known.length === 1 ? '' : 's'} (${given.length} given)`, surplus);
}

/** Refuses `-` for a folder: it stands for standard input or output elsewhere. */
function refuseStandard(values: Readonly<Record<string, unknown>>, { args, usageError }: WordCheck): void {
  for (const [name, arg] of Object.entries(args))
    if ('path' in arg && arg.path === 'folder' && values[name] === '-')
      throw usageError(
        `${arg.type === 'positional' ? `<${name}>` : `--${name}`} is a folder, and - is none`,
        'write ./- for a folder of that name',
      );
}

/**
 * Refuses an empty text, which an unset variable of a script leaves, and which as a path is the
 * current directory.
 */
function emptyValue(label: string, usageError: WordCheck['usageError']): SealpinError {
  return usageError(`${label} is empty`, 'is a variable not set?');
}

/** The positionals of a command, in their order. */
export function positionalsOf(args: Args) {
  return Object.entries(args).flatMap(([name, arg]) =>
    arg.type === 'positional' ? [{ name, required: arg.required !== false, arg }] : [],
  );
}

/** The flags of a command. */
export function flagsOf(args: Args) {
  return Object.entries(args).flatMap(([name, arg]) => (arg.type === 'positional' ? [] : [{ name, arg }]));
}
