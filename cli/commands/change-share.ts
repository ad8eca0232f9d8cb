import { changeShare } from '../../client/sharing.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, valueFlag } from '../command.ts';
import { ownShare, unknownShare } from '../files/own-link.ts';
import { readLife } from '../flags/share-terms.ts';
import { expiryForms } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'The link stays the same. A share that has ended stays ended. The days that a service allows ' +
    'count from when the share was made.',
  args: {
    id: positional('The ID of the share (see: sealpin shares), or its link'),
    expires: valueFlag('when', `Until when it opens: ${expiryForms}`),
    opens: valueFlag('number', 'How often it opens in all, with the times that it was opened already'),
  },
  service: true,
  examples: [
    { command: 'sealpin shares change 7n42DGM5Tflk9n8mt7Fhc7 --expires 14d', does: 'Let a link open for longer' },
  ],
  async run({ args, context }) {
    const terms = readLife(args, context.now());
    const { opens, expiresAt } = terms;
    if (opens === undefined && expiresAt === undefined)
      throw new SealpinError('usage', 'nothing is to be changed', { hint: 'give --expires, --opens or both' });
    const { id, http } = await ownShare(args.id, 'changed', context);
    const share = await changeShare(http, id, { ...terms, signal: context.signal }).catch(unknownShare);
    const { output } = context;
    const until = share.expiresAt.slice(0, 16).replace('T', ' ');
    const left = share.opensLeft === 1 ? 'once more' : `${share.opensLeft} more times`;
    output.note(
      share.state === 'active'
        ? `changed ${id}: the link opens ${left}, until ${until} UTC`
        : `changed ${id}: the link does not open any more`,
    );
    if (expiresAt !== undefined && Date.parse(share.expiresAt) < Date.parse(expiresAt))
      output.note('it ends with the first of its files that expires');
    await output.result(share, []);
  },
});
