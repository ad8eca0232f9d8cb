import { resolve } from 'node:path';
import type { StoredFile } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { givenPassword, refuseEmpty, refusePathAsPassword } from '../keys/passwords.ts';
import { endOpening } from '../files/begun-openings.ts';
import { checkPlacing, openDestination, type Placing } from '../files/destination.ts';
import {
  type LinkCredentials,
  linkIn,
  openLink,
  readLink,
  receiveFile,
  type ReceivedLink,
} from '../files/received-files.ts';
import { openDetails } from '../files/sealed-names.ts';
import { writeServiceFile } from '../files/service-file.ts';
import { decryptTo, decryptWithKeys, openingOf } from '../files/unseal.ts';
import { isFileId } from '../remote/file-id.ts';
import {
  blobArg,
  fetchingInterrupted,
  keyFlag,
  outputFileArg,
  passwordArg,
  passwordFlags,
  placingFlags,
} from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Asks the service first, then the configured gateways. The output file appears when all of it is authentic, ' +
    'or not at all. If you pass a password, the blob must be one that a password opens; anything else is refused. ' +
    'If you pass none, you are asked for the password where one is needed, a blob that is encrypted to keys is ' +
    'tried with your private.key, and unencrypted blobs are written unchanged. With --key only that private key is ' +
    'tried; its password, if it has one, comes from --password-file, SEALPIN_PASSWORD, or you are asked for it.',
  args: {
    blob_id: { ...blobArg, description: `${blobArg.description}; or the file ID of what is in the account` },
    output_file: {
      ...outputFileArg,
      required: false,
      description: `${outputFileArg.description}; what the service encrypted has a name of its own`,
    },
    password: passwordArg,
    ...keyFlag,
    ...passwordFlags,
    ...placingFlags,
  },
  service: true,
  interrupted: fetchingInterrupted,
  examples: [
    { command: 'sealpin decrypt bafkrei… letter.pdf', does: 'Ask for the password, write the file' },
    { command: 'sealpin decrypt bafkrei… --extract photos', does: 'A folder, into the new directory photos' },
    { command: 'sealpin decrypt bafkrei… a.jpg --path summer/a.jpg', does: 'One file of a folder' },
    {
      command: 'sealpin decrypt bafkrei… - --password-file pass.txt | tar -x',
      does: 'Into a pipe; any exit code but 0 means that it is incomplete',
    },
    { command: 'sealpin decrypt ./letter.age letter.pdf', does: 'A container on this machine' },
    { command: 'sealpin decrypt 6f1c2d3e-…', does: 'What the service encrypted, under its own name' },
  ],
  async run({ args, context }) {
    const { key } = args;
    const ofAccount = isFileId(args.blob_id)
      ? await writeServiceFile(args.blob_id, { ...args, outputFile: args.output_file }, context)
      : undefined;
    if (isFileId(args.blob_id) && ofAccount === undefined) return;
    const blob = ofAccount?.cid ?? args.blob_id;
    const { output_file: outputFile } = args;
    if (outputFile === undefined)
      throw new SealpinError('usage', 'decrypt needs <output_file>', { hint: 'see: sealpin decrypt --help' });
    const link = linkIn(blob) && readLink(blob, context);
    // A link without a key names a blob, which opens like any other.
    const named = link?.kind === 'blob' && link.fileKey === undefined ? link : undefined;
    const shared = named === undefined ? link : undefined;
    const modified = ofAccount === undefined ? undefined : await modifiedInDetails(ofAccount, context);
    const placing = { ...args, blob: named?.cid ?? blob, outputFile, modified };
    const to = link === undefined ? context : { ...context, service: link.service };
    if (key !== undefined && args.password !== undefined)
      throw new SealpinError('usage', 'a password does not go with --key', {
        hint: 'the password of a protected key is given with --password-file or SEALPIN_PASSWORD',
      });
    if (key !== undefined && shared === undefined) return await decryptWithKeys(placing, { ...args, file: key }, to);
    await refusePathAsPassword(args.password, 'to read the password from it use --password-file', context);
    const password = await givenPassword({ ...args, argument: args.password, stdinTaken: blob === '-' }, context);
    if (password !== undefined) refuseEmpty(password);
    if (shared !== undefined) return await receiveOne(shared, { password, key }, placing, context);
    return await decryptTo({ ...placing, ...openingOf({ blob, password }, context), context: to });
  },
});

/** Time of the last change of a file, which its owner alone can read. */
async function modifiedInDetails(file: StoredFile, context: Context): Promise<Date | undefined> {
  const output = { ...context.output, note: () => undefined };
  const { modified } = (await openDetails([file], { ...context, output })).details.get(file.fileId) ?? {};
  return modified === undefined ? undefined : new Date(modified);
}

/** Writes the only file that a link leads to. */
async function receiveOne(link: ReceivedLink, credentials: LinkCredentials, placing: Placing, context: Context) {
  const { output } = context;
  checkPlacing(placing, output);
  // Checked before the link is opened, which counts.
  await openDestination(placing, context);
  const { files } = await openLink(link, credentials, context);
  const [file, ...others] = files;
  if (file === undefined || others.length > 0)
    throw new SealpinError('usage', `the link leads to ${files.length} files`, {
      hint: 'write them into a directory with: sealpin receive <link> <dir>',
    });
  const { size, wrote } = await receiveFile(file, placing, link.service, context);
  if (link.kind === 'share') await endOpening(link, context);
  if (placing.outputFile === '-') return;
  output.note(wrote);
  await output.result({ output: resolve(context.cwd, placing.outputFile), size, encrypted: true }, []);
}
