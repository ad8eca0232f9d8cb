/**
 * Each argument of each command that may name a file, with what it takes. The arguments come from
 * the commands themselves.
 */
import { present } from '../../../testkit/present.ts';
import type { Command } from '../../command.ts';
import { loadCommands } from '../../commands/index.ts';

export const commands = await loadCommands();

/** An argument of a command: its name, as a flag with `--`. */
export type Subject = { readonly command: string; readonly arg: string };
export const isFlag = (arg: string): boolean => arg.startsWith('--');
export const positionalsOf = ({ args }: Command): string[] =>
  Object.entries(args).flatMap(([name, { type }]) => (type === 'positional' ? [name] : []));
/** Every argument that has a value; `…`: one more than the command names. */
export const subjects: readonly (Subject & { readonly path: true | 'folder' | undefined })[] = commands.flatMap(
  (command) => [
    ...Object.entries(command.args).flatMap(([name, arg]) => {
      if (arg.type === 'boolean') return [];
      const shown = arg.type === 'positional' ? name : `--${name}`;
      return [{ command: command.name, arg: shown, path: arg.path }];
    }),
    ...(command.rest === undefined ? [] : [{ command: command.name, arg: '…', path: pathsOf(command) }]),
  ],
);

function pathsOf({ args, rest = '' }: Command): true | 'folder' | undefined {
  const arg = args[rest];
  return arg === undefined || arg.type === 'boolean' ? undefined : arg.path;
}

/** Values of an argument in these tests. */
export const values = {
  here: '.',
  folder: 'theirs',
  linkToFolder: 'link-to-theirs',
  file: 'theirs.txt',
  link: 'link-to-theirs.txt',
  fifo: '../pipe/fifo',
  belowFile: 'theirs.txt/x',
  unwritable: '/proc/sealpin-of-the-tests',
  missing: 'none/x',
} as const;
export type Value = keyof typeof values;
export const names = Object.keys(values) as Value[];
/** In the short form, for an argument of a kind that met every value in another one. */
export const someNames: readonly Value[] = ['folder', 'link', 'fifo', 'missing'];

/**
 * Kind of an argument. `good`: the values with which a command succeeds; `either`: those that
 * depend on something else, such as whether a password is right. All others are refused.
 */
export type Kind = { readonly good: readonly Value[]; readonly either?: readonly Value[] };
export const source: Kind = { good: ['here', 'folder', 'linkToFolder', 'file', 'link'] };
const password: Kind = { good: [], either: ['file', 'link'] };
const privateKey: Kind = { good: [] };
const publicKey: Kind = { good: [] };
export const container: Kind = { good: [], either: ['file', 'link'] };
const car: Kind = { good: [] };
const words: Kind = { good: [] };
export const written: Kind = { good: [] };
const backup: Kind = { good: ['missing'] };
const serviceBackup: Kind = { good: ['missing'] };
const restored: Kind = { good: [] };
const receiving: Kind = { good: ['here', 'folder', 'linkToFolder', 'missing'] };
const pair: Kind = { good: ['here', 'missing'] };
const oldPair: Kind = { good: [] };
const backends: Kind = { good: [] };
const pagesList: Kind = { good: [] };
export const text = 'text';

/** Kind of each argument by its name, and by command where it differs. */
const kinds: Readonly<Record<string, Kind | typeof text>> = {
  file: source,
  'send …': source,
  'export file': written,
  'key export file': written,
  blob_id: text,
  'decrypt blob_id': container,
  'ecc-decrypt blob_id': container,
  output_file: written,
  '--output': written,
  'keygen --output': pair,
  'key restore --output': pair,
  'key rotate --output': oldPair,
  '--password-file': password,
  '--words-file': words,
  '--key': privateKey,
  private_key_file: privateKey,
  public_key_file: publicKey,
  'ecc-encrypt …': publicKey,
  '--to': publicKey,
  'copy --to': text,
  '--recipient': publicKey,
  '--recovery': publicKey,
  car,
  dir: receiving,
  'service backup dir': serviceBackup,
  'service restore dir': restored,
  'backup folder': backup,
  'restore folder': restored,
  '--backends': backends,
  '--pages': pagesList,
};
/** Arguments that name no file. */
const texts = [
  'name id password url from to size key_id label link shell file_id --name --service --profile --scopes --expires',
  '--rollback --limits --limit --port --origin --proxy --kubo-api --cors-origin --mode --quota --values --inbox --note',
  '--from --opens --include --exclude --path --max-files --max-bytes --after --repeat copy-…',
].flatMap((line) => line.split(' ').map((name) => name.replace('-…', ' …')));

export function kindOf({ command, arg }: Subject): Kind | typeof text | undefined {
  const full = `${command} ${arg}`;
  if (Object.hasOwn(kinds, full)) return kinds[full];
  if (texts.includes(full) || texts.includes(arg)) return text;
  return Object.hasOwn(kinds, arg) ? kinds[arg] : undefined;
}

export const paths = subjects.filter((subject) => subject.arg !== '--data-dir' && kindOf(subject) !== text);

/** Values that commands of the tests need: blob IDs, links and the like. */
export const known: Record<string, string> = {};

/** A use of each command that has a path: its positionals in their order, and its flags. */
const uses: Readonly<Record<string, () => { positionals: readonly string[]; flags?: readonly string[] }>> = {
  encrypt: () => ({ positionals: ['../ours/letter'] }),
  'chacha-encrypt': () => ({ positionals: ['../ours/letter'] }),
  'ecc-encrypt': () => ({ positionals: ['../ours/letter', '../ours/pair/public.key'] }),
  decrypt: () => ({ positionals: ['../ours/container', '../ours/out'] }),
  'ecc-decrypt': () => ({ positionals: ['../ours/container-to-key', '../ours/out', '../ours/pair/private.key'] }),
  send: () => ({ positionals: ['../ours/letter'] }),
  receive: () => ({ positionals: [present(known['link']), '../ours/received'] }),
  share: () => ({ positionals: [present(known['blob'])] }),
  'inbox create': () => ({ positionals: ['label'] }),
  'inbox list': () => ({ positionals: [] }),
  'inbox open': () => ({ positionals: [present(known['delivery']), '../ours/received'] }),
  get: () => ({ positionals: [present(known['fileId']), '../ours/out'] }),
  verify: () => ({ positionals: [present(known['blob'])] }),
  reseal: () => ({ positionals: [present(known['blob'])] }),
  export: () => ({ positionals: [present(known['blob']), '../ours/out'] }),
  import: () => ({ positionals: ['../ours/letter.car'] }),
  backup: () => ({ positionals: ['../ours/backup'] }),
  restore: () => ({ positionals: ['../ours/taken'] }),
  'service backup': () => ({ positionals: ['../ours/service'], flags: [`--data-dir=${present(known['dataDir'])}`] }),
  'service restore': () => ({ positionals: ['../ours/service'] }),
  'key export': () => ({ positionals: ['../ours/out'] }),
  'key restore': () => ({ positionals: [] }),
  'key rotate': () => ({ positionals: [] }),
  keygen: () => ({ positionals: [] }),
  'contact add': () => ({ positionals: [`ann${Math.random().toString(36).slice(2)}`, '../ours/pair/public.key'] }),
  'account create': () => ({ positionals: ['label'] }),
  'pages verify': () => ({ positionals: ['http://127.0.0.1:1'] }),
};

/** The command line with a value for one of its arguments. */
export function lineWith({ command, arg }: Subject, value: string): string[] {
  const { positionals, flags = [] } = uses[command]?.() ?? { positionals: [] };
  const toKey: Record<string, string> = {
    [present(known['blob'])]: present(known['blobToKey']),
    [present(known['link'])]: present(known['linkToKey']),
  };
  const words = arg === '--key' ? positionals.map((word) => toKey[word] ?? word) : [...positionals];
  const at = positionalsOf(present(commands.find(({ name }) => name === command))).indexOf(arg);
  if (arg === '…') words.push(value);
  else if (!isFlag(arg)) words[at] = value;
  return [...command.split(' '), ...words, ...flags, ...(isFlag(arg) ? [arg, value] : []), ...more({ command, arg })];
}

/** Flags without which the one in question has no use. */
function more({ command, arg }: Subject): string[] {
  const words = command === 'key restore' && arg !== '--words-file' ? ['--words-file', '../ours/words'] : [];
  if (arg === '--output') return words;
  const elsewhere = ['keygen', 'key restore', 'key rotate'].includes(command) ? ['--output', '../ours/made'] : [];
  if (elsewhere.length > 0 || command === 'key export')
    return [...words, ...elsewhere, ...(arg === '--password-file' ? ['--protect'] : [])];
  if (command === 'reseal' && arg === '--key') return ['--password'];
  if (command === 'verify' && arg === '--key') return ['--open'];
  return [];
}

/** Tells whether a command makes the folder that an argument names. */
export function makesFolder({ command, arg, path }: (typeof subjects)[number]): boolean {
  return (
    path === 'folder' && !['restore folder', 'service restore dir', 'key rotate --output'].includes(`${command} ${arg}`)
  );
}
