import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { readIdentities } from '../keys/key-files.ts';
import { givenPassword } from '../keys/passwords.ts';
import { decryptTo } from '../files/unseal.ts';
import { blobArg, extractArg, fetchingInterrupted, forceArg, outputFileArg, passwordFlags } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'The private key is private.key in the data directory, or a file: PKCS#8 or SEC1 PEM from OpenSSL (P-256), or ' +
    'lines with AGE-SECRET-KEY-1…. The password of a protected key file comes from --password-file or ' +
    'SEALPIN_PASSWORD, or you are asked for it. An unencrypted blob is refused.',
  args: {
    blob_id: blobArg,
    output_file: outputFileArg,
    private_key_file: {
      type: 'positional',
      required: false,
      path: true,
      description: 'The private key, or - for standard input',
    },
    ...passwordFlags,
    extract: extractArg,
    force: forceArg,
  },
  service: true,
  interrupted: fetchingInterrupted,
  examples: [
    { command: 'sealpin ecc-decrypt bafkrei… letter.pdf', does: 'With private.key in the data directory' },
    { command: 'sealpin ecc-decrypt bafkrei… letter.pdf bob/private.key', does: 'With another key' },
  ],
  async run({ args, context }) {
    if (args.blob_id === '-' && args.private_key_file === '-')
      throw new SealpinError('usage', 'standard input cannot be both the container and the key');
    const stdinTaken = args.blob_id === '-' || args.private_key_file === '-';
    const password = await givenPassword({ file: args['password-file'], stdinTaken }, context);
    const identities = await readIdentities(args.private_key_file, password, context);
    await decryptTo({
      blob: args.blob_id,
      outputFile: args.output_file,
      force: args.force,
      extract: args.extract,
      given: { kind: 'keys', identities },
      find: async () => identities,
      context,
    });
  },
});
