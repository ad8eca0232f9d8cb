import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { readRecipients } from '../keys/key-files.ts';
import { encryptAndStore } from '../seal.ts';

export const command = defineCommand({
  name: 'ecc-encrypt',
  summary: 'Encrypt a file to public keys, store it and print its blob ID',
  about:
    'Each of the private keys opens it. What is stored is an age file. A public key file is public.key of sealpin keygen, an SPKI PEM of OpenSSL (P-256), or lines with age recipients (age1…, age1tag1…, age1tagpq1…, age1pq1…); a recipient can also be given itself in the place of a file.',
  args: {
    file: { type: 'positional', description: 'The file, or - for standard input' },
    public_key_file: { type: 'positional', description: 'Whom to encrypt to; add your own if you want to open it too' },
    mix: {
      type: 'boolean',
      description: 'Let post-quantum keys and others open the same file: then the weakest decides',
    },
  },
  rest: 'public_key_file',
  service: true,
  examples: [
    { command: 'sealpin ecc-encrypt letter.pdf bob/public.key', does: 'For Bob' },
    { command: 'sealpin ecc-encrypt letter.pdf alice.key bob.key age1tag1…', does: 'For three people' },
  ],
  async run({ args, rest, context }) {
    const files = [args.public_key_file, ...rest];
    if (args.file === '-' && files.includes('-'))
      throw new SealpinError('usage', 'standard input cannot be both the file and a key');
    await encryptAndStore({
      file: args.file,
      format: 'age',
      mix: args.mix,
      context,
      recipients: async () => readRecipients(files, context),
    });
  },
});
