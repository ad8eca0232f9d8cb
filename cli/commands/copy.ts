import { accessTo } from '../../client/blobs.ts';
import { openSealedFile } from '../../client/stored-files.ts';
import { StoredFile } from '../../shared/api.ts';
import { openAtWithFileKey } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { authorizedService } from '../remote/client.ts';
import { isFileId, parseFileId } from '../remote/file-id.ts';
import { openBlob, parseBlobId, readFailure, sourcesOf } from '../remote/fetch-blob.ts';
import { sdkHttp } from '../remote/sdk.ts';
import { type Copied, storeCopy, storeEncrypted, type Target, targetAt } from '../remote/store-copy.ts';
import { keepInHistory } from '../seal.ts';
import { nameInHistory } from '../stored-file.ts';
import { sizeText } from '../terminal/progress.ts';

export const command = defineCommand({
  about:
    'Copies files from the service in use to that of another profile; they stay where they are. Each block is verified on ' +
    'the way, and a blob keeps its ID. A file that the service encrypted is named by its file ID: it is opened here, and ' +
    'encrypted again by the other service, under a new blob ID.',
  args: {
    id: { type: 'positional', description: 'The blob ID or the file ID' },
    to: { type: 'string', valueHint: 'profile', description: 'The profile of the service that gets the copy' },
  },
  rest: 'id',
  service: true,
  examples: [
    { command: 'sealpin copy bafkrei… --to home', does: 'From the service in use to that of the profile home' },
    { command: 'sealpin copy bafkrei… bafybei… --profile work --to home', does: 'Two files between two profiles' },
  ],
  async run({ args, rest, context }) {
    const { output } = context;
    if (args.to === undefined)
      throw new SealpinError('usage', 'it is not said where to copy to', { hint: 'give --to <profile>' });
    const ids = [args.id, ...rest].map((id) => (isFileId(id) ? parseFileId(id) : parseBlobId(id)));
    const source = await authorizedService(context);
    const service = await authorizedService({ ...context, service: undefined, profile: args.to });
    if (service.url.href === source.url.href && service.apiKey === source.apiKey)
      throw new SealpinError('usage', `${args.to} is the service and the account that the files are in`, {
        hint: 'name another profile',
      });
    const target = await targetAt(service, context);
    const copies: (Copied & { readonly of: string })[] = [];
    for (const id of ids) {
      const copied = await copyOne(id, target, context);
      const { cid, fileId, bytes } = copied;
      const name = await nameInHistory(cid, context);
      await keepInHistory(
        { cid, fileId, service: service.url.href, bytes, ...(name === undefined ? {} : { name }) },
        context,
      );
      copies.push({ of: id, ...copied });
      output.note(`copied ${id} to ${args.to} (${sizeText(bytes)})`);
    }
    const shown = copies.map(({ of, cid, fileId, bytes }) => ({ of, blobId: cid, fileId, size: bytes }));
    await output.result(
      { service: service.url.href, copies: shown },
      copies.map(({ cid }) => cid),
    );
  },
});

async function copyOne(id: string, target: Target, context: Context): Promise<Copied> {
  const progress = context.output.progress('copying');
  const onBytes = (bytes: number): void => progress.add(bytes);
  const sending = { idempotencyKey: crypto.randomUUID(), onBytes };
  try {
    if (!isFileId(id)) return await storeCopy(id, await sourcesOf(context), target, sending);
    return await copyFile(id, target, sending, context);
  } catch (error) {
    throw readFailure(error);
  } finally {
    progress.done();
  }
}

/** Copies by file ID. What the service encrypted is opened here. */
async function copyFile(
  fileId: string,
  target: Target,
  sending: Parameters<typeof storeEncrypted>[3],
  context: Context,
): Promise<Copied> {
  const service = await authorizedService(context);
  const http = sdkHttp(service, context);
  const query = { data: 'false' };
  const { mode, cid } = await http.json(StoredFile, { path: `v1/storage/${fileId}`, query, signal: context.signal });
  if (mode === 'plain') return storeCopy(cid, await sourcesOf(context), target, sending);
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  try {
    const { fileKey, info } = await openSealedFile(http, service.apiKey, fileId, signal);
    const blob = await openBlob(cid, { ...context, signal });
    const opened = await openAtWithFileKey(accessTo(blob), { fileKey, backend: nodeBackend });
    return await storeEncrypted(opened, info.filename ?? fileId, target, sending);
  } finally {
    stop.abort(new SealpinError('interrupted'));
  }
}
