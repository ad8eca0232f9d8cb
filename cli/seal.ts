/** The work of the three encrypting commands: read, encrypt, store, remember, print the blob ID. */
import { basename } from 'node:path';
import type { StoredFile } from '../shared/api.ts';
import { encrypt, type Format, passwordRecipient, type Recipient } from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { leafBytes } from '../shared/ipfs/index.ts';
import type { Context } from './context.ts';
import { nodeBackend } from './keys/node-backend.ts';
import { newPassword, refusePathAsPassword } from './keys/passwords.ts';
import { remember } from './history.ts';
import { openInput } from './io/input.ts';
import { sizeText } from './terminal/progress.ts';
import { api, authorizedService } from './remote/client.ts';
import { store } from './remote/store-blob.ts';

type Sealing = {
  /** A path, or `-`. */
  readonly file: string;
  readonly format: Format;
  /** Whether post-quantum recipients may be combined with others. */
  readonly mix?: boolean;
  /** Called once the file and the service are known to be there. */
  readonly recipients: () => Promise<readonly Recipient[]>;
  readonly context: Context;
};

/**
 * Encrypts a file with the password that is given, generated or asked for, and stores it.
 *
 * @param o `args` of the command; `derivation` how the key is derived from the password
 * @throws the codes of `newPassword` and `encryptAndStore`; usage when the password is the path of a file
 */
export async function encryptWithPassword(o: {
  readonly args: {
    readonly file: string;
    readonly password: string | undefined;
    readonly 'password-file': string | undefined;
    readonly generate: boolean;
  };
  readonly format: Format;
  readonly derivation: Parameters<typeof passwordRecipient>[1];
  readonly context: Context;
}): Promise<void> {
  const { args, format, derivation, context } = o;
  await refusePathAsPassword(args.password, 'sealpin encrypts one file at a time', context);
  const source = { argument: args.password, file: args['password-file'], stdinTaken: args.file === '-' };
  await encryptAndStore({
    file: args.file,
    format,
    context,
    recipients: async () => [passwordRecipient(await newPassword(source, args.generate, context), derivation)],
  });
}

/**
 * Encrypts a file, stores it and prints its blob ID.
 *
 * @throws too_large before a byte is sent, if the size is known; the codes of `openInput`, `authorizedService` and `store`
 */
export async function encryptAndStore(o: Sealing): Promise<void> {
  const { context } = o;
  const { output, signal } = context;
  const input = await openInput(o.file, context);
  try {
    const service = await authorizedService(context);
    const routes = api(service, context);
    const { maxUploadBytes } = await routes.health();
    refuseLarge(input.bytes, maxUploadBytes);
    // A service that refuses an upload hangs up during it, and its reason may be lost: so we ask first.
    const { key } = await routes.account();
    if (!key.scopes.includes('write'))
      throw new SealpinError('insufficient_scope', 'the API key may not store files', {
        hint: 'use a key with the scope write',
      });
    const recipients = await o.recipients();
    const derivation = recipients.some(({ kind }) => kind === 'password')
      ? output.progress('deriving the key from the password')
      : undefined;
    const container = await encrypt(input.stream, {
      format: o.format,
      recipients,
      mix: o.mix ?? false,
      // Leaves of the CID, which the hashing takes without copying them together.
      pieceBytes: leafBytes,
      backend: nodeBackend,
    });
    derivation?.done();
    const bytes = input.bytes === undefined ? undefined : container.size(input.bytes);
    refuseLarge(bytes, maxUploadBytes);
    signal.throwIfAborted();
    const progress = output.progress('encrypting and storing', bytes);
    const file = await store({ stream: container.stream, bytes }, { api: routes, context, onBytes: progress.add });
    progress.done();
    const name = o.file === '-' ? {} : { name: basename(o.file) };
    await keepInHistory(
      { cid: file.cid, fileId: file.fileId, service: service.url.href, bytes: file.size, ...name },
      context,
    );
    if (service.local && !output.json) output.note(await describeReach(file, context));
    await output.result({ blobId: file.cid, fileId: file.fileId, size: file.size, service: service.url.href }, [
      file.cid,
    ]);
  } finally {
    await input.close();
  }
}

/** Who else can get the bytes of a file in the local service. Whether its Kubo is connected is asked, not assumed. */
async function describeReach({ pins }: StoredFile, { dataDir }: Context): Promise<string> {
  if (pins.every((pin) => pin.service === 'local'))
    return 'stored on this computer only: nobody else can fetch it, since the local service is not on the IPFS network';
  const [{ control }, { localPaths }] = await Promise.all([import('./local/control.ts'), import('./local/state.ts')]);
  // The file is stored, even if this question fails.
  const status = await control(localPaths(dataDir).control, 'status').catch(() => undefined);
  const kubo = status?.kubo;
  const at = kubo === undefined ? 'the Kubo of the local service' : `the Kubo at ${kubo.url}`;
  const peers = kubo?.status === 'ok' ? kubo.peers : undefined;
  const others = 'anyone with the blob ID can fetch the encrypted bytes';
  if (peers === undefined) return `stored in ${at}: if it is connected to the IPFS network, ${others}`;
  if (peers === 0) return `stored in ${at}, which has no peers at the moment: once it is connected, ${others}`;
  return `stored in ${at}, which has ${peers} ${peers === 1 ? 'peer' : 'peers'}: ${others}`;
}

function refuseLarge(bytes: number | undefined, maxUploadBytes: number | null): void {
  if (bytes === undefined || maxUploadBytes === null || bytes <= maxUploadBytes) return;
  throw new SealpinError(
    'too_large',
    `the file has ${sizeText(bytes)}; this service accepts at most ${sizeText(maxUploadBytes)}`,
    { hint: 'use a service with a higher limit; the local one (sealpin start) accepts any size' },
  );
}

async function keepInHistory(
  stored: { cid: string; fileId: string; service: string; bytes: number; name?: string },
  context: Context,
): Promise<void> {
  try {
    await remember(context.dataDir, { v: 1, ...stored, at: new Date(context.now()).toISOString() });
  } catch (error) {
    if (!(error instanceof SealpinError)) throw error;
    // The blob is stored, and its ID must be printed.
    context.output.warn(`the history was not written: ${error.message}`);
  }
}
