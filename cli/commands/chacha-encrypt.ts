import { passwordRecipient } from '../../shared/crypto/index.ts';
import { defineCommand } from '../command.ts';
import { encryptAndStore } from '../seal.ts';
import { newPassword, newPasswordArgs, refusePathAsPassword } from '../keys/passwords.ts';

export const command = defineCommand({
  name: 'chacha-encrypt',
  summary: 'Encrypt a file with a password (ChaCha20-Poly1305), store it and print its blob ID',
  about: 'What is stored is an age file, which every age tool opens with the password. Otherwise as sealpin encrypt.',
  args: {
    file: { type: 'positional', description: 'The file, or - for standard input' },
    password: {
      type: 'positional',
      required: false,
      description: 'The password. Others on this machine may see it: rather use one of the other ways',
    },
    ...newPasswordArgs,
  },
  service: true,
  examples: [
    { command: 'sealpin chacha-encrypt letter.pdf', does: 'Ask for a password, print the blob ID' },
    {
      command: 'SEALPIN_PASSWORD=$(pass show letters) sealpin chacha-encrypt letter.pdf',
      does: 'With a password from a password manager',
    },
  ],
  async run({ args, context }) {
    await refusePathAsPassword(args.password, 'sealpin encrypts one file at a time', context);
    await encryptAndStore({
      file: args.file,
      format: 'age',
      context,
      async recipients() {
        const password = await newPassword(
          { argument: args.password, file: args['password-file'], stdinTaken: args.file === '-' },
          args.generate,
          context,
        );
        return [passwordRecipient(password, { name: 'scrypt', logN: context.scryptLogN })];
      },
    });
  },
});
