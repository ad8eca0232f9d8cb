import { defineCommand, positional } from '../command.ts';
import { encryptToKeys } from '../files/seal.ts';
import { destinationFlags, fileArg, mixFlag } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Prints the blob ID. Each of the private keys opens the file. The stored blob is an age file. A ' +
    'public key file is public.key from sealpin keygen, an SPKI PEM from OpenSSL (P-256), or lines ' +
    'with age recipients (age1…, age1tag1…, age1tagpq1…, age1pq1…). You can also name a recipient ' +
    'itself, or a contact (see: sealpin contact add).',
  args: {
    file: fileArg,
    public_key_file: positional('The public key, or a contact; add your own if you want to open it, too', {
      completes: 'contact',
      path: true,
    }),
    ...destinationFlags,
    ...mixFlag,
  },
  rest: 'public_key_file',
  service: true,
  examples: [
    { command: 'sealpin ecc-encrypt letter.pdf bob/public.key', does: 'For Bob' },
    { command: 'sealpin ecc-encrypt photos ann ben --output photos.age', does: 'A folder for two contacts, as a file' },
    { command: 'sealpin ecc-encrypt letter.pdf alice.key bob.key age1tag1…', does: 'For three people' },
  ],
  async run({ args, rest, context }) {
    await encryptToKeys({ args, mix: args.mix, names: [args.public_key_file, ...rest], context });
  },
});
