import { defineCommand, positional, valueFlag } from '../command.ts';
import { refuseBoth, withoutGivenPassword } from '../keys/passwords.ts';
import { makeShare } from '../files/send-files.ts';
import { readShareTerms, shareFlags, showShare } from '../flags/share-terms.ts';
import { storedFileOf } from '../files/stored-file.ts';
import { authorizedService } from '../remote/client.ts';
import { keyFlag } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Prints a link to a file that is stored already: nothing is uploaded. For a blob that was encrypted on a ' +
    'machine, its password is asked for, or private.key is used; the link then carries what opens this one file. For ' +
    'a file that the service encrypted, the API key needs the scope read.',
  args: {
    id: positional('Its blob ID or file ID (see: sealpin list)', { completes: 'blob' }),
    ...shareFlags,
    ...keyFlag,
    name: valueFlag('name', 'What the receiver gets it as, if not under its own name'),
  },
  service: true,
  examples: [
    { command: 'sealpin share bafkrei…', does: 'A blob that was stored from here' },
    { command: 'sealpin share 0b6f7c1e-… --opens 1', does: 'A file that the service encrypted, to be opened once' },
  ],
  async run({ args, context }) {
    refuseBoth(args);
    const service = await authorizedService(context);
    const { file, fileIds } = await storedFileOf(args.id, { name: args.name, key: args.key }, service, context);
    const terms = await readShareTerms(args, false, service, context, withoutGivenPassword(context));
    const about = { parcel: { files: [file], note: terms.note, from: terms.from }, files: fileIds };
    const shared = await makeShare(about, terms, service, context);
    await showShare(shared, { what: `shared ${file.name}`, terms, service, qr: args.qr }, context);
  },
});
