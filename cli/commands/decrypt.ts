import { passwordIdentity } from '../../shared/crypto/index.ts';
import { defineCommand } from '../command.ts';
import { readIdentities } from '../keys/key-files.ts';
import { askPassword, givenPassword, passwordArgs, refuseEmpty, refusePathAsPassword } from '../keys/passwords.ts';
import { decryptTo } from '../unseal.ts';

export const command = defineCommand({
  name: 'decrypt',
  summary: 'Fetch a blob, check it against its ID and decrypt it',
  about:
    'The service is asked first, then the gateways of the configuration. The output file appears when all of it is authentic, or not at all. A password that is given must be used: a blob that is not encrypted is then refused. Without one, a blob with a password asks for it, one for keys is tried with your private.key, and one that is not encrypted is written as it is.',
  args: {
    blob_id: {
      type: 'positional',
      description: 'The blob ID, a container on this machine (./file), or - for standard input',
    },
    output_file: { type: 'positional', description: 'Where to write, or - for standard output' },
    password: {
      type: 'positional',
      required: false,
      description: 'The password. Others on this machine may see it: rather use one of the other ways',
    },
    ...passwordArgs,
    force: { type: 'boolean', description: 'Replace the output file if it exists' },
  },
  service: true,
  examples: [
    { command: 'sealpin decrypt bafkrei… letter.pdf', does: 'Ask for the password, write the file' },
    {
      command: 'sealpin decrypt bafkrei… - --password-file pass.txt | tar -x',
      does: 'Into a pipe; exit code 1 says that it is incomplete',
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
      given: password === undefined ? undefined : { kind: 'password', password },
      find: async (kind, failed) =>
        kind === 'password'
          ? [passwordIdentity(await askPassword(args.blob_id, context, failed))]
          : readIdentities(undefined, undefined, context),
      context,
    });
  },
});
