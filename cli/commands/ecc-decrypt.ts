import { defineCommand, positional } from '../command.ts';
import { decryptWithKeys } from '../files/unseal.ts';
import { blobArg, fetchingInterrupted, outputFileArg, passwordFlags, placingFlags } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'As sealpin decrypt --key. The private key is private.key in the data directory, or a file: PKCS#8 or SEC1 PEM ' +
    'from OpenSSL (P-256), or lines with AGE-SECRET-KEY-1…. The password of a protected key file comes from ' +
    '--password-file or SEALPIN_PASSWORD, or you are asked for it. An unencrypted blob is refused.',
  args: {
    blob_id: blobArg,
    output_file: outputFileArg,
    private_key_file: positional('The private key, or - for standard input', { required: false, path: true }),
    ...passwordFlags,
    ...placingFlags,
  },
  service: true,
  interrupted: fetchingInterrupted,
  examples: [
    { command: 'sealpin ecc-decrypt bafkrei… letter.pdf', does: 'With private.key in the data directory' },
    { command: 'sealpin ecc-decrypt bafkrei… letter.pdf bob/private.key', does: 'With another key' },
  ],
  async run({ args, context }) {
    const { blob_id: blob, output_file: outputFile, private_key_file: file } = args;
    await decryptWithKeys({ ...args, blob, outputFile }, { ...args, file }, context);
  },
});
