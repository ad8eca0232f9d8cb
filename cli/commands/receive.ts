import { join } from 'node:path';
import { defineCommand, positional, toggle } from '../command.ts';
import { givenPassword } from '../keys/passwords.ts';
import { endOpening } from '../files/begun-openings.ts';
import { openLink, readLink, receiveInto, receivingInto } from '../files/received-files.ts';
import { decryptTo, decryptWithKeys, openingOf } from '../files/unseal.ts';
import { keyFlag, passwordFlags, receiveExtractArg } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Needs no account and no API key. Put the link between quotes. Of a link that sealpin send printed, this counts ' +
    'as opening it. Each file appears when all of it is verified and authentic, or not at all. A name that is taken ' +
    'gets a number, and names with a meaning of their own are changed.',
  args: {
    link: positional('The link'),
    dir: positional('The directory to write to; this one if left out', { required: false, path: 'folder' }),
    ...passwordFlags,
    ...keyFlag,
    extract: receiveExtractArg,
    force: toggle('Replace files of the same name'),
  },
  interrupted: 'each file that it has written is complete; the same command writes the others, for the same opening',
  examples: [
    { command: "sealpin receive 'https://sealpin.example.com/s#1…'", does: 'Into the current directory' },
    { command: "sealpin receive 'https://sealpin.example.com/s#1…' plans", does: 'Into the directory plans' },
    { command: "sealpin receive 'https://sealpin.example.com/s#1…' --extract", does: 'A folder, as a folder' },
  ],
  async run({ args, context }) {
    const link = readLink(args.link, context);
    const directory = args.dir ?? '.';
    await receivingInto(directory, context, async () => {
      if (link.kind === 'blob' && link.fileKey === undefined) {
        const { cid: blob, service } = link;
        const placing = { blob, outputFile: join(directory, blob), force: args.force, extract: false };
        const to = { ...context, service };
        if (args.key !== undefined) return await decryptWithKeys(placing, { ...args, file: args.key }, to);
        const password = await givenPassword(args, context);
        return await decryptTo({ ...placing, ...openingOf({ blob, password }, context), context: to });
      }
      const password = await givenPassword(args, context);
      const opened = await openLink(link, { password, key: args.key }, context);
      const share = link.kind === 'share' ? link : undefined;
      await receiveInto(directory, opened, { ...args, service: link.service, share }, context);
      if (share !== undefined) await endOpening(share, context);
    });
  },
});
