import { SealpinError } from '../../shared/errors.ts';
import type { PasswordKdf } from '../../shared/crypto/index.ts';
import { defineCommand, toggle } from '../command.ts';
import { encryptToKeys, encryptWithPassword, oneFile } from '../files/seal.ts';
import { destinationFlags, fileArg, mixFlag, newPasswordFlags, passwordArg } from '../flags/args.ts';
import { namesIn, toFlag } from '../flags/to-flag.ts';

export const command = defineCommand({
  about:
    'Encrypts on this machine and prints the blob ID, or with --output writes the encrypted file. The service learns ' +
    'neither the password nor the name. With --to, those who are named open the file with their private keys. Else ' +
    'it gets a password: without one on the command line, in a file or in SEALPIN_PASSWORD, you are asked for it ' +
    'twice. Nobody can reset a password: if you lose it, you lose the file.',
  args: {
    file: fileArg,
    password: passwordArg,
    to: {
      ...toFlag.to,
      description:
        'For these contacts, key files or recipients instead of a password: with commas between them, or --to ' +
        'again; makes an age file',
    },
    age: toggle('Make an age file, which every age tool opens with the password'),
    ...newPasswordFlags,
    ...destinationFlags,
    ...mixFlag,
    fips: toggle('Only algorithms that FIPS approves: PBKDF2 instead of scrypt'),
  },
  surplus: oneFile,
  service: true,
  examples: [
    { command: 'sealpin encrypt letter.pdf', does: 'Ask for a password, print the blob ID' },
    { command: 'sealpin encrypt letter.pdf --to ann,ben', does: 'For two contacts' },
    { command: "sealpin encrypt photos --exclude '*.tmp'", does: 'A folder; sealpin decrypt --extract gets it back' },
    { command: 'sealpin encrypt photos --output photos.sealpin', does: 'Into a file instead of a service' },
    { command: 'pg_dump mail | sealpin encrypt - --name mail.sql --password-file pass.txt', does: 'From a pipe' },
    { command: 'sealpin encrypt letter.pdf --generate', does: 'With a password of ten words, shown once' },
  ],
  async run({ args, context }) {
    const { to, age, mix, fips } = args;
    if (to !== undefined) {
      refuseBeside('--to', ['password', 'password-file', 'generate', 'fips'], args);
      return await encryptToKeys({ args, mix, names: namesIn(to), context });
    }
    if (mix) throw new SealpinError('usage', '--mix goes with --to', { hint: 'leave it out, or name the keys' });
    if (age) refuseBeside('--age', ['fips'], args);
    const derivation: PasswordKdf = fips ? { name: 'pbkdf2-sha512' } : { name: 'scrypt', logN: context.scryptLogN };
    return await encryptWithPassword({ args, format: age ? 'age' : 'sealpin', derivation, context });
  },
});

/** Refuses arguments that would have no effect beside a flag. @throws usage */
function refuseBeside(flag: string, names: readonly string[], args: Readonly<Record<string, unknown>>): void {
  const found = names.find((name) => args[name] !== undefined && args[name] !== false);
  if (found === undefined) return;
  const shown = found === 'password' ? 'a password' : `--${found}`;
  throw new SealpinError('usage', `${shown} does not go with ${flag}`, { hint: 'leave one of them out' });
}
