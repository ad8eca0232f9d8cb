import type { StoredFile } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { parseBlobId } from '../fetch/fetch-blob.ts';
import { fileInHistory } from '../files/history.ts';
import { keepStored } from '../files/sealed-names.ts';
import { parseName } from '../io/safe-name.ts';
import { authorizedService, introduction, api, requireScopes } from '../remote/client.ts';
import { isFileId, parseFileId } from '../remote/file-id.ts';
import { filesWith } from '../remote/pages.ts';
import type { Service } from '../remote/service-choice.ts';
import { expiryForms, parseExpiry } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Of a file that was encrypted here, the service keeps the name sealed to your public.key, if at all. Of ' +
    'one that the service encrypted, it is sealed there. The bytes of a file never change. An end ' +
    'needs an API key with the scope delete, since the service deletes the file then.',
  args: {
    id: positional('The blob ID or the file ID', { completes: 'blob' }),
    name: valueFlag('name', 'What sealpin list calls it'),
    expires: valueFlag('when', `When the service deletes it: ${expiryForms}; never: it stays`),
  },
  service: true,
  interrupted: 'sealpin list shows the name; the same command changes what is left',
  examples: [
    { command: 'sealpin set bafkrei… --name report.pdf', does: 'Another name' },
    { command: 'sealpin set 6f1c2d3e-… --expires 30d', does: 'Deleted in 30 days' },
  ],
  async run({ args, context }) {
    if (args.name === undefined && args.expires === undefined)
      throw new SealpinError('usage', 'set needs --name or --expires', { hint: 'see: sealpin set --help' });
    const name = args.name === undefined ? undefined : parseName(args.name, '--name');
    const expiresAt = args.expires === 'never' ? null : parseExpiry(args.expires, context.now());
    const cid = isFileId(args.id) ? undefined : parseBlobId(args.id, '; a file ID, such as 6f1c2d3e-…, works too');
    const service = await authorizedService(context);
    const { key } = await introduction(api(service, context));
    requireScopes(key.scopes, ['read', 'write']);
    const hint = '--expires ends a file, which is deleting it: use a key with read, write and delete';
    if (expiresAt !== undefined) requireScopes(key.scopes, ['delete'], hint);
    const fileIds = cid === undefined ? [parseFileId(args.id)] : await filesWith(cid, service, context);
    const files: StoredFile[] = [];
    const until =
      expiresAt === null
        ? 'kept until it is deleted'
        : `will be deleted at ${expiresAt?.slice(0, 16).replace('T', ' ') ?? ''} UTC`;
    const words = [...(name === undefined ? [] : [`named ${name}`]), ...(expiresAt === undefined ? [] : [until])];
    try {
      for (const fileId of fileIds) {
        files.push(await changeStoredFile(fileId, { name, expiresAt }, service, context));
        context.output.note(`${fileId}: ${words.join(', ')}`);
      }
    } finally {
      if (files.length > 0) await context.output.result({ files }, []);
    }
  },
});

/** Changes one file. The service gets a name only where it has one, or seals it. */
async function changeStoredFile(
  fileId: string,
  { name, expiresAt }: { readonly name: string | undefined; readonly expiresAt: string | null | undefined },
  service: Service,
  context: Context,
): Promise<StoredFile> {
  const { describe, file } = api(service, context);
  const before = await file(fileId);
  const knowsName = before.mode === 'encrypted' || typeof before.filename === 'string';
  await describe(fileId, { filename: knowsName ? name : undefined, expiresAt });
  if (name !== undefined && !knowsName) {
    const { cid, size: bytes } = before;
    const { modified } = await fileInHistory(cid, context);
    // What was kept here alone stays here.
    const unnamed = before.details === undefined;
    await keepStored({ cid, fileId, bytes, name, modified }, service, context, { unnamed });
  }
  return file(fileId);
}
