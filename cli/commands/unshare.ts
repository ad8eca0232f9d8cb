import { revokeShare } from '../../client/sharing.ts';
import { defineCommand, positional } from '../command.ts';
import { ownShare, unknownShare } from '../files/own-link.ts';
import { countText } from '../terminal/size.ts';

export const command = defineCommand({
  about:
    'The link stops working at once. Who opened it before may have kept what it led to. The files stay stored: ' +
    'sealpin delete removes them, which also takes back every link to them.',
  args: { id: positional('The ID of the share (see: sealpin shares), or its link') },
  service: true,
  examples: [{ command: 'sealpin unshare 7n42DGM5Tflk9n8mt7Fhc7', does: 'Take a link back' }],
  async run({ args, context }) {
    const { output, signal } = context;
    const { id, http } = await ownShare(args.id, 'taken back', context);
    const receipt = await revokeShare(http, id, signal).catch(unknownShare);
    const { opened, record, recoverableUntil, backups } = receipt;
    output.note(
      record === 'destroyed'
        ? `took back ${id}: ${openedText(opened ?? 0)}`
        : `took back ${id}: its record could not be reached yet, and is destroyed as soon as it can`,
    );
    if (receipt.files !== undefined)
      output.note(`deleted what was stored for it: ${countText(receipt.files.length, 'file')}`);
    if (recoverableUntil !== undefined)
      output.note(`the operator could restore the record until ${recoverableUntil.slice(0, 10)}`);
    if (backups !== undefined) output.note('the operator has backups, and does not say for how long');
    await output.result(receipt, []);
  },
});

function openedText(times: number): string {
  if (times === 0) return 'nobody had opened it';
  return `it had been opened ${times === 1 ? 'once' : `${times} times`}`;
}
