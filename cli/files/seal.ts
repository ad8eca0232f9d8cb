/** Encrypting a file or folder, and storing it or writing a file. */
import { realpath, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import type { StoredFile } from '../../shared/api.ts';
import {
  encrypt,
  type Format,
  type Identity,
  passwordIdentity,
  type PasswordKdf,
  passwordRecipient,
  type Recipient,
} from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { leafBytes } from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { type FilterValues, readFilter, refuseIdleFilter } from '../folder/filter.ts';
import { readContacts } from '../keys/contacts.ts';
import { readRecipients } from '../keys/key-files.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { newPassword, refusePathAsPassword } from '../keys/passwords.ts';
import { parseName } from '../io/safe-name.ts';
import { type Input, modifiedOf, openInput } from '../io/input.ts';
import { openSink, type Sink, writeAll } from '../io/output-file.ts';
import { sizeText } from '../terminal/size.ts';
import { api, authorizedService, introduction } from '../remote/client.ts';
import type { Service } from '../remote/service-choice.ts';
import { limitsOf, refuseLarge } from '../store/limits.ts';
import { type Container, storeSealed, uploadIdOf } from '../store/store-sealed.ts';
import { keepStored } from './sealed-names.ts';
import type { Values } from '../command.ts';
import type { destinationFlags, fileArg, newPasswordFlags, passwordArg } from '../flags/args.ts';
import { errnoOf } from '../errno.ts';
import { pathsIn } from '../io/paths.ts';

/** Secret that a file is encrypted with. */
type Secret = {
  readonly recipients: readonly Recipient[];
  /** Tells one way to encrypt from another: texts of keys, or the derivation from a password. */
  readonly kind: readonly string[];
  /** Opens what the recipients can open; undefined where only they can. */
  readonly identity?: Identity;
};

/** Arguments that the encrypting commands share. */
type Arguments = Values<{ file: typeof fileArg } & typeof destinationFlags>;

type SealingRun = {
  readonly args: Arguments;
  readonly format: Format;
  /** Permits post-quantum recipients to be combined with others. */
  readonly mix?: boolean;
  /** Called once the file and the service are known to be there. */
  readonly secret: () => Promise<Secret>;
  readonly context: Context;
};

/**
 * Encrypts a file or folder with the password that is given, generated or asked for.
 * @param o `args` of the command; `derivation` how the key is derived from the password
 * @throws the codes of `newPassword`, `encryptAndStore` and `encryptToFile`; usage when the
 * password is the path of a file
 */
export async function encryptWithPassword(o: {
  readonly args: Arguments & Values<{ password: typeof passwordArg } & typeof newPasswordFlags>;
  readonly format: Format;
  readonly derivation: PasswordKdf;
  readonly context: Context;
}): Promise<void> {
  const { args, format, derivation, context } = o;
  await refusePathAsPassword(args.password, oneFile, context);
  const source = { ...args, argument: args.password, stdinTaken: args.file === '-' };
  const secret = async (): Promise<Secret> => {
    const password = await newPassword(source, args.output === undefined ? 'blob' : 'file', context);
    return {
      recipients: [passwordRecipient(password, derivation)],
      kind: [derivation.name],
      identity: passwordIdentity(password),
    };
  };
  await encryptOne({ args, format, context, secret });
}

/** Advice for several files. */
export const oneFile = 'one file is encrypted at a time: name a folder, or send several with sealpin send';

/**
 * Encrypts a file or folder to keys, into an age file.
 * @param o.names contacts, key files and recipients
 * @throws the codes of `readRecipients`, `encryptAndStore` and `encryptToFile`; usage when standard
 * input is the file and a key
 */
export async function encryptToKeys(o: Omit<SealingRun, 'secret' | 'format'> & { readonly names: readonly string[] }) {
  if (o.args.file === '-' && o.names.includes('-'))
    throw new SealpinError('usage', 'standard input cannot be both the file and a key');
  const secret = async (): Promise<Secret> => {
    const recipients = await readRecipients(o.names, o.context, await readContacts(o.context));
    await noteOneKey(recipients.length, o.context);
    return { recipients, kind: recipients.map(({ text }) => text ?? '').toSorted() };
  };
  await encryptOne({ ...o, format: 'age', secret });
}

/** Says once in a data directory that what only one key opens is lost with it. */
async function noteOneKey(recipients: number, { dataDir, output }: Context): Promise<void> {
  if (recipients !== 1 || output.quiet) return;
  // Where the mark cannot be written, as without a data directory, it is said again.
  const isFirst = await writeFile(pathsIn(dataDir).oneKeyNoted, '', { flag: 'wx', mode: 0o600 }).then(
    () => true,
    (error: unknown) => errnoOf(error) !== 'EEXIST',
  );
  if (isFirst) output.note('only one key opens this file: if it is lost, so is the file; name a second key to be safe');
}

async function encryptOne(o: SealingRun): Promise<void> {
  const { output, force, name, unnamed } = o.args;
  if (output === undefined && force)
    throw new SealpinError('usage', '--force applies to --output only', { hint: 'leave it out, or give --output' });
  const { service, profile } = o.context;
  const forStoring = { name, unnamed: unnamed || undefined, service, profile };
  const idle = Object.entries(forStoring).find(([, value]) => value !== undefined);
  if (output !== undefined && idle !== undefined)
    throw new SealpinError('usage', `--${idle[0]} has no effect with --output, which stores nothing`, {
      hint: 'leave one of them out',
    });
  await (output === undefined ? encryptAndStore(o) : encryptToFile(output, o));
}

/**
 * Opens what is to be encrypted: a file, a pipe, or a folder as an archive.
 * @param values which patterns apply to a folder
 * @throws the codes of `openInput`, usage
 */
export async function openSource(path: string, values: FilterValues, context: Context): Promise<Input> {
  const stats = path === '-' ? undefined : await stat(resolve(context.cwd, path)).catch(() => undefined);
  if (stats?.isDirectory() === true) {
    const { openFolder } = await import('../folder/pack.ts');
    return openFolder(path, context, readFilter(values));
  }
  return openInput(path, context);
}

/**
 * Encrypts into a container file, which appears complete or not at all.
 * @param path of the container, or `-`
 * @throws the codes of `openSource` and `openSink`; usage when the container would be in the folder
 * that is encrypted
 */
async function encryptToFile(path: string, o: SealingRun): Promise<void> {
  const { args, context } = o;
  const { output, signal } = context;
  if (path === '-' && output.json)
    throw new SealpinError('usage', '--json and the encrypted file would both go to standard output', {
      hint: 'name a file for the output',
    });
  const options = { force: args.force, environment: context };
  // Checked before anything is read, and again once the input is open, which must be another file.
  await openSink(path, options);
  await refuseInside(args.file, path, context);
  const input = await openSource(args.file, args, context);
  let sink: Sink | undefined;
  try {
    refuseIdleFilter(args, [input]);
    sink = await openSink(path, { ...options, input: input.identity });
    const secret = await o.secret();
    const container = await seal(input, secret, o);
    if (container.bytes !== undefined) await sink.room(container.bytes);
    const progress = output.progress('encrypting', container.expectedBytes);
    const size = await writeAll(container.stream, sink, { progress, signal, onWritten: () => undefined });
    const written = await sink.commit();
    if (written === undefined) return;
    output.note(`wrote ${path} (${sizeText(size)})`);
    if (isForPerson(context)) for (const note of fileSteps(secret, o)) output.note(note);
    await output.result({ output: written, size }, []);
  } finally {
    await sink?.abort();
    await input.close();
  }
}

/** Refuses a container in the folder that it would hold. */
async function refuseInside(source: string, path: string, { cwd }: Context): Promise<void> {
  if (source === '-' || path === '-') return;
  const [folder, directory] = await Promise.all(
    [resolve(cwd, source), dirname(resolve(cwd, path))].map((each) => realpath(each).catch(() => undefined)),
  );
  if (folder === undefined || directory === undefined || !`${directory}/`.startsWith(`${folder}/`)) return;
  throw new SealpinError('usage', `${path} is in the folder ${source}, which is being encrypted`, {
    hint: 'put the output somewhere else',
  });
}

/**
 * Encrypts a file or folder, stores it and prints its blob ID.
 * @throws too_large before a byte is sent, if the size is known; the codes of `openSource`,
 * `authorizedService`, `store` and `upload`
 */
async function encryptAndStore(o: SealingRun): Promise<void> {
  const { context, args } = o;
  const { output } = context;
  const named = args.name === undefined ? undefined : parseName(args.name, '--name');
  const input = await openSource(args.file, args, context);
  try {
    refuseIdleFilter(args, [input]);
    const service = await authorizedService(
      context,
      'to encrypt into a file, without a service: --output <file>; to store it: sealpin login <url>, or, on this ' +
        'computer only: sealpin start --detach',
    );
    const routes = api(service, context);
    // A service that refuses an upload hangs up during it, and its reason may be lost: so we ask
    // first.
    const { health, key } = await introduction(routes);
    const limits = limitsOf(health);
    refuseLarge(input.bytes, limits.fileBytes);
    if (!key.scopes.includes('write'))
      throw new SealpinError('insufficient_scope', 'the API key may not store files', {
        hint: 'use a key with the scope write',
      });
    const secret = await o.secret();
    const kind = [o.format, ...secret.kind];
    const to = { service, routes, limits, keyId: key.id };
    const file = await storeSealed(input, {
      ...to,
      id: uploadIdOf(input, { ...to, path: args.file, kind, context }),
      path: args.file,
      identity: secret.identity,
      encrypt: (from) => seal(from, secret, o),
      label: 'encrypting and storing',
      context,
    });
    const name = named ?? (args.file === '-' ? '' : basename(resolve(context.cwd, args.file)));
    const { cid, fileId, size: bytes } = file;
    const kept = { cid, fileId, bytes, name: name || undefined, modified: modifiedOf(input) };
    await keepStored(kept, service, context, args);
    if (service.local && !output.json) {
      // The file is stored, even if this question fails, or the API key may not ask it.
      const asked = file.pins ? undefined : await routes.list({ cid, limit: 1 }).catch(() => undefined);
      const pins = file.pins ?? asked?.files[0]?.pins;
      if (pins !== undefined) output.note(await describeReach(pins, context));
    }
    await output.result({ blobId: cid, fileId, size: bytes, service: service.url.href }, [cid]);
    noteNextStep(secret, service, context);
  } finally {
    await input.close();
  }
}

async function seal(
  { stream, bytes, lookThrough }: Input,
  { recipients }: Secret,
  { format, mix = false, context }: SealingRun,
): Promise<Container> {
  const expectedBytes = bytes ?? (await lookThrough?.());
  const derivation = recipients.some(({ kind }) => kind === 'password')
    ? context.output.progress('deriving the key from the password')
    : undefined;
  // Pieces of one leaf of the CID, which the hashing takes without copying them together.
  const container = await encrypt(stream, { format, recipients, mix, pieceBytes: leafBytes, provider: nodeProvider });
  derivation?.done();
  const sizeOf = (plain: number | undefined) => (plain === undefined ? undefined : container.size(plain));
  return { stream: container.stream, bytes: sizeOf(bytes), expectedBytes: sizeOf(expectedBytes) };
}

function isForPerson({ stdout, stderr }: Context): boolean {
  return stdout.isTTY === true && stderr.isTTY === true;
}

/** Next steps for a person with an encrypted file. */
function fileSteps({ identity }: Secret, { format }: SealingRun): string[] {
  if (identity === undefined) return ['send it in any way: only the keys that you named open it, by sealpin decrypt'];
  const opens = format === 'age' ? 'age -d, or sealpin decrypt' : 'sealpin decrypt';
  return ['send it in any way, and tell the password another way', `it opens with ${opens}`];
}

/** Tells a person what to give to whom: the blob ID alone does not say so. */
function noteNextStep({ identity }: Secret, { local, url }: Service, context: Context): void {
  if (!isForPerson(context)) return;
  const { output } = context;
  output.note(
    identity === undefined
      ? 'the blob ID may go in public: only the keys that you named open the file'
      : 'the blob ID may go in public; tell the password another way',
  );
  if (!local) output.note(`to open it: sealpin decrypt <blob_id> <file> --service ${url.href}`);
}

/** Says who else can get the bytes of a file in the local service, by the peers of its Kubo. */
async function describeReach(pins: StoredFile['pins'], context: Context): Promise<string> {
  if (pins.every((pin) => pin.service === 'local'))
    return 'stored on this computer only: nobody else can fetch it, since the local service is not on the IPFS network';
  const { control } = await import('../local/control.ts');
  // The file is stored, even if this question fails.
  const kubo = (await control(context, 'status').catch(() => undefined))?.kubo;
  const at = kubo === undefined ? 'the Kubo of the local service' : `the Kubo at ${kubo.url}`;
  const peers = kubo?.status === 'ok' ? kubo.peers : undefined;
  const others = 'anyone with the blob ID can fetch the encrypted bytes';
  if (peers === undefined) return `stored in ${at}: if it is connected to the IPFS network, ${others}`;
  if (peers === 0) return `stored in ${at}, which has no peers at the moment: once it is connected, ${others}`;
  return `stored in ${at}, which has ${peers} ${peers === 1 ? 'peer' : 'peers'}: ${others}`;
}
