import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, toggle, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { handOverFiles, sendFiles } from '../files/send-files.ts';
import { filterFlags } from '../flags/args.ts';
import { readShareTerms, shareFlags, showShare } from '../flags/share-terms.ts';
import { countText, sizeText } from '../terminal/size.ts';

export const command = defineCommand({
  about:
    'Prints a link. The files are encrypted on this machine, each under a key of its own; the service cannot read ' +
    'them, nor their names and the note. The link opens in a browser, and with sealpin receive, without an account. ' +
    'A folder is sent as a tar archive, of which sealpin receive --extract makes the folder again. With --inbox the ' +
    'files go to the owner of an inbox instead, who alone can open them, and you need no account. When an upload in ' +
    'parts breaks off, the same command continues it.',
  args: {
    file: positional('A file or folder, or - for standard input', { path: true }),
    inbox: valueFlag('link', 'Hand the files over to this inbox; prints no link'),
    ...shareFlags,
    name: valueFlag('name', 'What the receiver gets standard input as'),
    unnamed: toggle('Keep the names on this machine only; else the service keeps them, sealed to your public.key'),
    ...filterFlags,
  },
  rest: 'file',
  service: true,
  examples: [
    { command: 'sealpin send letter.pdf', does: 'Print a link' },
    { command: 'sealpin send plans.tif notes.txt --opens 1 --expires 2d', does: 'Two files, to be opened once' },
    { command: 'sealpin send letter.pdf --to ann', does: 'For the contact Ann only' },
    { command: 'sealpin send letter.pdf --generate --qr', does: 'With a password, and a QR code for a phone' },
    { command: "sealpin send receipts.pdf --inbox 'https://…/drop#sp_…'", does: 'Into the inbox of somebody else' },
  ],
  async run({ args, rest, context }) {
    const paths = [args.file, ...rest];
    const stdin = paths.filter((path) => path === '-').length;
    if (stdin > 1) throw new SealpinError('usage', 'standard input is given more than once');
    if (args.name !== undefined && stdin === 0)
      throw new SealpinError('usage', '--name is for standard input', { hint: 'a file is sent under its own name' });
    const outgoing = { paths, name: args.name, unnamed: args.unnamed, filter: args };
    const what = (bytes: number): string => `${countText(paths.length, 'file')} (${sizeText(bytes)})`;
    if (args.inbox !== undefined) {
      refuseTerms(args, context);
      const { note, from, sign, inbox: link } = args;
      const { files, bytes } = await handOverFiles(outgoing, { link, note, from, sign }, context);
      context.output.note(
        `handed over ${what(bytes)}: only the owner of the inbox can open ${paths.length === 1 ? 'it' : 'them'}`,
      );
      await context.output.result({ files }, []);
      return;
    }
    const sent = await sendFiles(outgoing, (service) => readShareTerms(args, stdin > 0, service, context), context);
    await showShare(sent, { ...sent, what: `sent ${what(sent.bytes)}`, qr: args.qr }, context);
  },
});

/** The owner of an inbox has decided where files go, and who opens them how often. */
function refuseTerms(args: Readonly<Record<string, unknown>>, { service, profile }: Context): void {
  const given: Readonly<Record<string, unknown>> = { ...args, service, profile };
  const ofShare = ['to', 'expires', 'opens', 'password', 'password-file', 'generate', 'qr'];
  const found = [...ofShare, 'unnamed', 'service', 'profile'].find(
    (name) => given[name] !== undefined && given[name] !== false,
  );
  if (found === undefined) return;
  const detail = `--${found} has no effect with --inbox: only the owner of the inbox opens the files`;
  throw new SealpinError('usage', detail, { hint: 'leave one of them out' });
}
