/** From words to a running command. Each command's file is loaded only when it runs. */
import packageJson from '../package.json' with { type: 'json' };
import { SealpinError } from '../shared/errors.ts';
import type { Command } from './command.ts';
import type { World } from './context.ts';
import { output, write } from './terminal/output.ts';

type Entry = { readonly summary: string; readonly load: () => Promise<Command> };

/** Every command, in the order of the overview. */
export const commands = {
  start: {
    summary: 'Start the service on this machine',
    load: async () => (await import('./commands/start.ts')).command,
  },
  stop: { summary: 'Stop the local service', load: async () => (await import('./commands/stop.ts')).command },
  status: {
    summary: 'Tell how the local service is doing',
    load: async () => (await import('./commands/status.ts')).command,
  },
  rebuild: {
    summary: 'Build the Worker anew and swap it in',
    load: async () => (await import('./commands/rebuild.ts')).command,
  },
  keygen: { summary: 'Make a key pair', load: async () => (await import('./commands/keygen.ts')).command },
  encrypt: {
    summary: 'Encrypt a file with a password (AES-256-GCM) and store it',
    load: async () => (await import('./commands/encrypt.ts')).command,
  },
  'chacha-encrypt': {
    summary: 'The same with ChaCha20-Poly1305, as an age file',
    load: async () => (await import('./commands/chacha-encrypt.ts')).command,
  },
  'ecc-encrypt': {
    summary: 'Encrypt a file to public keys and store it',
    load: async () => (await import('./commands/ecc-encrypt.ts')).command,
  },
  decrypt: {
    summary: 'Fetch a blob and decrypt it',
    load: async () => (await import('./commands/decrypt.ts')).command,
  },
  'ecc-decrypt': {
    summary: 'Fetch a blob and decrypt it with a private key',
    load: async () => (await import('./commands/ecc-decrypt.ts')).command,
  },
  list: { summary: 'List what is stored', load: async () => (await import('./commands/list.ts')).command },
  delete: {
    summary: 'Delete what is stored, as far as that goes',
    load: async () => (await import('./commands/delete.ts')).command,
  },
  export: {
    summary: 'Write a blob into a CAR file, checked',
    load: async () => (await import('./commands/export.ts')).command,
  },
  'key create': { summary: 'Make an API key', load: async () => (await import('./commands/key.ts')).create },
  'key list': {
    summary: 'List the API keys of the account',
    load: async () => (await import('./commands/key.ts')).list,
  },
  'key revoke': { summary: 'Revoke an API key', load: async () => (await import('./commands/key.ts')).revoke },
  'key export': {
    summary: "Write the account's private key into a file",
    load: async () => (await import('./commands/key-export.ts')).command,
  },
  completions: {
    summary: 'Print the completions for a shell',
    load: async () => (await import('./commands/completions.ts')).command,
  },
} as const satisfies Record<string, Entry>;

const entries: Readonly<Record<string, Entry>> = commands;

/** @returns the exit code: 0 done, 1 failed, 2 misused, 130 interrupted */
export async function main(argv: readonly string[], world: World): Promise<number> {
  const json = argv.slice(0, argv.includes('--') ? argv.indexOf('--') : undefined).includes('--json');
  const early = output({ ...world, json, quiet: false });
  try {
    const [first, second] = argv;
    if (first === '--version' || first === '-V' || first === '-v') {
      await write(world.stdout, `${packageJson.version}\n`);
      return 0;
    }
    const { mainUsage, commandUsage } = await import('./terminal/usage.ts');
    const overview = (): string => mainUsage(Object.entries(entries).map(([name, { summary }]) => [name, summary]));
    if (first === undefined) {
      world.stderr.write(overview());
      return 2;
    }
    const isHelp = first === 'help' && second !== undefined && !second.startsWith('-');
    if (first === '--help' || first === '-h' || (first === 'help' && !isHelp)) {
      await write(world.stdout, overview());
      return 0;
    }
    const [verb = '', noun] = isHelp ? argv.slice(1) : argv;
    const name = Object.hasOwn(entries, verb) ? verb : `${verb} ${noun}`;
    const entry = Object.hasOwn(entries, name) ? entries[name] : undefined;
    if (entry === undefined) throw await unknownCommand(verb, noun);
    const command = await entry.load();
    const { asksForHelp } = await import('./command.ts');
    const words = argv.slice(name === first ? 1 : 2);
    if (isHelp || asksForHelp(words)) {
      await write(world.stdout, commandUsage(command));
      return 0;
    }
    return await run(command, words, { ...world, env: withoutEmpty(world.env) }, json);
  } catch (error) {
    return early.failure(world.signal.aborted ? world.signal.reason : error);
  }
}

async function run(command: Command, words: readonly string[], world: World, json: boolean): Promise<number> {
  let voice = output({ ...world, json, quiet: false });
  try {
    const parsed = command.parse(words);
    voice = output({ ...world, json: parsed.json, quiet: parsed.quiet });
    const { dataDirectory } = await import('./io/paths.ts');
    const dataDir = dataDirectory({ ...world, flag: parsed.dataDir });
    const { statSync } = await import('node:fs');
    if (statSync(dataDir, { throwIfNoEntry: false })?.isDirectory() === false)
      throw new SealpinError('usage', `the data directory ${dataDir} is not a directory`, {
        hint: 'name another one with --data-dir or SEALPIN_HOME',
      });
    return await parsed.run({ ...world, output: voice, dataDir, service: parsed.service });
  } catch (error) {
    // Whatever broke because of the signal, the signal is what the user did.
    return voice.failure(world.signal.aborted ? world.signal.reason : error);
  }
}

/** An empty variable counts as unset, as people expect who write `SEALPIN_SERVICE= sealpin …`. */
function withoutEmpty(env: World['env']): World['env'] {
  return Object.fromEntries(
    Object.entries(env).filter(([name, value]) => !name.startsWith('SEALPIN_') || value !== ''),
  );
}

async function unknownCommand(first: string, second: string | undefined): Promise<SealpinError> {
  const { suggestion } = await import('./command.ts');
  const group = Object.keys(entries).filter((name) => name.startsWith(`${first} `));
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
  const near = suggestion(first, Object.keys(entries)) ?? suggestion(`${first} ${second}`, Object.keys(entries));
  return new SealpinError('usage', 'there is no such command', { hint: near ?? 'see: sealpin --help' });
}
