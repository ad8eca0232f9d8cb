import { defineCommand } from '../command.ts';
import { encryptWithPassword } from '../seal.ts';
import { destinationFlags, fileArg, newPasswordFlags, passwordArg } from './args.ts';

export const command = defineCommand({
  about:
    'Prints the blob ID. The file is encrypted on this machine; the service gets neither the password nor the ' +
    'name of the file. Without a password on the command line, in a file or in SEALPIN_PASSWORD, you are asked ' +
    'for it twice. Nobody can reset a password: if you lose it, you lose the file.',
  args: {
    file: fileArg,
    password: passwordArg,
    ...newPasswordFlags,
    ...destinationFlags,
    fips: { type: 'boolean', description: 'Only algorithms that FIPS approves: PBKDF2 instead of scrypt' },
  },
  service: true,
  examples: [
    { command: 'sealpin encrypt letter.pdf', does: 'Ask for a password, print the blob ID' },
    { command: 'tar -c photos | sealpin encrypt - --password-file pass.txt', does: 'From a pipe' },
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
