import { defineCommand } from '../command.ts';
import { encryptWithPassword, oneFile } from '../files/seal.ts';
import { destinationFlags, fileArg, newPasswordFlags, passwordArg } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Prints the blob ID. The stored blob is an age file, which every age tool opens with the password. Otherwise ' +
    'as sealpin encrypt.',
  args: { file: fileArg, password: passwordArg, ...newPasswordFlags, ...destinationFlags },
  surplus: oneFile,
  service: true,
  examples: [
    { command: 'sealpin chacha-encrypt letter.pdf', does: 'Ask for a password, print the blob ID' },
    {
      command: 'SEALPIN_PASSWORD=$(pass show letters) sealpin chacha-encrypt letter.pdf',
      does: 'With a password from a password manager',
    },
  ],
  async run({ args, context }) {
    const derivation = { name: 'scrypt', logN: context.scryptLogN } as const;
    await encryptWithPassword({ args, format: 'age', derivation, context });
  },
});
