/** The flags of a share: who may open it, how often and how long, and how its link is shown. */
import type { Shared } from '../../client/sharing.ts';
import { SealpinError } from '../../shared/errors.ts';
import { toggle, valueFlag, type Args, type Values } from '../command.ts';
import { newPasswordFlags, expiryForms, parseExpiry } from './args.ts';
import type { Context } from '../context.ts';
import { newPassword } from '../keys/passwords.ts';
import { readTo, toFlag } from './to-flag.ts';
import { ownSigner } from '../keys/signers.ts';
import { readProfiles } from '../remote/profiles.ts';
import type { Service } from '../remote/service-choice.ts';
import { columnsOf } from '../terminal/streams.ts';

export const shareFlags = {
  ...toFlag,
  expires: valueFlag('when', `Until when it opens: ${expiryForms}; 7d if left out`),
  opens: valueFlag('number', 'How often it opens (5)'),
  password: toggle('Ask for a password, which the receiver needs, too'),
  ...newPasswordFlags,
  note: valueFlag('text', 'A few words to the receiver'),
  from: valueFlag('name', 'Your name, for the receiver'),
  sign: toggle('Sign it with private.key: the receiver sees whose key it was'),
  qr: toggle('Also show the link as a QR code'),
} as const satisfies Args;

type ShareFlagValues = Values<typeof shareFlags>;

/** Terms that a share is created with. */
export type ShareTerms = Readonly<Awaited<ReturnType<typeof readShareTerms>>>;

/**
 * Reads the flags; asks for the password last.
 * @param stdinTaken whether standard input is a file that is sent
 * @param service whose profile may say that all is signed
 * @param made the context of what is made: where the environment has a password for something else
 * @throws usage, the codes of `readRecipients` and `newPassword`
 */
export async function readShareTerms(
  args: ShareFlagValues,
  stdinTaken: boolean,
  { profile }: Pick<Service, 'profile'>,
  context: Context,
  made = context,
) {
  const { note, from } = args;
  const wantsPassword = args.password || args.generate || args['password-file'] !== undefined;
  if (wantsPassword && args.to !== undefined)
    throw new SealpinError('usage', 'a password and --to are given: a share opens with one or the other', {
      hint: 'leave one of them out',
    });
  const { opens, expiresAt } = readLife(args, context.now());
  const recipients = args.to === undefined ? [] : await readTo(args.to, context);
  const password = wantsPassword ? await newPassword({ ...args, stdinTaken }, 'link', made) : undefined;
  return { recipients, password, expiresAt, opens, note, from, signer: await signerFor(args.sign, profile, context) };
}

/** Returns what signs, where the flag or the profile says so. @throws the codes of `ownSigner` */
export async function signerFor(isAsked: boolean, profile: string | undefined, context: Context) {
  const signs = profile !== undefined && (await readProfiles(context)).profiles.get(profile)?.sign === true;
  return isAsked || signs ? ownSigner(context) : undefined;
}

/** Reads how often and how long a share opens. @throws usage */
export function readLife({ opens: times, expires }: Pick<ShareFlagValues, 'opens' | 'expires'>, nowMs: number) {
  const opens = times === undefined ? undefined : Number(times);
  if (opens !== undefined && !(Number.isSafeInteger(opens) && opens > 0))
    throw new SealpinError('usage', '--opens must be 1 or more');
  return { opens, expiresAt: parseExpiry(expires, nowMs) };
}

/** What to do about a refusal of how often and how long a share opens. */
export const lifeHint = 'change --opens or --expires';

/** Prints the link, and what to do with it. @param o.what was shared: `2 files (1.2 MiB)` */
export async function showShare(
  { link, share }: Shared,
  o: { readonly what: string; readonly terms: ShareTerms; readonly service: Service; readonly qr: boolean },
  { output, stderr, env }: Context,
): Promise<void> {
  const { terms, service } = o;
  const until = share.expiresAt.slice(0, 16).replace('T', ' ');
  output.note(`${o.what}: the link opens ${share.opens === 1 ? 'once' : `${share.opens} times`}, until ${until} UTC`);
  if (terms.password !== undefined)
    output.note('it needs the password, too: tell it through another channel than the link');
  else if (terms.recipients.length > 0) output.note("it also needs a recipient's private key");
  else output.note('anyone with the link can open it: give it only to those it is for');
  output.note(`take it back with: sealpin unshare ${share.id}`);
  if (service.local)
    output.note('it leads to the service on this computer: others cannot open it, and nobody while it is stopped');
  if (o.qr && !output.json) {
    const { qrLines } = await import('../terminal/qr.ts');
    const isColoured = stderr.isTTY === true && env['TERM'] !== 'dumb';
    const { columns, lines } = qrLines(link, isColoured);
    if (stderr.isTTY === true && columns > columnsOf(stderr))
      output.warn(
        `there is no QR code: it is ${columns} columns wide, and the terminal ${columnsOf(stderr)}; a wider window ` +
          'or a smaller font has room for it',
      );
    else for (const line of lines) stderr.write(`${line}\n`);
  }
  await output.result({ link, share }, [link]);
}
