import { accessTo } from '../../client/blobs.ts';
import { openSealedFile } from '../../client/stored-files.ts';
import type { Scope, StoredFile } from '../../shared/api.ts';
import { openAtWithFileKey } from '../../shared/crypto/index.ts';
import { SealpinError, otherwise } from '../../shared/errors.ts';
import { defineCommand, positional, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { authorizedService, api, sdkHttp, type FileDescription } from '../remote/client.ts';
import { isFileId, parseFileId } from '../remote/file-id.ts';
import { parseBlobId, readFailure, sourcesOf, withBlob } from '../fetch/fetch-blob.ts';
import { ownFilesOf, withOwnFile } from '../fetch/own-files.ts';
import { type Copied, storeCopy, storeEncrypted, type Target, targetAt } from '../store/store-copy.ts';
import { sizeText } from '../terminal/size.ts';
import { fileInHistory, keepInHistory } from '../files/history.ts';

export const command = defineCommand({
  about:
    'Copies files from the service in use to that of another profile; they stay where they are. Each block is ' +
    'verified on the way, and a blob keeps its ID. A file that the service encrypted is named by its file ID: it is ' +
    'opened here, and encrypted again by the other service, under a new blob ID. Names, types, metadata and tags are ' +
    'copied, too, which takes an API key with the scopes read and write there, and delete for an expiry.',
  args: {
    id: positional('The blob ID or the file ID'),
    to: valueFlag('profile', 'The profile of the service that gets the copy'),
  },
  rest: 'id',
  service: true,
  interrupted: 'the files that it printed are there: leave them out, and the same command copies the others',
  examples: [
    { command: 'sealpin copy bafkrei… --to home', does: 'From the service in use to that of the profile home' },
    { command: 'sealpin copy bafkrei… bafybei… --profile work --to home', does: 'Two files between two profiles' },
  ],
  async run({ args, rest, context }) {
    const { output } = context;
    if (args.to === undefined) throw new SealpinError('usage', 'missing --to', { hint: 'give --to <profile>' });
    const ids = [args.id, ...rest].map((id) => (isFileId(id) ? parseFileId(id) : parseBlobId(id)));
    const source = await authorizedService(context);
    const service = await authorizedService({ ...context, service: undefined, profile: args.to });
    if (service.url.href === source.url.href && service.apiKey === source.apiKey)
      throw new SealpinError('usage', `${args.to} is the service and the account that the files are in`, {
        hint: 'name another profile',
      });
    const target = await targetAt(service, context);
    const { key } = await target.routes.account();
    const copies: (Copied & { readonly of: string })[] = [];
    try {
      for (const id of ids) {
        const { about, ...copied } = await copyOne(id, target, { ...context, ownFile: ownFilesOf(source) });
        copies.push({ of: id, ...copied });
        const { cid, fileId, bytes } = copied;
        const { name, modified } = await fileInHistory(cid, context);
        const kept = { cid, fileId, service: service.url.href, bytes, name, modified: modified?.toISOString() };
        await keepInHistory(kept, context);
        if (about !== undefined)
          await describeCopy(about, copied, { target, may: key.scopes, profile: args.to }, context);
        output.note(`copied ${id} to ${args.to} (${sizeText(bytes)})`);
      }
    } finally {
      // To copy a file once more would store it twice.
      const shown = copies.map(({ of, cid, fileId, bytes }) => ({ of, blobId: cid, fileId, size: bytes }));
      const lines = copies.map(({ cid }) => cid);
      if (copies.length > 0) await output.result({ service: service.url.href, copies: shown }, lines);
    }
  },
});

type Sending = Parameters<typeof storeEncrypted>[3];
/** A copy, and what else the source knows of the file. */
type CopiedFile = Copied & { readonly about: FileDescription | undefined };

async function copyOne(id: string, target: Target, context: Context): Promise<CopiedFile> {
  const progress = context.output.progress('copying');
  const sending = { idempotencyKey: crypto.randomUUID(), onBytes: progress.add };
  try {
    if (isFileId(id)) return await copyFile(id, target, sending, context);
    const about = await knownOf(id, context);
    return { ...(await copyBlob(id, target, sending, context)), about };
  } catch (error) {
    throw readFailure(error);
  } finally {
    progress.done();
  }
}

async function copyBlob(cid: string, target: Target, sending: Sending, context: Context): Promise<Copied> {
  return withOwnFile(cid, context, await sourcesOf(context), (from) => storeCopy(cid, from, target, sending));
}

/** Describes the account's newest file with these bytes. @throws wrong_kind for an encrypted one */
async function knownOf(cid: string, context: Context): Promise<StoredFile | undefined> {
  const listing = api(await authorizedService(context), context).list({ cid, limit: 1 });
  // The bytes can be read by anyone.
  const file = (await otherwise(listing, 'insufficient_scope', undefined))?.files[0];
  if (file?.mode === 'encrypted')
    throw new SealpinError('wrong_kind', `the service encrypted ${cid}, and no other account could open the copy`, {
      hint: `copy the file by its file ID: ${file.fileId}`,
    });
  return file;
}

/** Copies by file ID. What the service encrypted is opened here. */
async function copyFile(fileId: string, target: Target, sending: Sending, context: Context): Promise<CopiedFile> {
  const service = await authorizedService(context);
  const http = sdkHttp(service, context);
  const file = await api(service, context).file(fileId);
  const { mode, cid, expiresAt } = file;
  if (mode === 'plain') return { ...(await copyBlob(cid, target, sending, context)), about: file };
  const { fileKey, info } = await openSealedFile(http, service.apiKey, fileId, context.signal);
  return withBlob(cid, context, async (blob) => {
    const opened = await openAtWithFileKey(accessTo(blob), { fileKey, provider: nodeProvider });
    const { filename, ...rest } = info;
    const copied = await storeEncrypted(opened, filename ?? fileId, target, sending);
    return { ...copied, about: { ...rest, expiresAt } };
  });
}

/** Describes a copy as its file, as far as the API key may, and warns of what stays behind. */
async function describeCopy(
  about: FileDescription,
  { cid, fileId }: Copied,
  o: { readonly target: Target; readonly may: readonly Scope[]; readonly profile: string },
  context: Context,
): Promise<void> {
  const lacks = (scope: Scope): boolean => !o.may.includes(scope);
  const missing = (['read', 'write'] as const).find(lacks);
  if (missing !== undefined) {
    // A copy that the service encrypts was sent with its name.
    const what = about.filename === undefined ? `the type of ${cid}` : `what ${cid} is called`;
    context.output.warn(`${what}, its metadata and tags stay behind: the API key of ${o.profile} lacks ${missing}`);
    return;
  }
  const isEndless = about.expiresAt !== undefined && lacks('delete');
  if (isEndless) context.output.warn(`the copy of ${cid} does not expire: the API key of ${o.profile} lacks delete`);
  const { expiresAt, ...rest } = about;
  await o.target.routes.describe(fileId, isEndless ? rest : { ...rest, expiresAt });
}
