import type { Receipt } from '../../shared/api.ts';
import { parseBlobId } from '../fetch/fetch-blob.ts';
import { defineCommand, positional } from '../command.ts';
import { confirm } from '../terminal/confirm.ts';
import { yesArg } from '../flags/args.ts';
import type { Context } from '../context.ts';
import { recall, keepInHistory } from '../files/history.ts';
import { isFileId, parseFileId } from '../remote/file-id.ts';
import { api, authorizedService } from '../remote/client.ts';
import { filesWith } from '../remote/pages.ts';
import { countText } from '../terminal/size.ts';

export const command = defineCommand({
  about:
    'By blob ID (every file of the account with these bytes) or by file ID. By the ID of a delivery to an inbox, its ' +
    'files are deleted, too. If the service encrypted the file, its key is destroyed, and no copy can be opened any ' +
    'more. A blob that was encrypted with this command line carries its own header: it is unpinned, but anyone who ' +
    'already has a copy can still open it with the password or key.',
  args: { id: positional('The blob ID or the file ID', { completes: 'blob' }), yes: yesArg },
  service: true,
  interrupted: 'sealpin list shows which files are left',
  examples: [
    { command: 'sealpin delete bafkrei…', does: 'By blob ID' },
    { command: 'sealpin delete 6f1c… --json', does: 'By file ID, with the receipt as JSON' },
  ],
  async run({ args, context }) {
    const { output } = context;
    const cid = isFileId(args.id) ? undefined : parseBlobId(args.id, '; a file ID, such as 6f1c2d3e-…, works too');
    const service = await authorizedService(context);
    const routes = api(service, context);
    const fileIds = cid === undefined ? [parseFileId(args.id)] : await filesWith(cid, service, context);
    const names = await namesOf(context);
    await confirm(question(args.id, fileIds, names), args.yes, context);
    const receipts: Receipt[] = [];
    try {
      for (const fileId of fileIds) {
        const receipt = await routes.remove(fileId);
        receipts.push(receipt);
        const { name, blobId: id = cid ?? fileId } = names.get(fileId) ?? {};
        for (const line of receiptText(receipt, name === undefined ? id : `${name} (${id})`)) output.note(line);
        await keepInHistory({ deleted: fileId }, context);
      }
    } finally {
      // A receipt is given once.
      if (receipts.length > 0) await output.result({ receipts }, []);
    }
  },
});

/**
 * Returns the question for confirmation, with the name under which the file was stored from here.
 */
function question(id: string, fileIds: readonly string[], names: Awaited<ReturnType<typeof namesOf>>): string {
  const known = fileIds.flatMap((fileId) => names.get(fileId)?.name ?? [])[0];
  const several = fileIds.length > 1 ? `, ${fileIds.length} files with the same bytes` : '';
  return `Delete ${known === undefined ? id : `${known} (${id})`}${several}, for good`;
}

/** Names and blob IDs of the files that were stored from here, by file ID. */
async function namesOf(context: Context): Promise<Map<string, { name: string | undefined; blobId: string }>> {
  // They only make the receipt easier to read, so a failure does not matter.
  const { entries } = await recall(context.dataDir).catch(() => ({ entries: [] }));
  return new Map(
    entries.flatMap((entry) => ('cid' in entry ? [[entry.fileId, { name: entry.name, blobId: entry.cid }]] : [])),
  );
}

/** @param what the name of the deleted file, or its ID */
function receiptText(receipt: Receipt, what: string): string[] {
  const key = {
    destroyed: 'its key was destroyed; any remaining copy can no longer be opened',
    'in-container': 'anyone who already has a copy can still open it with the password or key',
    elsewhere: 'anyone who already has a copy, and the key, can still open it',
    none: 'anyone who already has a copy can still read it as before',
  }[receipt.key];
  const at = (status: Receipt['pins'][number]['status'], words: string): string[] => {
    const services = receipt.pins.flatMap((pin) => (pin.status === status ? pin.service : []));
    return services.length === 0 ? [] : [`${words}: ${services.join(', ')}`];
  };
  return [
    `deleted ${what}: ${key}`,
    ...(receipt.shares === undefined ? [] : [sharesText(receipt.shares)]),
    ...at('unpinned', 'unpinned at'),
    ...at('kept', 'still pinned by others at'),
    ...at('scheduled', 'will be unpinned at'),
    ...(receipt.recoverableUntil === undefined
      ? []
      : [`the operator could restore the key until ${receipt.recoverableUntil}`]),
    ...(receipt.backups === undefined ? [] : ['the operator has backups, and does not say for how long']),
  ];
}

/** @param shares that the deletion ended */
function sharesText(shares: NonNullable<Receipt['shares']>): string {
  const left = shares.filter(({ record }) => record === 'scheduled').length;
  const ended = `ended ${countText(shares.length, 'share')} of it`;
  return left === 0 ? ended : `${ended}; ${left} could not be reached and will be ended as soon as possible`;
}
