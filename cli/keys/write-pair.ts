/** Making a key pair, and writing its two files. */
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  generateKeyPair,
  generatePostQuantumKeyPair,
  keyPairOf,
  parcelSigner,
  postQuantumKeyPairOf,
  signerComment,
} from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { failWrite } from '../errno.ts';
import { openSink } from '../io/output-file.ts';
import { syncDirectory } from '../io/unfinished.ts';
import { failDataDirectory, intoDirectory, makeDataDirectory } from '../io/paths.ts';
import { isNarrow } from '../terminal/fitted-row.ts';
import { columnsOf } from '../terminal/streams.ts';
import { wordsOf } from './backup-words.ts';
import { fingerprint } from './fingerprint.ts';
import { protect } from './key-files.ts';
import { newPassword } from './passwords.ts';

type PairArgs = Parameters<typeof newPassword>[0] & { readonly output: string | undefined; readonly protect: boolean };

/** A pair: its 32 secret bytes, and the texts of its files. */
export type Pair = Readonly<Awaited<ReturnType<typeof makePair>>>;

/**
 * A new pair, or that of 32 secret bytes.
 * @throws random_failed; key_invalid for bytes that are no P-256 key
 */
export async function makePair(isPostQuantum: boolean, secret?: Uint8Array) {
  const { nodeProvider } = await import('./node-provider.ts');
  if (isPostQuantum) {
    const pair =
      secret === undefined
        ? await generatePostQuantumKeyPair(nodeProvider)
        : postQuantumKeyPairOf(secret, nodeProvider);
    return { ...pair, secret: pair.seed };
  }
  const pair = secret === undefined ? await generateKeyPair(nodeProvider) : keyPairOf(secret, nodeProvider);
  return { secret: pair.secret, privateText: pair.privatePem, publicText: pair.publicPem, recipient: pair.recipient };
}

/** The directory of a pair: `--output`, else the data directory. */
export function pairDirectory(output: string | undefined, context: Context): string {
  return output === undefined ? context.dataDir : resolve(context.cwd, output);
}

/**
 * Writes `private.key` and `public.key`, and says what they are for. Both are on the disk before
 * either has its name. What a kill leaves is a pair, or a `private.key` alone, of which `key
 * rotate` makes one.
 * @param o.force replaces files that are there
 * @param o.make called once the files can be written; `older` is the text of keys that
 * `private.key` goes on to hold
 * @param o.words `show` its backup words; `known`: it was made from them
 * @throws usage for a password without --protect, file_exists, file_unwritable, and the codes of
 * `newPassword` and `make`
 */
export async function writePair(
  args: PairArgs,
  o: {
    readonly force: boolean;
    readonly words: 'show' | 'known' | 'none';
    readonly make: () => Promise<{ readonly pair: Pair; readonly older?: string }>;
  },
  context: Context,
): Promise<{ readonly recipient: string }> {
  if (!args.protect && (args.generate || args['password-file'] !== undefined))
    throw new SealpinError('usage', 'a password for the key is given without --protect', { hint: 'add --protect' });
  const directory = pairDirectory(args.output, context);
  const isOwn = args.output === undefined;
  return intoDirectory(directory, (isOwn ? failDataDirectory : failWrite)(directory), async () => {
    const warning = isOwn ? await makeDataDirectory(directory) : undefined;
    if (warning !== undefined) context.output.warn(warning);
    return await writeBoth(directory, args, o, context);
  });
}

async function writeBoth(directory: string, ...[args, o, context]: Parameters<typeof writePair>) {
  const { output } = context;
  const options = { force: o.force, environment: context, fileOnly: true };
  const publicPath = join(directory, 'public.key');
  const secret = await openSink(join(directory, 'private.key'), options);
  const open = await openSink(publicPath, { ...options, mode: 0o644 });
  try {
    const { pair, older } = await o.make();
    const password = args.protect ? await newPassword(args, 'key', context) : undefined;
    const text = older === undefined ? pair.privateText : `${pair.privateText}\n${older}`;
    await secret.write(await protect(text, password, context));
    const signer = parcelSigner(pair.secret).text;
    await open.write(new TextEncoder().encode(`${signerComment}${signer}\n${pair.publicText}`));
    await secret.settle();
    await open.settle();
    // Nobody encrypts to a key whose private half is gone; the older keys go on to open.
    if (o.force && older === undefined) {
      await rm(publicPath, { force: true });
      await syncDirectory(directory);
    }
    const privateKey = await secret.commit();
    const publicKey = await open.commit();
    const words = await fingerprint(pair.recipient);
    const only = o.words === 'none' || older !== undefined ? ': it cannot be recreated' : '';
    output.note(`wrote ${secret.name} (keep it secret and back it up${only})`);
    output.note(`wrote ${open.name} (share it with people who will send you files)`);
    // Both are compared: nothing ties the comment of a public.key to the key below it.
    output.note(`its fingerprint is ${words}; it signs as ${await fingerprint(signer)}`);
    const opens = older === undefined ? 'open what the key opens' : 'hold the new key alone: keep those of older keys';
    if (o.words === 'show') await showWords(pair.secret, opens, context);
    await output.result({ recipient: pair.recipient, fingerprint: words, signer, privateKey, publicKey }, [
      pair.recipient,
    ]);
    return pair;
  } finally {
    await secret.abort();
    await open.abort();
  }
}

async function showWords(secret: Uint8Array, what: string, { output, stderr }: Context): Promise<void> {
  const wordsInLine = isNarrow(columnsOf(stderr)) ? 2 : 4;
  const words = (await wordsOf(secret)).map((word, index) => `${String(index + 1).padStart(2)} ${word.padEnd(8)}`);
  output.note(`backup words, for paper: they are shown only this once, and ${what}`);
  for (let at = 0; at < words.length; at += wordsInLine) {
    const line = words.slice(at, at + wordsInLine).join('  ');
    output.secret(line.trimEnd());
  }
}
