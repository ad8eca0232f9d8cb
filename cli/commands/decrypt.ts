import { passwordIdentity } from '../../shared/crypto/index.ts';
import { defineCommand } from '../command.ts';
import { readIdentities } from '../keys/key-files.ts';
import { askPassword, givenPassword, refuseEmpty, refusePathAsPassword } from '../keys/passwords.ts';
import { decryptTo } from '../unseal.ts';
import { blobArg, extractArg, forceArg, outputFileArg, passwordArg, passwordFlags } from './args.ts';

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
    await decryptTo({
      blob: args.blob_id,
      outputFile: args.output_file,
      force: args.force,
      extract: args.extract,
      given: password === undefined ? undefined : { kind: 'password', password },
      find: async (kind, failed) =>
        kind === 'password'
          ? [passwordIdentity(await askPassword(args.blob_id, context, failed))]
          : readIdentities(undefined, undefined, context),
      context,
    });
  },
});
