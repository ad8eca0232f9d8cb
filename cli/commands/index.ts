/** The table of commands. A command's file is loaded only when it is needed. */
import type { Command, Heading } from '../command.ts';

type Make = (heading: Heading) => Command;
/** Summary and file of a command, with the name of its export where that is not `command`. */
type CommandRow = readonly [summary: string, load: () => Promise<object>, exported?: string];

/** Files with many commands. */
const accounts = () => import('./manage-accounts.ts');
const wholeService = () => import('./manage-service.ts');

/** Every command, in the order of `help all`. */
const table = {
  start: ['Start the service on this machine', () => import('./start.ts')],
  stop: ['Stop the local service', () => import('./stop.ts')],
  status: ['Show the status of the service', () => import('./status.ts')],
  doctor: ['Find out what is wrong here, and what to do', () => import('./doctor.ts')],
  rebuild: ['Rebuild the service from its source, while it runs', () => import('./rebuild.ts')],
  keygen: ['Create a key pair', () => import('./keygen.ts')],
  'contact add': ['Give a name to a public key', () => import('./contact.ts'), 'contactAdd'],
  'contact list': ['List contacts and the fingerprints of their keys', () => import('./contact.ts'), 'contactList'],
  'contact remove': ['Remove a contact', () => import('./contact.ts'), 'contactRemove'],
  login: ['Keep a service and an API key for it as a profile', () => import('./login.ts')],
  'profile list': ['List the profiles', () => import('./manage-profiles.ts'), 'profileList'],
  'profile use': ['Use a profile', () => import('./manage-profiles.ts'), 'profileUse'],
  'profile remove': ['Forget a profile', () => import('./manage-profiles.ts'), 'profileRemove'],
  encrypt: ['Encrypt a file or folder, with a password or for people', () => import('./encrypt.ts')],
  'chacha-encrypt': [
    'Encrypt with a password into an age file (ChaCha20-Poly1305)',
    () => import('./chacha-encrypt.ts'),
  ],
  'ecc-encrypt': ['Encrypt to public keys or contacts, into an age file', () => import('./ecc-encrypt.ts')],
  decrypt: ['Fetch a blob or folder, verify it and decrypt it', () => import('./decrypt.ts')],
  'ecc-decrypt': ['Fetch a blob, verify it and decrypt it with a private key', () => import('./ecc-decrypt.ts')],
  send: ['Send files by a link', () => import('./send.ts')],
  receive: ['Receive what a link leads to', () => import('./receive.ts')],
  share: ['Make a link to a stored file', () => import('./share-stored.ts')],
  shares: ['List what is shared by link', () => import('./list-shares.ts')],
  'shares change': ['Change how often and how long a link opens', () => import('./change-share.ts')],
  unshare: ['Take a link back', () => import('./unshare.ts')],
  'inbox create': ['Make a link by which others send files to you', () => import('./inbox.ts'), 'inboxCreate'],
  'inbox list': ['List what came', () => import('./inbox.ts'), 'inboxList'],
  'inbox open': ['Open what came', () => import('./inbox.ts'), 'inboxOpen'],
  'inbox revoke': ['Close an inbox', () => import('./inbox.ts'), 'inboxRevoke'],
  'invite create': ['Make a link by which others send files from here', () => import('./invite.ts'), 'inviteCreate'],
  'invite list': ['List invitations', () => import('./invite.ts'), 'inviteList'],
  'invite revoke': ['End an invitation', () => import('./invite.ts'), 'inviteRevoke'],
  list: ['List stored files, newest first', () => import('./list.ts')],
  set: ['Give a stored file another name or an end', () => import('./set.ts')],
  delete: ['Delete a stored file', () => import('./delete.ts')],
  verify: ['Check that all blocks of a file are present and intact', () => import('./verify-blob.ts')],
  'pages verify': ['Compare the pages of a service with those of this version', () => import('./verify-pages.ts')],
  reseal: ['Store a file again with another password or other keys', () => import('./reseal.ts')],
  export: ['Write a verified blob into a CAR file', () => import('./export.ts')],
  import: ['Store the file of a CAR under its own CID', () => import('./import-car.ts')],
  pin: ['Keep a copy of what somebody else published', () => import('./pin-published.ts')],
  events: ['Show what happened in the account', () => import('./account-events.ts')],
  copy: ['Copy files to the service of another profile', () => import('./copy.ts')],
  backup: ['Back up the account into a folder', () => import('./backup-account.ts')],
  restore: ['Store a backup in an account', () => import('./restore-account.ts')],
  'service backup': ['Back up the whole local service (for its operator)', wholeService, 'serviceBackup'],
  'service restore': ['Restore the backup of a local service', wholeService, 'serviceRestore'],
  'key create': ['Create an API key and print it once', () => import('./key.ts'), 'keyCreate'],
  'key list': ['List the API keys of the account', () => import('./key.ts'), 'keyList'],
  'key revoke': ['Revoke an API key', () => import('./key.ts'), 'keyRevoke'],
  'key export': ["Write the account's private key to a file", () => import('./key-export.ts')],
  'key restore': ['Make a key pair again from its backup words', () => import('./key-restore.ts')],
  'key rotate': ['Replace your key pair, and keep the old key for what it opens', () => import('./key-rotate.ts')],
  'account create': ['Make an account (for the operator of the service)', accounts, 'accountCreate'],
  'account list': ['List the accounts with what they use', accounts, 'accountList'],
  'account quota': ['Set how much an account may store', accounts, 'accountQuota'],
  'account disable': ['Refuse all API keys of an account', accounts, 'accountDisable'],
  'account enable': ['Let the API keys of an account work again', accounts, 'accountEnable'],
  'account delete': ['Delete an account with everything in it', accounts, 'accountDelete'],
  'account rotate': ['Replace the key pair of your account', () => import('./account-rotate.ts')],
  migrate: ['Move files to another pinning service (for the operator)', () => import('./migrate.ts')],
  repair: ['Look at every backend, and copy again what is lost (for the operator)', () => import('./repair.ts')],
  completions: [
    'Print the completions for a shell',
    async () => ({ command: (await import('./completions.ts')).completionsCommand(loadCommands) }),
  ],
} satisfies Readonly<Record<string, CommandRow>>;

const commandRows = new Map<string, CommandRow>(Object.entries(table));

/** The name and summary of each command, in the order of `help all`. */
export const headings: readonly Heading[] = Object.entries(table).map(([name, [summary]]) => ({ name, summary }));

/** The commands of the first page of help, for people, by what they are for. */
const forPeople: Readonly<Record<string, readonly (keyof typeof table)[]>> = {
  'Send and receive': ['send', 'receive', 'inbox create', 'shares', 'unshare'],
  'Encrypt and decrypt': ['encrypt', 'decrypt', 'keygen', 'ecc-encrypt', 'ecc-decrypt', 'chacha-encrypt'],
  'Stored files': ['list', 'verify', 'delete'],
  'The service': ['doctor', 'login', 'start', 'stop', 'status', 'rebuild'],
};

/** The first page of help: headings under their titles. */
export const firstPage: Readonly<Record<string, readonly Heading[]>> = Object.fromEntries(
  Object.entries(forPeople).map(([title, names]) => [title, names.map((name) => ({ name, summary: table[name][0] }))]),
);

/** Loads one command by its name as typed, such as `key create`; undefined when there is none. */
export async function loadCommand(name: string): Promise<Command | undefined> {
  const [summary, load, exported = 'command'] = commandRows.get(name) ?? [];
  if (summary === undefined || load === undefined) return undefined;
  const make = ((await load()) as Record<string, Make>)[exported];
  if (make === undefined) throw new TypeError(`the file of ${name} has no ${exported}`);
  return make({ name, summary });
}

/** Loads all commands, in the order of `help all`. */
export async function loadCommands(): Promise<Command[]> {
  const all = await Promise.all(headings.map(({ name }) => loadCommand(name)));
  return all.filter((command) => command !== undefined);
}
