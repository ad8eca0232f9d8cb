import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { sendFiles } from '../send-files.ts';
import { readShareTerms, shareFlags, showShare, type ShareTerms } from '../share-terms.ts';
import { sizeText } from '../terminal/progress.ts';

export const command = defineCommand({
  about:
    'Prints a link. The files are encrypted on this machine, each under a key of its own; the service cannot read ' +
    'them, nor their names and the note. The link opens in a browser, and with sealpin receive, without an account. ' +
    'A folder is sent as a tar archive.',
  args: {
    file: { type: 'positional', description: 'A file or folder, or - for standard input' },
    ...shareFlags,
    name: { type: 'string', valueHint: 'name', description: 'What the receiver gets standard input as' },
  },
  rest: 'file',
  service: true,
  examples: [
    { command: 'sealpin send letter.pdf', does: 'Print a link' },
    { command: 'sealpin send plans.tif notes.txt --opens 1 --expires 2d', does: 'Two files, to be opened once' },
    { command: 'sealpin send letter.pdf --to ann', does: 'For the contact Ann only' },
    { command: 'sealpin send letter.pdf --generate --qr', does: 'With a password, and a QR code for a phone' },
  ],
  async run({ args, rest, context }) {
    const paths = [args.file, ...rest];
    const stdin = paths.filter((path) => path === '-').length;
    if (stdin > 1) throw new SealpinError('usage', 'standard input is given more than once');
    if (args.name !== undefined && stdin === 0)
      throw new SealpinError('usage', '--name is for standard input', { hint: 'a file is sent under its own name' });
    let terms: ShareTerms | undefined;
    const sent = await sendFiles(
      paths,
      { name: args.name },
      async () => (terms = await readShareTerms(args, stdin > 0, context)),
      context,
    );
    if (terms === undefined) throw new TypeError('nothing was sent');
    const what = `sent ${paths.length === 1 ? '1 file' : `${paths.length} files`} (${sizeText(sent.bytes)})`;
    await showShare(sent, { what, terms, service: sent.service, qr: args.qr }, context);
  },
});
