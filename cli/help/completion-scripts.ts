/** Completion scripts for shells, generated from the commands. */
import { type Command, type Completes, flagsOf, positionalsOf } from '../command.ts';

/** The shells that completions exist for. */
export const shells = ['bash', 'zsh', 'fish'] as const;
/** One of them. */
export type Shell = (typeof shells)[number];

/** `takes`: value of a flag, if it has one; `completes`: what that is, a file when undefined. */
function describedFlags({ args }: Command) {
  const flags = flagsOf(args).map(({ name, arg }) => {
    const [takes, completes] = arg.type === 'string' ? [arg.valueHint, arg.completes] : [undefined, undefined];
    return { name: `--${name}`, description: arg.description, takes, completes };
  });
  return [...flags, { name: '--help', description: 'Explain the command', takes: undefined, completes: undefined }];
}

/** Lists the completions of a command's positionals, in their order; a file when undefined. */
function kindsOf({ args }: Command): (Completes | undefined)[] {
  return positionalsOf(args).map(({ arg }) => arg.completes);
}

/** Commands with the same first word, such as `key`; one of them may be that word alone. */
type Group = { readonly word: string; readonly summary: string; readonly subcommands: readonly Command[] };

function groupsOf(commands: readonly Command[]): Group[] {
  const words = new Set(commands.map(firstWord));
  return [...words].map((word) => {
    const subcommands = commands.filter((command) => firstWord(command) === word && secondWord(command) !== undefined);
    const alone = commands.find(({ name }) => name === word);
    return { word, summary: alone?.summary ?? `${word}s: ${subcommands.map(secondWord).join(', ')}`, subcommands };
  });
}

const firstWord = ({ name }: Command): string => name.split(' ')[0] ?? '';
const secondWord = ({ name }: Command): string | undefined => name.split(' ')[1];
const isGroup = ({ subcommands }: Group): boolean => subcommands.length > 0;
/** In single quotes, which an apostrophe closes and reopens; no text of ours has a backslash. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const bash = (commands: readonly Command[]): string => {
  const groups = groupsOf(commands);
  const subcommands = groups
    .filter(isGroup)
    .map(({ word, subcommands: members }) => `    ${word}) words=${quoted(members.map(secondWord).join(' '))} ;;`);
  const cases = commands.map((command) => {
    const flags = describedFlags(command);
    const names = flags.map(({ name }) => name).join(' ');
    const taking = flags.filter(({ takes }) => takes !== undefined).map(({ name }) => name);
    const kinds = kindsOf(command).map((kind) => kind ?? 'file');
    const last = command.rest === undefined ? 'file' : (kinds.at(-1) ?? 'file');
    const values = flags.flatMap(({ name, completes }) =>
      completes === undefined ? [] : [`${name}) kind=${completes} ;;`],
    );
    return `    ${quoted(command.name)})
      words=${quoted(names)} taking=${quoted(` ${taking.join(' ')} `)} kinds=(${kinds.join(' ')}) last=${last}
      case $previous in ${values.join(' ')} esac ;;`;
  });
  const firstWords = [...groups.map(({ word }) => word), '--help', '--version'].join(' ');
  return `# sealpin for bash: source <(sealpin completions bash)
_sealpin() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} command=\${COMP_WORDS[1]}
  local word words='' taking='' last=file kind='' begin=2 at position=0
  local -a kinds=()
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W ${quoted(firstWords)} -- "$current"))
    return
  fi
  case $command in
${subcommands.join('\n')}
  esac
  if [[ -n $words && $COMP_CWORD -eq 2 && $current != -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  if [[ -n $words && " $words " == *" \${COMP_WORDS[2]} "* ]]; then command="$command \${COMP_WORDS[2]}" begin=3; fi
  words=''
  case $command in
${cases.join('\n')}
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  if [[ -z $kind && $taking != *" $previous "* ]]; then
    for ((at = begin; at < COMP_CWORD; at++)); do
      if [[ $taking == *" \${COMP_WORDS[at]} "* ]]; then ((at++))
      elif [[ \${COMP_WORDS[at]} != -* ]]; then ((position++)); fi
    done
    kind=\${kinds[position]:-$last}
  fi
  if [[ -n $kind && $kind != file ]]; then
    while IFS= read -r word; do [[ $word == "$current"* ]] && COMPREPLY+=("$word"); done \\
      < <("\${COMP_WORDS[0]}" completions --values "$kind" 2>/dev/null)
    ((\${#COMPREPLY[@]})) && return
  fi
  compopt -o filenames 2>/dev/null
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
}
complete -F _sealpin sealpin
`;
};

const zsh = (commands: readonly Command[]): string => {
  const groups = groupsOf(commands);
  const escaped = (text: string): string => text.replaceAll(/[\][:]/g, String.raw`\$&`);
  const described = (word: string, summary: string): string => quoted(`${word}:${escaped(summary)}`);
  const first = groups.map(({ word, summary }) => described(word, summary));
  const subcommands = groups.filter(isGroup).map(({ word, subcommands: members }) => {
    const words = members.map((member) => described(secondWord(member) ?? '', member.summary));
    return `    ${word}) subcommands=(${words.join(' ')}) ;;`;
  });
  const action = (kind: Completes | undefined): string => (kind === undefined ? '_files' : ` _sealpin_values ${kind}`);
  const cases = commands.map((command) => {
    const flags = describedFlags(command).map(({ name, description, takes, completes }) =>
      quoted(`*${name}[${escaped(description)}]${takes === undefined ? '' : `:${takes}:${action(completes)}`}`),
    );
    const kinds = kindsOf(command);
    const positionals = kinds.map((kind, index) => quoted(`${index + 1}:${kind ?? 'file'}:${action(kind)}`));
    const rest = command.rest === undefined ? undefined : kinds.at(-1);
    const others = quoted(`*:${rest ?? 'file'}:${action(rest)}`);
    return `    ${quoted(command.name)}) _arguments ${[...flags, ...positionals, others].join(' ')} ;;`;
  });
  return `#compdef sealpin
# sealpin for zsh: sealpin completions zsh > ~/.zfunc/_sealpin, with ~/.zfunc in fpath before compinit
_sealpin_values() {
  local -a found
  found=(\${(f)"$($program completions --values $1 2>/dev/null)"})
  compadd -a found || _files
}
_sealpin() {
  local -a commands subcommands
  local program=$words[1] command=$words[2]
  commands=(${first.join(' ')})
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  case $command in
${subcommands.join('\n')}
  esac
  if ((\${#subcommands} && CURRENT == 3)) && [[ $words[3] != -* ]]; then
    _describe command subcommands
    return
  fi
  if [[ -n \${subcommands[(r)\${(b)words[3]}:*]} ]]; then
    command="$command $words[3]"
    shift words
    ((CURRENT--))
  fi
  shift words
  ((CURRENT--))
  case $command in
${cases.join('\n')}
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _sealpin "$@"; else compdef _sealpin sealpin; fi
`;
};

const fish = (commands: readonly Command[]): string => {
  const groups = groupsOf(commands);
  const lines = groups.map(
    ({ word, summary }) => `complete -c sealpin -n __fish_use_subcommand -f -a ${word} -d ${quoted(summary)}`,
  );
  const seen = (words: string): string => `__fish_seen_subcommand_from ${words}`;
  const names = ({ subcommands }: Group): string => subcommands.map(secondWord).join(' ');
  for (const group of groups)
    for (const member of group.subcommands)
      lines.push(
        `complete -c sealpin -n '${seen(group.word)}; and not ${seen(names(group))}' ` +
          `-f -a ${secondWord(member)} -d ${quoted(member.summary)}`,
      );
  for (const command of commands) {
    const [word, second] = [firstWord(command), secondWord(command)];
    // The words after which it is another command.
    const others = groups.filter(isGroup).map((group) => (group.word === word ? names(group) : group.word));
    const condition = `${seen(word)}; and ${second === undefined ? `not ${seen(others.join(' '))}` : seen(second)}`;
    const values = (kind: Completes): string => `-a '(sealpin completions --values ${kind} 2>/dev/null)'`;
    for (const { name, description, takes, completes } of describedFlags(command)) {
      const value = completes === undefined ? ' -r' : ` -x ${values(completes)}`;
      lines.push(
        `complete -c sealpin -n '${condition}' -l ` +
          `${name.slice(2)}${takes === undefined ? '' : value} -d ${quoted(description)}`,
      );
    }
    const [kind] = kindsOf(command).filter((each) => each !== undefined);
    if (kind !== undefined) lines.push(`complete -c sealpin -n '${condition}' ${values(kind)}`);
  }
  const install = 'sealpin completions fish > ~/.config/fish/completions/sealpin.fish';
  return `# sealpin for fish: ${install}\n${lines.join('\n')}\n`;
};

/** Generates the script for a shell. */
export function completions(shell: Shell, commands: readonly Command[]): string {
  return { bash, zsh, fish }[shell](commands);
}
