import { defineCommand } from '../command.ts';
import { encryptWithPassword, oneFile } from '../files/seal.ts';
import { destinationFlags, fileArg, newPasswordFlags, passwordArg } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Prints the blob ID, or with --output writes the encrypted file. It is encrypted on this ' +
    'machine; the service gets neither the password nor the name of the file. Without a password on ' +
    'the command line, in a file or in SEALPIN_PASSWORD, you are asked for it twice. Nobody can ' +
    'reset a password: if you lose it, you lose the file.',
  args: {
    file: fileArg,
    password: passwordArg,
    ...newPasswordFlags,
    ...destinationFlags,
    fips: { type: 'boolean', description: 'Only algorithms that FIPS approves: PBKDF2 instead of scrypt' },
  },
  surplus: oneFile,
  service: true,
  examples: [
    { command: 'sealpin encrypt letter.pdf', does: 'Ask for a password, print the blob ID' },
    { command: 'sealpin encrypt photos', does: 'A folder; sealpin decrypt --extract gets it back' },
    { command: 'sealpin encrypt photos --output photos.sealpin', does: 'A folder, into a file instead of a service' },
    { command: 'pg_dump mail | sealpin encrypt - --name mail.sql --password-file pass.txt', does: 'From a pipe' },
    { command: 'sealpin encrypt letter.pdf --generate', does: 'With a password of ten words, shown once' },
  ],
  async run({ args, context }) {
    await encryptWithPassword({
      args,
      format: 'sealpin',
      derivation: args.fips ? { name: 'pbkdf2-sha512' } : { name: 'scrypt', logN: context.scryptLogN },
      context,
    });
  },
});
