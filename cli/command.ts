/**
 * Commands. citty parses; this wrapper refuses first what citty lets pass (unknown flags, surplus arguments, missing and
 * repeated values), so that a mistyped flag is never silently ignored.
 */
import { parseArgs as split } from 'node:util';
import { parseArgs } from 'citty';
import { SealpinError } from '../shared/errors.ts';
import type { Context } from './context.ts';

/** One argument, in a shape that citty takes too. A positional is required unless it says otherwise. */
type Arg =
  | { readonly type: 'positional'; readonly description: string; readonly required?: boolean }
  | { readonly type: 'string'; readonly description: string; readonly valueHint: string }
  | { readonly type: 'boolean'; readonly description: string };

export type Args = Readonly<Record<string, Arg>>;

/** What a command gets of its arguments. (citty's own type hides that a flag may be absent.) */
type Values<A extends Args> = {
  readonly [K in keyof A]: A[K] extends { type: 'boolean' }
    ? boolean
    : A[K] extends { type: 'positional' }
      ? A[K] extends { required: false }
        ? string | undefined
        : string
      : string | undefined;
};

type Example = { readonly command: string; readonly does: string };

export type Definition<A extends Args> = {
  /** As typed: `encrypt`, `key create`. */
  readonly name: string;
  /** One line, without a full stop. */
  readonly summary: string;
  /** More, for `--help`. */
  readonly about?: string;
  readonly args: A;
  /** The name of any number of further positionals, which come as `rest`. */
  readonly rest?: string;
  /** Whether the command speaks to a service, and so knows `--service`. */
  readonly service?: boolean;
  readonly examples: readonly Example[];
  /** @returns the exit code, 0 when nothing is returned */
  readonly run: (o: { args: Values<A>; rest: readonly string[]; context: Context }) => Promise<number | void>;
};

/** A command after parsing: what the entry needs to make its context and to run it. */
type Parsed = {
  readonly json: boolean;
  readonly quiet: boolean;
  readonly dataDir: string | undefined;
  readonly service: string | undefined;
  readonly run: (context: Context) => Promise<number>;
};

export type Command = {
  readonly name: string;
  readonly summary: string;
  readonly about: string | undefined;
  readonly args: Args;
  readonly rest: string | undefined;
  readonly examples: readonly Example[];
  /** @throws usage */
  readonly parse: (argv: readonly string[]) => Parsed;
};

const commonArgs = {
  json: { type: 'boolean', description: 'Print one JSON object; failures as a problem object on stderr' },
  quiet: { type: 'boolean', description: 'No notes and no progress' },
  'data-dir': { type: 'string', valueHint: 'dir', description: 'Where keys, configuration and the local service live' },
} as const satisfies Args;

const serviceArgs = {
  service: {
    type: 'string',
    valueHint: 'url',
    description: 'The service to use instead of the configured or local one',
  },
} as const satisfies Args;

/** Whether these words ask for help, before `--`. */
export function asksForHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).some((word) => word === '--help' || word === '-h');
}

/** Makes a command; each file in `commands/` exports one or more of these. */
export function defineCommand<const A extends Args>(definition: Definition<A>): Command {
  const args: Args = { ...definition.args, ...commonArgs, ...(definition.service === true ? serviceArgs : {}) };
  return {
    name: definition.name,
    summary: definition.summary,
    about: definition.about,
    args,
    rest: definition.rest,
    examples: definition.examples,
    parse(argv) {
      const positionals = check(argv, { name: definition.name, args, rest: definition.rest });
      const parsed: Record<string, unknown> = parseArgs([...argv], toCitty(args));
      const values = Object.fromEntries(
        Object.entries(args).map(([name, arg]) => [
          name,
          arg.type === 'boolean' ? parsed[name] === true : parsed[name],
        ]),
      ) as Values<A> & { json: boolean; quiet: boolean; 'data-dir': string | undefined; service?: string };
      const own = Object.values(args).filter((arg) => arg.type === 'positional').length;
      return {
        json: values.json,
        quiet: values.quiet,
        dataDir: values['data-dir'],
        service: values.service,
        run: async (context) => (await definition.run({ args: values, rest: positionals.slice(own), context })) ?? 0,
      };
    },
  };
}

/** citty would demand a required positional itself, with a message of its own: that is checked here already. */
function toCitty(args: Args): Record<string, { type: Arg['type']; required: false }> {
  return Object.fromEntries(Object.entries(args).map(([name, { type }]) => [name, { type, required: false as const }]));
}

/** Refuses what the command does not know, and gives its positionals. */
function check(argv: readonly string[], o: { name: string; args: Args; rest: string | undefined }): string[] {
  const misused = (detail: string, hint = `see: sealpin ${o.name} --help`): SealpinError =>
    new SealpinError('usage', detail, { hint });
  const flags = Object.entries(o.args).filter(([, arg]) => arg.type !== 'positional');
  const { tokens } = split({
    args: [...argv],
    options: Object.fromEntries(
      flags.map(([name, arg]) => [name, { type: arg.type === 'boolean' ? ('boolean' as const) : ('string' as const) }]),
    ),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const seen = new Set<string>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const arg = Object.hasOwn(o.args, token.name) ? o.args[token.name] : undefined;
    // Only the name is repeated: what follows `=` may be a secret.
    if (arg === undefined || arg.type === 'positional' || !token.rawName.startsWith('--')) {
      throw misused(
        `${o.name} has no flag ${token.rawName.split('=')[0]}`,
        suggestion(
          token.name,
          flags.map(([name]) => name),
          '--',
        ) ?? `see: sealpin ${o.name} --help; an argument that begins with - goes after --`,
      );
    }
    if (seen.has(token.name)) throw misused(`${token.rawName} is given more than once`);
    seen.add(token.name);
    if (arg.type === 'boolean' && token.value !== undefined) throw misused(`${token.rawName} takes no value`);
    if (arg.type === 'string' && (token.value === undefined || token.value === ''))
      throw misused(`${token.rawName} needs a value: ${token.rawName} <${arg.valueHint}>`);
    if (arg.type === 'string' && token.inlineValue === false && token.value !== '-' && token.value?.startsWith('-')) {
      throw misused(
        `${token.rawName} needs a value, and what follows is a flag`,
        `a value that begins with - is written ${token.rawName}=<${arg.valueHint}>`,
      );
    }
  }
  const named = Object.entries(o.args).filter(([, arg]) => arg.type === 'positional');
  const missing = named.find(
    ([, arg], index) => arg.type === 'positional' && arg.required !== false && positionals[index] === undefined,
  );
  if (missing !== undefined) throw misused(`${o.name} needs <${missing[0]}>`);
  if (o.rest === undefined && positionals.length > named.length) {
    throw misused(
      `${o.name} takes ${named.length === 0 ? 'no arguments' : `at most ${named.length} argument${named.length > 1 ? 's' : ''}`} (${positionals.length} given)`,
    );
  }
  return positionals;
}

/**
 * The known word that a mistyped one most likely meant, as a hint: one slip of the finger in a short word, a few in a long one.
 * Part of a word that has hyphens counts, too: `--pasword` means `--password-file`.
 */
export function suggestion(word: string, known: readonly string[], prefix = ''): string | undefined {
  const near = known
    .map((name) => ({ name, distance: Math.min(...startsOf(name).map((start) => editDistance(word, start))) }))
    .filter(({ name, distance }) => distance <= Math.max(1, Math.floor(Math.min(word.length, name.length) / 4)))
    .sort((a, b) => a.distance - b.distance)[0];
  return near === undefined ? undefined : `did you mean ${prefix}${near.name}?`;
}

/** A name, and its beginnings up to each hyphen that are long enough to be meant. */
function startsOf(name: string): string[] {
  const parts = name.split('-');
  const starts = parts.map((_, index) => parts.slice(0, index + 1).join('-'));
  return starts.filter((start) => start === name || start.length > 4);
}

/** Optimal string alignment: inserted, missing and wrong letters, and two neighbours that changed places, count one each. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, change, isSwap ? before[j - 2]! + 1 : Infinity));
    }
    [before, row] = [row, next];
  }
  return row[b.length]!;
}
