/** The table of commands: names, summaries, and where each is. A command's file is loaded only when it is needed. */
import type { Command, Heading } from '../command.ts';

type Entry = { readonly summary: string; readonly load: () => Promise<(heading: Heading) => Command> };

/** Every command, in the order of `help all`. */
const table = {
  start: {
    summary: 'Start the service on this machine',
    load: async () => (await import('./start.ts')).command,
  },
  stop: { summary: 'Stop the local service', load: async () => (await import('./stop.ts')).command },
  status: {
    summary: 'Show the status of the service',
    load: async () => (await import('./status.ts')).command,
  },
  rebuild: {
    summary: 'Rebuild the Worker and hot-swap it',
    load: async () => (await import('./rebuild.ts')).command,
  },
  keygen: {
    summary: 'Create a key pair',
    load: async () => (await import('./keygen.ts')).command,
  },
  'contact add': {
    summary: 'Give a name to a public key',
    load: async () => (await import('./contact.ts')).add,
  },
  'contact list': {
    summary: 'List contacts and the fingerprints of their keys',
    load: async () => (await import('./contact.ts')).list,
  },
  'contact remove': { summary: 'Remove a contact', load: async () => (await import('./contact.ts')).remove },
  login: {
    summary: 'Keep a service and an API key for it as a profile',
    load: async () => (await import('./login.ts')).command,
  },
  'profile list': { summary: 'List the profiles', load: async () => (await import('./manage-profiles.ts')).list },
  'profile use': { summary: 'Use a profile', load: async () => (await import('./manage-profiles.ts')).use },
  'profile remove': { summary: 'Forget a profile', load: async () => (await import('./manage-profiles.ts')).remove },
  encrypt: {
    summary: 'Encrypt a file or folder with a password (AES-256-GCM)',
    load: async () => (await import('./encrypt.ts')).command,
  },
  'chacha-encrypt': {
    summary: 'Encrypt with a password into an age file (ChaCha20-Poly1305)',
    load: async () => (await import('./chacha-encrypt.ts')).command,
  },
  'ecc-encrypt': {
    summary: 'Encrypt to public keys or contacts, into an age file',
    load: async () => (await import('./ecc-encrypt.ts')).command,
  },
  decrypt: {
    summary: 'Fetch a blob, verify it and decrypt it',
    load: async () => (await import('./decrypt.ts')).command,
  },
  'ecc-decrypt': {
    summary: 'Fetch a blob, verify it and decrypt it with a private key',
    load: async () => (await import('./ecc-decrypt.ts')).command,
  },
  send: { summary: 'Send files by a link', load: async () => (await import('./send.ts')).command },
  receive: { summary: 'Receive what a link leads to', load: async () => (await import('./receive.ts')).command },
  share: { summary: 'Make a link to a stored file', load: async () => (await import('./share-stored.ts')).command },
  shares: { summary: 'List what is shared by link', load: async () => (await import('./list-shares.ts')).command },
  unshare: { summary: 'Take a link back', load: async () => (await import('./unshare.ts')).command },
  'inbox create': {
    summary: 'Make a link by which others send files to you',
    load: async () => (await import('./inbox.ts')).create,
  },
  'inbox list': { summary: 'List what came', load: async () => (await import('./inbox.ts')).list },
  'inbox open': { summary: 'Open what came', load: async () => (await import('./inbox.ts')).open },
  'inbox revoke': { summary: 'Close an inbox', load: async () => (await import('./inbox.ts')).revoke },
  list: { summary: 'List stored files, newest first', load: async () => (await import('./list.ts')).command },
  delete: {
    summary: 'Delete a stored file (what that can and cannot do: --help)',
    load: async () => (await import('./delete.ts')).command,
  },
  get: {
    summary: 'Fetch what the service encrypted, and open it here',
    load: async () => (await import('./get.ts')).command,
  },
  verify: {
    summary: 'Check that all blocks of a file are present and intact',
    load: async () => (await import('./verify-blob.ts')).command,
  },
  reseal: {
    summary: 'Store a file again with another password or other keys',
    load: async () => (await import('./reseal.ts')).command,
  },
  export: {
    summary: 'Write a verified blob into a CAR file',
    load: async () => (await import('./export.ts')).command,
  },
  import: {
    summary: 'Store the file of a CAR under its own CID',
    load: async () => (await import('./import-car.ts')).command,
  },
  pin: {
    summary: 'Keep a copy of what somebody else published',
    load: async () => (await import('./pin-published.ts')).command,
  },
  copy: {
    summary: 'Copy files to the service of another profile',
    load: async () => (await import('./copy.ts')).command,
  },
  backup: {
    summary: 'Back up the account into a folder',
    load: async () => (await import('./backup-account.ts')).command,
  },
  restore: {
    summary: 'Store a backup in an account',
    load: async () => (await import('./restore-account.ts')).command,
  },
  'key create': {
    summary: 'Create an API key and print it once',
    load: async () => (await import('./key.ts')).create,
  },
  'key list': {
    summary: 'List the API keys of the account',
    load: async () => (await import('./key.ts')).list,
  },
  'key revoke': { summary: 'Revoke an API key', load: async () => (await import('./key.ts')).revoke },
  'key export': {
    summary: "Write the account's private key to a file",
    load: async () => (await import('./key-export.ts')).command,
  },
  'key restore': {
    summary: 'Make a key pair again from its backup words',
    load: async () => (await import('./key-restore.ts')).command,
  },
  'key rotate': {
    summary: 'Replace your key pair, and keep the old key for what it opens',
    load: async () => (await import('./key-rotate.ts')).command,
  },
  'account create': {
    summary: 'Make an account (for the operator of the service)',
    load: async () => (await import('./manage-accounts.ts')).create,
  },
  'account list': {
    summary: 'List the accounts with what they use',
    load: async () => (await import('./manage-accounts.ts')).list,
  },
  'account quota': {
    summary: 'Set how much an account may store',
    load: async () => (await import('./manage-accounts.ts')).quota,
  },
  'account disable': {
    summary: 'Refuse all API keys of an account',
    load: async () => (await import('./manage-accounts.ts')).disable,
  },
  'account enable': {
    summary: 'Let the API keys of an account work again',
    load: async () => (await import('./manage-accounts.ts')).enable,
  },
  'account delete': {
    summary: 'Delete an account with everything in it',
    load: async () => (await import('./manage-accounts.ts')).remove,
  },
  migrate: {
    summary: 'Move files to another pinning service (for the operator)',
    load: async () => (await import('./migrate.ts')).command,
  },
  completions: {
    summary: 'Print the completions for a shell',
    load: async () => (await import('./completions.ts')).completionsCommand(loadCommands),
  },
} as const satisfies Record<string, Entry>;

const entries: Readonly<Record<string, Entry>> = table;

/** The name and summary of each command, in the order of `help all`. */
export const headings: readonly Heading[] = Object.entries(entries).map(([name, { summary }]) => ({ name, summary }));

/** The commands of the first page of help, for people, by what they are for. */
const forPeople: Readonly<Record<string, readonly (keyof typeof table)[]>> = {
  'Send and receive': ['send', 'receive', 'inbox create', 'shares', 'unshare'],
  'Encrypt and decrypt': ['encrypt', 'decrypt', 'keygen', 'ecc-encrypt', 'ecc-decrypt', 'chacha-encrypt'],
  'Stored files': ['list', 'get', 'verify', 'delete'],
  'The service': ['login', 'start', 'stop', 'status', 'rebuild'],
};

/** The first page of help: headings under their titles. */
export const firstPage: Readonly<Record<string, readonly Heading[]>> = Object.fromEntries(
  Object.entries(forPeople).map(([title, names]) => [
    title,
    names.map((name) => ({ name, summary: table[name].summary })),
  ]),
);

/**
 * Loads one command.
 *
 * @param name as typed, such as `key create`
 * @returns undefined when there is no such command
 */
export async function loadCommand(name: string): Promise<Command | undefined> {
  const entry = Object.hasOwn(entries, name) ? entries[name] : undefined;
  if (entry === undefined) return undefined;
  const command = await entry.load();
  return command({ name, summary: entry.summary });
}

/** Loads all commands, in the order of `help all`. */
export async function loadCommands(): Promise<Command[]> {
  return Promise.all(
    Object.entries(entries).map(async ([name, { summary, load }]) => (await load())({ name, summary })),
  );
}
