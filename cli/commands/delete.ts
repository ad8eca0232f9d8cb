import type { Receipt } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { parseBlobId } from '../blob.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { remember } from '../history.ts';
import { type Api, api, authorizedService } from '../service.ts';

const fileIdPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export const command = defineCommand({
  name: 'delete',
  summary: 'Delete a file from the service, and say what that does and what it does not',
  about:
    'By blob ID (every file of the account with these bytes) or by file ID. For a file that the service encrypted, its key is destroyed. A blob of this command line carries its own header: it is unpinned, and copies that others hold stay, readable for whoever has the password or key.',
  args: {
    id: { type: 'positional', description: 'The blob ID or the file ID' },
  },
  service: true,
  examples: [
    { command: 'sealpin delete bafkrei…', does: 'By blob ID' },
    { command: 'sealpin delete 6f1c… --json', does: 'By file ID, with the receipt as JSON' },
  ],
  async run({ args, context }) {
    const { output } = context;
    const isFileId = fileIdPattern.test(args.id);
    const cid = isFileId ? undefined : parseBlobId(args.id);
    const service = await authorizedService(context);
    const routes = api(service, context);
    const fileIds = cid === undefined ? [args.id] : await withBlob(cid, routes);
    if (fileIds.length === 0)
      throw new SealpinError('not_found', 'the account has no file with this blob ID', { hint: 'see: sealpin list' });
    const receipts: Receipt[] = [];
    for (const fileId of fileIds) {
      receipts.push(await routes.remove(fileId));
      await forget(fileId, context);
    }
    for (const receipt of receipts) for (const line of receiptText(receipt)) output.note(line);
    await output.result({ receipts }, []);
  },
});

async function withBlob(cid: string, routes: Api): Promise<string[]> {
  const fileIds: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await routes.list({ cid, cursor, limit: 100 });
    fileIds.push(...page.files.map(({ fileId }) => fileId));
    cursor = page.cursor;
  } while (cursor !== undefined);
  return fileIds;
}

async function forget(fileId: string, context: Context): Promise<void> {
  try {
    await remember(context.dataDir, { v: 1, deleted: fileId, at: new Date(context.now()).toISOString() });
  } catch (error) {
    if (!(error instanceof SealpinError)) throw error;
    // The file is deleted, and the receipt must come out.
    context.output.warn(`the history was not written: ${error.message}`);
  }
}

function receiptText(receipt: Receipt): string[] {
  const key = {
    destroyed: 'its key is destroyed: what is left of it opens no more',
    'in-container':
      'its key is in its header and went with the bytes: copies that others hold still open with the password or key',
    none: 'it was not encrypted, or carried its own header: copies that others hold stay as readable as they were',
  }[receipt.key];
  const pins = receipt.pins
    .map(({ service, status }) => `${service}: ${status === 'kept' ? 'kept, as others have pinned it there' : status}`)
    .join(', ');
  return [
    `deleted ${receipt.fileId}: ${key}`,
    `${pins === '' ? 'nothing was pinned' : `pins: ${pins}`}; whoever fetched the bytes before may keep them`,
    ...(receipt.recoverableUntil === undefined
      ? []
      : [`the platform itself could restore the key until ${receipt.recoverableUntil}`]),
  ];
}
