/** The table of commands: names, summaries, and where each is. A command's file is loaded only when it is needed. */
import type { Command, Heading } from '../command.ts';

type Make = (heading: Heading) => Command;
/** The summary of a command, and what loads it: a file of one command, or one of those in a file. */
type Row = readonly [summary: string, load: () => Promise<Make | { readonly command: Make }>];

/** Every command, in the order of the overview. */
const table: Readonly<Record<string, Row>> = {
  start: ['Start the service on this machine', () => import('./start.ts')],
  stop: ['Stop the local service', () => import('./stop.ts')],
  status: ['Show the status of the service', () => import('./status.ts')],
  rebuild: ['Rebuild the Worker and hot-swap it', () => import('./rebuild.ts')],
  keygen: ['Create a key pair', () => import('./keygen.ts')],
  'contact add': ['Give a name to a public key', async () => (await import('./contact.ts')).add],
  'contact list': ['List contacts and the fingerprints of their keys', async () => (await import('./contact.ts')).list],
  'contact remove': ['Remove a contact', async () => (await import('./contact.ts')).remove],
  login: ['Keep a service and an API key for it as a profile', () => import('./login.ts')],
  'profile list': ['List the profiles', async () => (await import('./manage-profiles.ts')).list],
  'profile use': ['Use a profile', async () => (await import('./manage-profiles.ts')).use],
  'profile remove': ['Forget a profile', async () => (await import('./manage-profiles.ts')).remove],
  encrypt: ['Encrypt a file or folder with a password (AES-256-GCM)', () => import('./encrypt.ts')],
  'chacha-encrypt': [
    'Encrypt with a password into an age file (ChaCha20-Poly1305)',
    () => import('./chacha-encrypt.ts'),
  ],
  'ecc-encrypt': ['Encrypt to public keys or contacts, into an age file', () => import('./ecc-encrypt.ts')],
  decrypt: ['Fetch a blob, verify it and decrypt it', () => import('./decrypt.ts')],
  'ecc-decrypt': ['Fetch a blob, verify it and decrypt it with a private key', () => import('./ecc-decrypt.ts')],
  send: ['Send files by a link', () => import('./send.ts')],
  receive: ['Receive what a link leads to', () => import('./receive.ts')],
  share: ['Make a link to a stored file', () => import('./share-stored.ts')],
  shares: ['List what is shared by link', () => import('./list-shares.ts')],
  unshare: ['Take a link back', () => import('./unshare.ts')],
  'inbox create': ['Make a link by which others send files to you', async () => (await import('./inbox.ts')).create],
  'inbox list': ['List what came', async () => (await import('./inbox.ts')).list],
  'inbox open': ['Open what came', async () => (await import('./inbox.ts')).open],
  'inbox revoke': ['Close an inbox', async () => (await import('./inbox.ts')).revoke],
  list: ['List stored files, newest first', () => import('./list.ts')],
  delete: ['Delete a stored file (what that can and cannot do: --help)', () => import('./delete.ts')],
  get: ['Fetch what the service encrypted, and open it here', () => import('./get.ts')],
  verify: ['Check that all blocks of a file are present and intact', () => import('./verify-blob.ts')],
  reseal: ['Store a file again with another password or other keys', () => import('./reseal.ts')],
  export: ['Write a verified blob into a CAR file', () => import('./export.ts')],
  import: ['Store the file of a CAR under its own CID', () => import('./import-car.ts')],
  pin: ['Keep a copy of what somebody else published', () => import('./pin-published.ts')],
  copy: ['Copy files to the service of another profile', () => import('./copy.ts')],
  backup: ['Back up the account into a folder', () => import('./backup-account.ts')],
  restore: ['Store a backup in an account', () => import('./restore-account.ts')],
  'key create': ['Create an API key and print it once', async () => (await import('./key.ts')).create],
  'key list': ['List the API keys of the account', async () => (await import('./key.ts')).list],
  'key revoke': ['Revoke an API key', async () => (await import('./key.ts')).revoke],
  'key export': ["Write the account's private key to a file", () => import('./key-export.ts')],
  'key restore': ['Make a key pair again from its backup words', () => import('./key-restore.ts')],
  'key rotate': ['Replace your key pair, and keep the old key for what it opens', () => import('./key-rotate.ts')],
  'account create': [
    'Make an account (for the operator of the service)',
    async () => (await import('./manage-accounts.ts')).create,
  ],
  'account list': ['List the accounts with what they use', async () => (await import('./manage-accounts.ts')).list],
  'account quota': ['Set how much an account may store', async () => (await import('./manage-accounts.ts')).quota],
  'account disable': ['Refuse all API keys of an account', async () => (await import('./manage-accounts.ts')).disable],
  'account enable': [
    'Let the API keys of an account work again',
    async () => (await import('./manage-accounts.ts')).enable,
  ],
  'account delete': [
    'Delete an account with everything in it',
    async () => (await import('./manage-accounts.ts')).remove,
  ],
  migrate: ['Move files to another pinning service (for the operator)', () => import('./migrate.ts')],
  completions: [
    'Print the completions for a shell',
    async () => (await import('./completions.ts')).completionsCommand(loadCommands),
  ],
};

/** The name and summary of each command, in the order of the overview. */
export const headings: readonly Heading[] = Object.entries(table).map(([name, [summary]]) => ({ name, summary }));

/** Loads one command by its name as typed, such as `key create`; undefined when there is none. */
export async function loadCommand(name: string): Promise<Command | undefined> {
  const [summary, load] = (Object.hasOwn(table, name) && table[name]) || [];
  if (summary === undefined || load === undefined) return undefined;
  const loaded = await load();
  return ('command' in loaded ? loaded.command : loaded)({ name, summary });
}

/** Loads all commands, in the order of the overview. */
export async function loadCommands(): Promise<Command[]> {
  const all = await Promise.all(headings.map(({ name }) => loadCommand(name)));
  return all.filter((command) => command !== undefined);
}
