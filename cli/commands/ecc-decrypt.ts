import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { readIdentities } from '../keys/key-files.ts';
import { givenPassword, passwordArgs } from '../keys/passwords.ts';
import { decryptTo } from '../unseal.ts';

export const command = defineCommand({
  name: 'ecc-decrypt',
  summary: 'Fetch a blob, check it against its ID and decrypt it with a private key',
  about:
    'The private key is private.key of the data directory, or a file: PKCS#8 or SEC1 PEM of OpenSSL (P-256), or lines with AGE-SECRET-KEY-1…; one that is protected with a password asks for it, or takes it from --password-file or SEALPIN_PASSWORD. A blob that is not encrypted is refused.',
  args: {
    blob_id: {
      type: 'positional',
      description: 'The blob ID, a container on this machine (./file), or - for standard input',
    },
    output_file: { type: 'positional', description: 'Where to write, or - for standard output' },
    private_key_file: { type: 'positional', required: false, description: 'The private key, or - for standard input' },
    ...passwordArgs,
    force: { type: 'boolean', description: 'Replace the output file if it exists' },
  },
  service: true,
  examples: [
    { command: 'sealpin ecc-decrypt bafkrei… letter.pdf', does: 'With private.key of the data directory' },
    { command: 'sealpin ecc-decrypt bafkrei… letter.pdf bob/private.key', does: 'With another key' },
  ],
  async run({ args, context }) {
    if (args.blob_id === '-' && args.private_key_file === '-')
      throw new SealpinError('usage', 'standard input cannot be both the container and the key');
    const stdinTaken = args.blob_id === '-' || args.private_key_file === '-';
    const password = await givenPassword({ argument: undefined, file: args['password-file'], stdinTaken }, context);
    const identities = await readIdentities(args.private_key_file, password, context);
    await decryptTo({
      blob: args.blob_id,
      outputFile: args.output_file,
      force: args.force,
      given: { kind: 'keys', identities },
      find: async () => identities,
      context,
    });
  },
});
