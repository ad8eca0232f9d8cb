import { passwordRecipient } from '../../shared/crypto/index.ts';
import { defineCommand } from '../command.ts';
import { encryptAndStore } from '../seal.ts';
import { newPassword, newPasswordArgs, refusePathAsPassword } from '../keys/passwords.ts';

export const command = defineCommand({
  name: 'encrypt',
  summary: 'Encrypt a file with a password (AES-256-GCM), store it and print its blob ID',
  about:
    'The file is encrypted on this machine; the service gets neither the password nor the name of the file. Without a password on the command line, in a file or in SEALPIN_PASSWORD, it is asked for twice. Nobody can reset a password: who loses it loses the file.',
  args: {
    file: { type: 'positional', description: 'The file, or - for standard input' },
    password: {
      type: 'positional',
      required: false,
      description: 'The password. Others on this machine may see it: rather use one of the other ways',
    },
    ...newPasswordArgs,
    fips: { type: 'boolean', description: 'Only algorithms that FIPS approves: PBKDF2 in the place of scrypt' },
  },
  service: true,
  examples: [
    { command: 'sealpin encrypt letter.pdf', does: 'Ask for a password, print the blob ID' },
    { command: 'tar -c photos | sealpin encrypt - --password-file pass.txt', does: 'What comes from a pipe' },
    { command: 'sealpin encrypt letter.pdf --generate', does: 'With a password of ten words, shown once' },
  ],
  async run({ args, context }) {
    await refusePathAsPassword(args.password, 'sealpin encrypts one file at a time', context);
    await encryptAndStore({
      file: args.file,
      format: 'sealpin',
      context,
      async recipients() {
        const password = await newPassword(
          { argument: args.password, file: args['password-file'], stdinTaken: args.file === '-' },
          args.generate,
          context,
        );
        return [
          passwordRecipient(
            password,
            args.fips ? { name: 'pbkdf2-sha512' } : { name: 'scrypt', logN: context.scryptLogN },
          ),
        ];
      },
    });
  },
});
