import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { generateKeyPair, generatePostQuantumKeyPair, type PostQuantumKeyPair } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { writeFailure } from '../io/errno.ts';
import { openSink } from '../io/output-file.ts';
import { fingerprint } from '../keys/fingerprint.ts';
import { protect } from '../keys/key-files.ts';
import { makeDataDirectory, makeDirectories } from '../io/paths.ts';
import { newPassword } from '../keys/passwords.ts';
import { confirm } from '../terminal/confirm.ts';
import { newPasswordFlags, yesArg } from './args.ts';

export const command = defineCommand({
  about:
    'private.key decrypts; public.key is what others encrypt to. The pair (P-256) goes into the data directory, ' +
    'where decrypt and ecc-decrypt find it, or into the directory named by --output. The recipient (age1tag1…), a ' +
    'short form of public.key, is printed. Back up private.key: there is no other copy, and without it the files ' +
    'encrypted to it cannot be opened.',
  args: {
    output: { type: 'string', valueHint: 'dir', description: 'Put the pair into this directory' },
    'post-quantum': {
      type: 'boolean',
      description: 'Create a pair that also resists quantum computers (age1tagpq1…)',
    },
    protect: { type: 'boolean', description: 'Protect private.key with a password, which you enter twice' },
    ...newPasswordFlags,
    force: { type: 'boolean', description: 'Replace an existing pair. Files that only the old pair opens are lost' },
    yes: yesArg,
  },
  examples: [
    { command: 'sealpin keygen', does: 'A pair for yourself' },
    { command: 'sealpin keygen --protect', does: 'With a password on private.key' },
    { command: 'sealpin keygen --post-quantum', does: 'Resists future quantum computers' },
    { command: 'sealpin keygen --output ./alice', does: 'Another pair, in a directory of its own' },
  ],
  async run({ args, context }) {
    const { output } = context;
    if (!args.protect && (args.generate || args['password-file'] !== undefined))
      throw new SealpinError('usage', 'a password for the key is given without --protect', { hint: 'add --protect' });
    const directory = args.output === undefined ? context.dataDir : resolve(context.cwd, args.output);
    if (args.output === undefined) {
      const warning = await makeDataDirectory(directory);
      if (warning !== undefined) output.warn(warning);
    } else {
      await makeDirectories(directory).catch((error: unknown) => {
        throw writeFailure(directory, error);
      });
    }
    const options = { force: args.force, environment: context, fileOnly: true };
    const secret = await openSink(join(directory, 'private.key'), options);
    const open = await openSink(join(directory, 'public.key'), { ...options, mode: 0o644 });
    try {
      if (args.force && existsSync(join(directory, 'private.key')))
        await confirm(`Replace ${secret.name}: what only it opens is lost`, args.yes, context);
      const password = args.protect
        ? await newPassword(
            { argument: undefined, file: args['password-file'], stdinTaken: false },
            args.generate,
            context,
          )
        : undefined;
      const pair = await newPair(args['post-quantum']);
      const encoder = new TextEncoder();
      await secret.write(
        password === undefined ? encoder.encode(pair.privateText) : await protect(pair.privateText, password, context),
      );
      await open.write(encoder.encode(pair.publicText));
      const privateKey = await secret.commit();
      const publicKey = await open.commit();
      output.note(`wrote ${secret.name} (keep it secret and back it up: it cannot be recreated)`);
      output.note(`wrote ${open.name} (share it with people who will send you files)`);
      const words = await fingerprint(pair.recipient);
      output.note(`its fingerprint is ${words}`);
      await output.result({ recipient: pair.recipient, fingerprint: words, privateKey, publicKey }, [pair.recipient]);
    } finally {
      await secret.abort();
      await open.abort();
    }
  },
});

async function newPair(isPostQuantum: boolean): Promise<PostQuantumKeyPair> {
  if (isPostQuantum) return generatePostQuantumKeyPair(nodeBackend);
  const { privatePem, publicPem, recipient } = await generateKeyPair(nodeBackend);
  return { privateText: privatePem, publicText: publicPem, recipient };
}
