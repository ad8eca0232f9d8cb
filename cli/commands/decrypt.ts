import { resolve } from 'node:path';
import { passwordIdentity } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { openSink } from '../io/output-file.ts';
import { readIdentities } from '../keys/key-files.ts';
import { askPassword, givenPassword, refuseEmpty, refusePathAsPassword } from '../keys/passwords.ts';
import { isLink, openLink, readLink, receiveFile } from '../files/received-files.ts';
import { sizeText } from '../terminal/size.ts';
import { decryptTo } from '../files/unseal.ts';
import {
  blobArg,
  extractArg,
  fetchingInterrupted,
  forceArg,
  outputFileArg,
  passwordArg,
  passwordFlags,
} from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Asks the service first, then the configured gateways. The output file appears when all of it is authentic, ' +
    'or not at all. If you pass a password, the blob must be one that a password opens; anything else is refused. ' +
    'If you pass none, you are asked for the password where one is needed, a blob that is encrypted to keys is ' +
    'tried with your private.key, and unencrypted blobs are written unchanged.',
  args: {
    blob_id: blobArg,
    output_file: outputFileArg,
    password: passwordArg,
    ...passwordFlags,
    extract: extractArg,
    force: forceArg,
  },
  service: true,
  interrupted: fetchingInterrupted,
  examples: [
    { command: 'sealpin decrypt bafkrei… letter.pdf', does: 'Ask for the password, write the file' },
    { command: 'sealpin decrypt bafkrei… --extract photos', does: 'A folder, into the new directory photos' },
    {
      command: 'sealpin decrypt bafkrei… - --password-file pass.txt | tar -x',
      does: 'Into a pipe; exit code 1 means that it is incomplete',
    },
    { command: 'sealpin decrypt ./letter.age letter.pdf', does: 'A container on this machine' },
  ],
  async run({ args, context }) {
    await refusePathAsPassword(args.password, 'to read the password from it use --password-file', context);
    const source = { argument: args.password, file: args['password-file'], stdinTaken: args.blob_id === '-' };
    const password = await givenPassword(source, context);
    if (password !== undefined) refuseEmpty(password);
    const link = isLink(args.blob_id) ? readLink(args.blob_id, context) : undefined;
    if (link !== undefined && !(link.kind === 'blob' && link.fileKey === undefined)) {
      const { output_file: path, force } = args;
      if (args.extract)
        throw new SealpinError('usage', '--extract does not go with a link that has a key', {
          hint: 'write the archive with sealpin receive, and extract it with tar',
        });
      const { output } = context;
      // Checked before the link is opened, which counts.
      await openSink(path, { force, environment: context });
      const { files } = await openLink(link, { password, key: undefined }, context);
      const [file, ...others] = files;
      if (file === undefined || others.length > 0)
        throw new SealpinError('usage', `the link leads to ${files.length} files`, {
          hint: 'write them into a directory with: sealpin receive <link> <dir>',
        });
      const size = await receiveFile(file, path, { service: link.service, force }, context);
      if (path === '-') return;
      output.note(`wrote ${path} (${sizeText(size)})`);
      await output.result({ output: resolve(context.cwd, path), size, encrypted: true }, []);
      return;
    }
    await decryptTo({
      blob: link?.cid ?? args.blob_id,
      outputFile: args.output_file,
      force: args.force,
      extract: args.extract,
      given: password === undefined ? undefined : { kind: 'password', password },
      find: async (kind, failed) =>
        kind === 'password'
          ? [passwordIdentity(await askPassword(args.blob_id, context, failed))]
          : readIdentities(undefined, undefined, context),
      context: link === undefined ? context : { ...context, service: link.service },
    });
  },
});
