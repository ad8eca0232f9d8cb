import { openSealedFile } from '../../client/stored-files.ts';
import { open, openWithFileKey } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, toggle, valueFlag, type Values } from '../command.ts';
import type { Context } from '../context.ts';
import { release } from '../io/byte-stream.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { givenPassword } from '../keys/passwords.ts';
import { authorizedService, api, sdkHttp } from '../remote/client.ts';
import { parseBlobId, withBlob } from '../fetch/fetch-blob.ts';
import { ownFilesIn } from '../fetch/own-files.ts';
import { isFileId, parseFileId } from '../remote/file-id.ts';
import { sizeText } from '../terminal/size.ts';
import { openWith, openingOf } from '../files/unseal.ts';
import { noPosition, verifyAccount, verifyLocal } from '../files/verify-all.ts';
import { keyFlag, passwordFlags } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Fetches every block from the service, else from the gateways, and compares it with the blob ID; ' +
    'nothing is written. That needs no password, and for a blob ID no API key. With --open, or a ' +
    'password file or key, it is also decrypted to its end.',
  args: {
    id: positional('The blob ID or the file ID', { required: false, completes: 'blob' }),
    all: toggle('Every file of the account instead'),
    local: toggle('Every block of the IPFS node of the local service instead, also of deleted files'),
    after: valueFlag(
      'position',
      'With --all or --local: continue a run that was stopped, from the position that it named',
    ),
    open: toggle('Decrypt it, too: with the password, private.key, or the key of the account'),
    ...passwordFlags,
    ...keyFlag,
  },
  service: true,
  examples: [
    { command: 'sealpin verify bafkrei…', does: 'Check that all blocks are present and intact' },
    { command: 'sealpin verify bafkrei… --open', does: 'Check that it decrypts completely, too' },
    { command: 'sealpin verify 6f1c2d3e-… --open', does: 'What the service encrypted' },
    { command: 'sealpin verify --all', does: 'All that the account has' },
  ],
  async run({ args, context }) {
    const { output } = context;
    const isDeep = args.open || args.key !== undefined || args['password-file'] !== undefined;
    const { id = '' } = args;
    if ([args.id !== undefined, args.all, args.local].filter(Boolean).length !== 1 || (isDeep && args.id === undefined))
      throw new SealpinError('usage', 'verify needs an ID, --all or --local', {
        hint: 'one of them; --open, --key and --password-file go with an ID',
      });
    if (args.after !== undefined && args.id !== undefined)
      throw new SealpinError('usage', '--after goes with --all or --local', { hint: 'leave it out' });
    if (args.after !== undefined && !(args.local ? /^[\da-z]{1,11}$/ : /^[\da-z-]{1,40}$/).test(args.after))
      throw noPosition(args.local ? '--local' : '--all');
    if (args.all) return await verifyAccount(args.after, context);
    if (args.local) return await verifyLocal(args.after, context);
    const { cid, fileKey } = await targetOf(id, isDeep, context);
    return await withBlob(cid, { ...context, ownFile: ownFilesIn(context) }, async (blob) => {
      const progress = output.progress(isDeep ? 'verifying and decrypting' : 'verifying', blob.size);
      const stored = blob.read(0, blob.size);
      let size: number | undefined;
      if (isDeep) {
        const plaintext = await plaintextOf(stored, { id, fileKey, args }, context);
        size = await countBytes(plaintext, (bytes) => progress.add(bytes), release);
      } else await countBytes(stored, (bytes) => progress.add(bytes));
      progress.done();
      output.note(`all blocks of ${cid} are present and intact (${sizeText(blob.size)})`);
      if (size !== undefined) output.note(`it decrypts completely (${sizeText(size)})`);
      await output.result({ blobId: cid, size: blob.size, opened: isDeep, plaintextSize: size }, []);
      return 0;
    });
  },
});

/** The blob that an ID stands for; to be opened, with its file key if the service encrypted it. */
async function targetOf(id: string, isDeep: boolean, context: Context) {
  if (!isFileId(id)) return { cid: parseBlobId(id, '; a file ID, such as 6f1c2d3e-…, works too') };
  const service = await authorizedService(context);
  const { cid, mode, fileId } = await api(service, context).file(parseFileId(id));
  if (mode === 'plain' || !isDeep) return { cid };
  const http = sdkHttp(service, context);
  return { cid, fileKey: (await openSealedFile(http, service.apiKey, fileId, context.signal)).fileKey };
}

type OpeningArgs = {
  readonly id: string;
  readonly fileKey: Uint8Array | undefined;
  readonly args: Values<typeof keyFlag & typeof passwordFlags>;
};

async function plaintextOf(stored: ReadableStream<Uint8Array>, { id, fileKey, args }: OpeningArgs, context: Context) {
  if (fileKey !== undefined) return openWithFileKey(stored, { fileKey, provider: nodeProvider });
  const password = await givenPassword(args, context);
  const opened = await open(stored, { provider: nodeProvider });
  if (opened.kind === 'plain')
    throw new SealpinError('not_encrypted', 'it is not encrypted: there is nothing to open', {
      hint: 'without --open and a key, its blocks alone are verified',
    });
  // A password is either for the container or for the key file, and that of the environment may be
  // for something else than the key.
  const isForContainer = 'opens' in opened && opened.opens === 'password';
  const keyPassword = args['password-file'] === undefined ? undefined : password;
  const secrets = isForContainer ? { password } : { key: args.key, keyPassword };
  return openWith(opened, { blob: id, ...openingOf({ blob: id, ...secrets }, context) }, context);
}

/** Reads to the end. @returns how many bytes there were */
async function countBytes(
  stream: ReadableStream<Uint8Array>,
  onBytes: (bytes: number) => void,
  onRead: (chunk: Uint8Array) => void = () => undefined,
): Promise<number> {
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    onBytes(chunk.length);
    onRead(chunk);
  }
  return bytes;
}
